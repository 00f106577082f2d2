"""A fitted estimator as one file: safetensors for the arrays, JSON for the rest, no pickle.

A ``.firth`` file holds one tensor per fitted array (``parameters/coef_``, …, ``loo_path/nll``, …)
and one metadata entry, ``firthshot-model``: the JSON text of format version, firthshot version,
class name, parameters, labels with their type, number and names of the features, encoder, and the
fitted numbers. It is read with suspicion: only the classes below are built, from checked
parameters and from arrays of the shapes that these imply.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import firthshot
from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Array = npt.NDArray[Any]
Shapes = dict[str, tuple[int, ...]]

FORMAT = 1
META_KEY = "firthshot-model"
PARAMETERS, LOO_PATH = "parameters/", "loo_path/"
FITTED = ("lam_", "l2_", "lam_source_", "l2_source_", "temperature_", "n_iter_", "converged_")
# No other text may reach NumPy's parser of types, nor make it reserve much memory.
LABEL_TYPES = re.compile(r"object|[<>|](U[0-9]{1,4}|[iu][1248]|f[248]|b1)")
SOURCES = ("given", "shots", "theory", "scale", "loo", "fallback")


class Saving:
    """What lets an estimator be saved: its ``save`` method, and the encoder it belongs to."""

    encoder_name_: str | None = None
    encoder_fingerprint_: str | None = None

    def save(
        self, path: str | Path, *, encoder: str | None = None, fingerprint: str | None = None
    ) -> None:
        """Write the fitted estimator to a file that `firthshot.load_model` reads.

        The file appears whole or not at all, and replaces an older one. It holds no code and no
        training rows; a RandomState given as ``random_state`` is saved as None.

        Parameters
        ----------
        path : str or Path
            By custom it ends in ``.firth``.
        encoder, fingerprint : str, optional
            Name of the encoder that made the features, and anything that identifies its weights.
            They are kept as ``encoder_name_`` and ``encoder_fingerprint_``, and are those of the
            loaded model unless given.
        """
        from safetensors.numpy import save
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        self.encoder_name_ = encoder if encoder is not None else self.encoder_name_
        self.encoder_fingerprint_ = (
            fingerprint if fingerprint is not None else self.encoder_fingerprint_
        )
        content = save(_tensors(self), metadata={META_KEY: json.dumps(_describe(self))})
        _write_whole(Path(path), content)


def load_model(path: str | Path) -> Any:
    """Read an estimator that was saved with its ``save`` method.

    Returns
    -------
    FirthClassifier, FirthCosineClassifier or FirthMLPClassifier
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
        return _build(meta, tensors)
    except FirthshotError as error:
        reason = str(error).rstrip(".")
        raise FirthshotError(f"{path} cannot be loaded as a model: {reason}.") from None
    except OSError as error:
        raise FirthshotError(f"{path} cannot be read: {error.strerror or error}.") from None


# What a saved model may be, and the shapes of its arrays


def _linear_shapes(_model: Any, d: int, K: int) -> Shapes:
    rows = 1 if K == 2 else K
    return {"coef_": (rows, d), "intercept_": (rows,)}


def _mlp_shapes(model: Any, d: int, K: int) -> Shapes:
    widths = [d, *model.hidden, K]
    shapes: Shapes = {}
    for layer in range(len(widths) - 1):
        shapes[f"coef_{layer}_"] = (widths[layer], widths[layer + 1])
        shapes[f"intercept_{layer}_"] = (widths[layer + 1],)
    return shapes


SHAPES: dict[str, Callable[[Any, int, int], Shapes]] = {
    "FirthClassifier": _linear_shapes,
    "FirthCosineClassifier": _linear_shapes,
    "FirthMLPClassifier": _mlp_shapes,
}


def _class_of(name: Any) -> Any:
    from firthshot import estimators

    if not isinstance(name, str) or name not in SHAPES:
        raise FirthshotError(f"it holds a {name!r}, which is not one of {', '.join(SHAPES)}")
    return getattr(estimators, name)


# Writing


def _tensors(model: Any) -> dict[str, Array]:
    arrays = {PARAMETERS + name: values for name, values in model._fitted_parameters().items()}
    path = getattr(model, "loo_path_", {})
    arrays |= {LOO_PATH + name: np.asarray(values, np.float64) for name, values in path.items()}
    return {name: np.ascontiguousarray(values) for name, values in arrays.items()}


def _describe(model: Any) -> dict[str, Any]:
    name = type(model).__name__
    if name not in SHAPES or type(model) is not _class_of(name):
        raise FirthshotError(f"A {name} cannot be saved: only {', '.join(SHAPES)} can.")
    names = getattr(model, "feature_names_in_", None)
    return {
        "format": FORMAT,
        "firthshot": firthshot.__version__,
        "class": name,
        "params": {key: _encode(value) for key, value in model.get_params().items()},
        "classes": _encode_classes(model.classes_),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(one) for one in names],
        "encoder": model.encoder_name_,
        "fingerprint": model.encoder_fingerprint_,
        "fitted": {key: _encode(getattr(model, key)) for key in FITTED},
    }


