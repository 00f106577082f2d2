"""Read a saved estimator, with suspicion.

Only the classes that can be saved are built, from checked parameters and from arrays of the shapes
that these imply.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from firthshot import __version__
from firthshot.arrays import Array
from firthshot.errors import FirthshotError, refusing
from firthshot.estimators._columns import ColumnScale
from firthshot.estimators._saving import (
    CHECKSUM,
    FORMAT,
    META_KEY,
    ORIGIN,
    Shapes,
    checksum,
    class_of,
    decode,
    decode_classes,
)

ILL_FORMED = (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError)
GROUPS = ("parameters", "loo_path", "columns", "classes", "support")

Coefficient = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]
Source = Literal["given", "fallback", "shots", "theory", "scale", "loo"]


class FittedNumbers(msgspec.Struct):
    """What an explicit head has settled beside its arrays."""

    lam_: Coefficient
    l2_: Coefficient
    lam_source_: Source
    l2_source_: Source
    temperature_: Annotated[float, msgspec.Meta(gt=0, le=sys.float_info.max)]
    n_iter_: int
    converged_: bool


class Description(msgspec.Struct):
    """What a file says of its model beside class, parameters and labels."""

    n_features: Annotated[int, msgspec.Meta(ge=1)]
    feature_names: list[str] | None
    fitted: dict[str, Any]
    encoder: str | None
    fingerprint: str | None
    label_name: str | None = None  # older files have neither this nor what follows
    text_name: str | None = None
    record: dict[str, Any] = {}


def load_model(path: str | Path) -> Any:
    """Read an estimator that was saved with its ``save`` method.

    Returns
    -------
    FewShotClassifier, FirthClassifier, FirthCosineClassifier or FirthMLPClassifier
        Its predictions are those of the saved one, bit for bit.

    Raises
    ------
    FirthshotError
        When the file is missing, damaged, of another kind, or from a newer version of firthshot.
    """
    path = Path(path)
    if not path.is_file():
        raise FirthshotError(f"There is no model file {path}.")
    try:
        meta, tensors = _read(path)
        model = _build(meta, tensors)
        _check_sum(meta, tensors)
        return model
    except FirthshotError as error:
        reason = str(error).rstrip(".")
        raise FirthshotError(f"{path} cannot be loaded as a model: {reason}.") from None
    except OSError as error:
        raise FirthshotError(f"{path} cannot be read: {error.strerror or error}.") from None


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the metadata and the tensors of a model file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            meta = _parse((file.metadata() or {}).get(META_KEY))
            names = file.keys()
            odd = {file.get_slice(name).get_dtype() for name in names} - {"F32", "F64"}
            if odd:
                raise FirthshotError(f"it holds tensors of type {', '.join(sorted(odd))}")
            return meta, {name: file.get_tensor(name) for name in names}
    except SafetensorError:
        raise FirthshotError("it is damaged, cut short, or another kind of file") from None


def _check_sum(meta: Mapping[str, Any], tensors: Mapping[str, Array]) -> None:
    """Refuse content other than what was saved; files from before there was a checksum pass."""
    try:
        sound = CHECKSUM not in meta or meta[CHECKSUM] == checksum(meta, tensors)
    except RecursionError:  # of an entry that no model has
        sound = False
    if not sound:
        raise FirthshotError("its content has changed since it was saved: fit and save it again")


def _parse(text: str | None) -> dict[str, Any]:
    if text is None:
        raise FirthshotError("it is a safetensors file, but not a firthshot model")
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError):
        raise FirthshotError("its description is not JSON") from None
    version = meta.get("format") if isinstance(meta, dict) else None
    if type(version) is not int or version < 1:
        raise FirthshotError("it does not say which format it has")
    if version > FORMAT:
        raise FirthshotError(
            f"it was written by firthshot {meta.get('firthshot')} in format {version}, and this is "
            f"firthshot {__version__}: upgrade it"
        )
    if version < FORMAT:
        raise FirthshotError(
            f"it is of format {version}, from before the first release: fit and save it again"
        )
    return dict(meta)


def _build(meta: Mapping[str, Any], tensors: dict[str, Array]) -> Any:
    """Return the estimator that metadata and tensors describe, or refuse them."""
    with refusing("its description is ill-formed", ILL_FORMED):
        model = _with_parameters(class_of(meta["class"]), meta["params"])
        model.classes_ = decode_classes(meta["classes"])
        described = msgspec.convert(meta, Description)
        if hasattr(model, "_shapes"):
            vars(model).update(
                msgspec.structs.asdict(msgspec.convert(meta["fitted"], FittedNumbers))
            )
    model.n_features_in_, names = described.n_features, described.feature_names
    if names is not None:
        if len(names) != model.n_features_in_:
            raise FirthshotError("the names of its features do not fit their number")
        model.feature_names_in_ = np.array(names, dtype=object)
    for key, attribute in ORIGIN.items():
        setattr(model, attribute, getattr(described, key))
    model.record_ = described.record
    groups = _grouped(tensors)
    model.support_ = _support(groups["support"], described.n_features, len(model.classes_))
    if hasattr(model, "_shapes"):
        _restore_head(model, groups)
    elif groups["loo_path"] or groups["columns"] or groups["classes"]:
        raise FirthshotError("it holds arrays that its kind of model does not have")
    else:
        model._restore(described.fitted, groups["parameters"])
    return model


def _restore_head(model: Any, groups: dict[str, dict[str, Array]]) -> None:
    """Give one of the explicit heads its arrays, or refuse them."""
    parameters, columns, classes = (groups[name] for name in ("parameters", "columns", "classes"))
    d, K = model.n_features_in_, len(model.classes_)
    _check_shapes(parameters, model._shapes(d, K))
    _check_shapes(columns, {"mean": (d,), "spread": (d,)} if model.standardize else {})
    _check_shapes(classes, {} if model.class_prior is None else {"shift": (K,)})
    if columns:
        if not (columns["spread"] > 0).all():
            raise FirthshotError("its columns have a spread that is not above zero")
        model.column_scale_ = ColumnScale(**columns)
    model._prior_shift = classes.get("shift")
    if groups["loo_path"]:
        model.loo_path_ = groups["loo_path"]
    vars(model).update(parameters)


def _with_parameters(cls: Any, params: Any) -> Any:
    known = set(cls().get_params())
    if not isinstance(params, dict) or set(params) != known:
        odd = sorted(set(params) ^ known) if isinstance(params, dict) else []
        raise FirthshotError(f"its parameters are not those of {cls.__name__}: {', '.join(odd)}")
    model = cls(**{name: decode(value) for name, value in params.items()})
    model._check_parameters()
    return model


def _support(arrays: dict[str, Array], d: int, n_classes: int) -> dict[str, Array]:
    """Return the rows that `firthshot.fit` kept, or refuse what are none."""
    if arrays:
        labels = arrays.get("labels", np.empty(0))
        what = "the rows that it keeps do not fit its classes and features"
        _check_shapes(arrays, {"features": (labels.size, d), "labels": (labels.size,)}, what)
        if not np.isin(labels, np.arange(n_classes)).all():
            raise FirthshotError(what)
    return arrays


def _grouped(tensors: dict[str, Array]) -> dict[str, dict[str, Array]]:
    """Return the tensors by group and name."""
    groups: dict[str, dict[str, Array]] = {kind: {} for kind in GROUPS}
    for whole, values in tensors.items():
        group, _, name = whole.partition("/")
        if group not in groups or not name:
            raise FirthshotError(f"it holds a tensor {whole!r}, which a model does not have")
        groups[group][name] = values
    return groups


def _check_shapes(
    arrays: dict[str, Array],
    expected: Shapes,
    otherwise: str = "its arrays do not fit its classes, features and parameters",
) -> None:
    if {name: values.shape for name, values in arrays.items()} != expected:
        raise FirthshotError(otherwise)
    if not all(np.isfinite(values).all() for values in arrays.values()):
        raise FirthshotError("its arrays hold a NaN or an infinity")
