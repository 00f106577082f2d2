"""Read a saved estimator, with suspicion.

Only the classes that can be saved are built, from checked parameters and from arrays of the shapes
that these imply.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot import __version__
from firthshot.arrays import Array
from firthshot.errors import FirthshotError
from firthshot.estimators._columns import ColumnScale
from firthshot.estimators._input import COEFFICIENT_WORDS
from firthshot.estimators._saving import (
    CHECKSUM,
    CLASSES,
    COLUMNS,
    FITTED,
    FORMAT,
    LOO_PATH,
    META_KEY,
    ORIGIN,
    PARAMETERS,
    SUPPORT,
    Shapes,
    checksum,
    class_of,
    decode,
    decode_classes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCES = {"given", "fallback"}.union(*COEFFICIENT_WORDS.values())


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
    try:
        model = _with_parameters(class_of(meta["class"]), meta["params"])
        classes = decode_classes(meta["classes"])
        d, names = _features(meta["n_features"], meta["feature_names"])
        fitted = meta["fitted"]
        described = {"label_name": None, "text_name": None, **meta}  # older files have neither
        origin = {name: described[key] for key, name in ORIGIN.items()}
        if not all(one is None or isinstance(one, str) for one in origin.values()):
            raise FirthshotError("its encoder or one of its columns is not a name")
    except FirthshotError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError):
        raise FirthshotError("its description is incomplete or ill-formed") from None
    groups = _grouped(tensors)
    model.classes_, model.n_features_in_ = classes, d
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    vars(model).update(origin)
    model.support_ = _support(groups[SUPPORT], d, len(classes))
    model.record_ = _record(meta)
    if hasattr(model, "_shapes"):
        _restore_head(model, fitted, groups)
    elif groups[LOO_PATH] or groups[COLUMNS] or groups[CLASSES]:
        raise FirthshotError("it holds arrays that its kind of model does not have")
    else:
        model._restore(fitted, groups[PARAMETERS])
    return model


def _restore_head(model: Any, fitted: Any, groups: dict[str, dict[str, Array]]) -> None:
    """Give one of the explicit heads its fitted numbers and arrays, or refuse them."""
    parameters, path, d = groups[PARAMETERS], groups[LOO_PATH], model.n_features_in_
    numbers = _fitted_numbers(fitted)
    K = len(model.classes_)
    _check_shapes(parameters, model._shapes(d, K))
    model.column_scale_ = _column_scale(groups[COLUMNS], d, model.standardize)
    _check_shapes(groups[CLASSES], {} if model.class_prior is None else {"shift": (K,)})
    model._prior_shift = groups[CLASSES].get("shift")
    if path:
        model.loo_path_ = path
    model._fitted_names = tuple(parameters)
    vars(model).update(numbers | parameters)


def _with_parameters(cls: Any, params: Any) -> Any:
    known = set(cls().get_params())
    if not isinstance(params, dict) or set(params) != known:
        odd = sorted(set(params) ^ known) if isinstance(params, dict) else []
        raise FirthshotError(f"its parameters are not those of {cls.__name__}: {', '.join(odd)}")
    model = cls(**{name: decode(value) for name, value in params.items()})
    model._check_parameters()
    return model


def _features(n_features: Any, names: Any) -> tuple[int, list[str] | None]:
    if type(n_features) is not int or n_features < 1:
        raise FirthshotError("it has no features")
    if names is not None and not (
        isinstance(names, list)
        and len(names) == n_features
        and all(isinstance(name, str) for name in names)
    ):
        raise FirthshotError("the names of its features do not fit their number")
    return n_features, names


def _fitted_numbers(fitted: Any) -> dict[str, Any]:
    """Return the fitted numbers, or refuse a set that no fit can give."""
    try:
        values = {name: fitted[name] for name in FITTED}
    except (KeyError, TypeError):
        raise FirthshotError("its description is incomplete or ill-formed") from None
    coefficients = [values["lam_"], values["l2_"]]
    sources = [values["lam_source_"], values["l2_source_"]]
    sound = (
        all(type(c) in (int, float) and 0 <= c < math.inf for c in coefficients)
        and all(source in SOURCES for source in sources)
        and type(values["temperature_"]) in (int, float)
        and 0 < values["temperature_"] < math.inf
        and type(values["n_iter_"]) is int
        and type(values["converged_"]) is bool
    )
    if not sound:
        raise FirthshotError("its fitted numbers are impossible")
    return values


def _support(arrays: dict[str, Array], d: int, n_classes: int) -> dict[str, Array]:
    """Return the rows that `firthshot.fit` kept, or refuse what are none."""
    if not arrays:
        return {}
    features, labels = arrays.get("features"), arrays.get("labels")
    sound = (
        set(arrays) == {"features", "labels"}
        and features is not None
        and labels is not None
        and features.ndim == 2
        and features.shape[1] == d
        and labels.shape == (len(features),)
        and bool(np.isfinite(features).all())
        and bool(np.isin(labels, np.arange(n_classes)).all())
    )
    if not sound:
        raise FirthshotError("the rows that it keeps do not fit its classes and features")
    return arrays


def _record(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `firthshot.fit` noted of its rows; older files have nothing."""
    record = meta.get("record", {})
    if not isinstance(record, dict):
        raise FirthshotError("its record of the fit is ill-formed")
    return record


def _grouped(tensors: dict[str, Array]) -> dict[str, dict[str, Array]]:
    """Return the tensors by group and name."""
    kinds = (PARAMETERS, LOO_PATH, COLUMNS, CLASSES, SUPPORT)
    groups: dict[str, dict[str, Array]] = {kind: {} for kind in kinds}
    for whole, values in tensors.items():
        group, _, name = whole.partition("/")
        if group not in groups or not name:
            raise FirthshotError(f"it holds a tensor {whole!r}, which a model does not have")
        groups[group][name] = values
    return groups


def _column_scale(columns: dict[str, Array], d: int, standardized: bool) -> ColumnScale | None:
    """Return the scale of the columns, which a standardized model has and no other."""
    expected: Shapes = {"mean": (d,), "spread": (d,)} if standardized else {}
    _check_shapes(columns, expected)
    if not columns:
        return None
    if not (columns["spread"] > 0).all():
        raise FirthshotError("its columns have a spread that is not above zero")
    return ColumnScale(**columns)


def _check_shapes(parameters: dict[str, Array], expected: Shapes) -> None:
    found = {name: values.shape for name, values in parameters.items()}
    if found != expected:
        raise FirthshotError("its arrays do not fit its classes, features and parameters")
    if not all(np.isfinite(values).all() for values in parameters.values()):
        raise FirthshotError("its arrays hold a NaN or an infinity")