def _encode(value: Any) -> Any:
    """Return a value in JSON's terms; what JSON does not tell apart is an object of one entry."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        return {"array": _encode(value.tolist())}
    if isinstance(value, tuple):
        return {"tuple": [_encode(one) for one in value]}
    if isinstance(value, list):
        return [_encode(one) for one in value]
    if isinstance(value, dict):
        return {"dict": [[_encode(key), _encode(one)] for key, one in value.items()]}
    if isinstance(value, np.random.RandomState):
        return None
    raise FirthshotError(
        f"A {type(value).__name__} cannot be saved: give parameters and labels as numbers or text."
    )


def _encode_classes(classes: Array) -> dict[str, Any]:
    kind = classes.dtype.str
    kind = kind if LABEL_TYPES.fullmatch(kind) else "object"
    return {"dtype": kind, "values": [_encode(one) for one in classes.tolist()]}


def _write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise FirthshotError(f"{path} cannot be written: {error.strerror or error}.") from None
    finally:
        temporary.unlink(missing_ok=True)


# Reading


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
            f"firthshot {firthshot.__version__}: upgrade it"
        )
    return dict(meta)


def _build(meta: Mapping[str, Any], tensors: dict[str, Array]) -> Any:
    """Return the estimator that metadata and tensors describe, or refuse them."""
    try:
        model = _with_parameters(_class_of(meta["class"]), meta["params"])
        classes = _decode_classes(meta["classes"])
        d, names = _features(meta["n_features"], meta["feature_names"])
        fitted = _fitted_numbers(meta["fitted"])
        encoder, fingerprint = meta["encoder"], meta["fingerprint"]
        if not all(value is None or isinstance(value, str) for value in (encoder, fingerprint)):
            raise FirthshotError("its encoder is not a name")
    except (
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
        OverflowError,
        RecursionError,
    ) as error:
        if isinstance(error, FirthshotError):
            raise
        raise FirthshotError("its description is incomplete or ill-formed") from None
    parameters, path = _sorted_tensors(tensors)
    _check_shapes(parameters, SHAPES[type(model).__name__](model, d, len(classes)))
    model.classes_, model.n_features_in_ = classes, d
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    for name, value in {**fitted, **parameters}.items():
        setattr(model, name, value)
    model._fitted_names = tuple(parameters)
    if path:
        model.loo_path_ = path
    model.encoder_name_, model.encoder_fingerprint_ = encoder, fingerprint
    return model


def _with_parameters(cls: Any, params: Any) -> Any:
    known = set(cls().get_params())
    if not isinstance(params, dict) or set(params) != known:
        odd = sorted(set(params) ^ known) if isinstance(params, dict) else []
        raise FirthshotError(f"its parameters are not those of {cls.__name__}: {', '.join(odd)}")
    model = cls(**{name: _decode(value) for name, value in params.items()})
    model._check_parameters()
    return model


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(one) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "float":
        return float(content)
    if kind == "array":
        return np.array(_decode(content))
    if kind == "tuple":
        return tuple(_decode(one) for one in content)
    if kind == "dict":
        return {_decode(key): _decode(one) for key, one in content}
    raise FirthshotError(f"it holds a value of the unknown kind {kind!r}")


def _decode_classes(described: Any) -> Array:
    """Return the labels in their own type, sorted and different, two or more."""
    values, kind = [_decode(one) for one in described["values"]], described["dtype"]
    if not LABEL_TYPES.fullmatch(kind) or len(values) < 2:
        raise FirthshotError("its classes are not labels, or fewer than two")
    classes = np.empty(len(values), kind)
    classes[:] = values
    if [_encode(one) for one in classes.tolist()] != described["values"]:
        raise FirthshotError("its classes do not fit their type")
    if len(set(values)) < len(values):
        raise FirthshotError("its classes are not all different")
    return classes


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
    values = {name: fitted[name] for name in FITTED}
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


def _sorted_tensors(tensors: dict[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    parameters, path = {}, {}
    for name, values in tensors.items():
        if name.startswith(PARAMETERS):
            parameters[name.removeprefix(PARAMETERS)] = values
        elif name.startswith(LOO_PATH):
            path[name.removeprefix(LOO_PATH)] = values
        else:
            raise FirthshotError(f"it holds a tensor {name!r}, which a model does not have")
    return parameters, path


def _check_shapes(parameters: dict[str, Array], expected: Shapes) -> None:
    found = {name: values.shape for name, values in parameters.items()}
    if found != expected:
        raise FirthshotError("its arrays do not fit its classes, features and parameters")
    if not all(np.isfinite(values).all() for values in parameters.values()):
        raise FirthshotError("its arrays hold a NaN or an infinity")
