"""A fitted estimator as one file: safetensors for the arrays, JSON for the rest, no pickle.

A ``.firth`` file holds one tensor per fitted array (``parameters/coef_``, …, ``loo_path/nll``, …,
with ``standardize`` ``columns/mean`` and ``columns/spread``, with ``class_prior``
``classes/shift``; ``support/features`` and ``support/labels`` where `firthshot.fit` kept its rows)
and one metadata entry,
``firthshot-model``: the JSON text of format version, firthshot version, class name, parameters,
labels with their type, number and names of the features, encoder, the fitted numbers, and, where
they are known, the names of the label and the text column and a SHA-256 of all else.
:mod:`firthshot.estimators._loading` reads it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from firthshot import __version__
from firthshot.arrays import Array
from firthshot.errors import FirthshotError
from firthshot.files import write_whole

if TYPE_CHECKING:
    import torch


Shapes = dict[str, tuple[int, ...]]

FORMAT = 2
META_KEY, CHECKSUM = "firthshot-model", "sha256"
# What a model remembers of where its features come from: entry of the file, and attribute.
ORIGIN = {
    "encoder": "encoder_name_",
    "fingerprint": "encoder_fingerprint_",
    "label_name": "label_name_",
    "text_name": "text_name_",
}
FITTED = ("lam_", "l2_", "lam_source_", "l2_source_", "temperature_", "n_iter_", "converged_")
# No other text may reach NumPy's parser of types, nor make it reserve much memory.
LABEL_TYPES = re.compile(r"object|[<>|](U[0-9]{1,4}|[iu][1248]|f[248]|b1)")


class Saving:
    """What lets an estimator be saved: its ``save`` method, and the encoder it belongs to."""

    encoder_name_: str | None = None
    encoder_fingerprint_: str | None = None
    label_name_: str | None = None
    text_name_: str | None = None
    support_: ClassVar[Mapping[str, Array]] = {}
    record_: ClassVar[Mapping[str, Any]] = {}

    def to_torch(self) -> torch.nn.Module:
        """Return the fitted head as a torch module: rows (n, d) in, probabilities (n, K) out.

        Scaling and temperature are part of it. Its numbers are buffers in double precision, so that
        it moves with ``.to(device)`` and is saved with ``state_dict``; a cast of the network around
        it leaves them. The order of the classes is that of ``classes_``, its list ``classes``.
        """
        from firthshot.estimators._export import recorded
        from firthshot.estimators._module import FittedModule

        return FittedModule(*recorded(self))

    def to_onnx(self, path: str | Path) -> Path:
        """Write the fitted head as an ONNX file and return its path.

        The input ``features`` is (n, d) in float32; the outputs are ``label`` and
        ``probabilities``, the latter in the order of ``classes_`` and within 1e-5 of
        ``predict_proba``.
        """
        from firthshot.estimators._export import recorded
        from firthshot.estimators._onnx import write_graph

        return write_graph(*recorded(self), Path(path))

    def save(
        self,
        path: str | Path,
        *,
        encoder: str | None = None,
        fingerprint: str | None = None,
        label: str | None = None,
        text: str | None = None,
    ) -> None:
        """Write the fitted estimator to a file that `firthshot.load_model` reads.

        The file appears whole or not at all, and replaces an older one. It holds no code. It holds
        no training rows either, but for `FewShotClassifier`, whose neighbours need them. A
        RandomState given as ``random_state`` is saved as None.

        Parameters
        ----------
        path : str or Path
            By custom it ends in ``.firth``.
        encoder, fingerprint : str, optional
            Name of the encoder that made the features, and anything that identifies its weights.
            They are kept as ``encoder_name_`` and ``encoder_fingerprint_``, and are those of the
            loaded model unless given.
        label, text : str, optional
            Names of the columns that held the labels and the texts that were encoded, kept as
            ``label_name_`` and ``text_name_`` likewise.
        """
        from safetensors.numpy import save
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        for name, value in zip(ORIGIN.values(), (encoder, fingerprint, label, text), strict=True):
            if value is not None:
                setattr(self, name, value)
        tensors, meta = _tensors(self), _describe(self)
        meta[CHECKSUM] = checksum(meta, tensors)
        content = save(tensors, metadata={META_KEY: json.dumps(meta)})
        try:
            write_whole(Path(path), content)
        except OSError as error:
            raise FirthshotError(f"{path} cannot be written: {error.strerror or error}.") from None


SAVED = (
    "FewShotClassifier",
    "FirthClassifier",
    "FirthCosineClassifier",
    "FirthMLPClassifier",
)


def class_of(name: Any) -> Any:
    """Return the class of an estimator by the name that a file holds."""
    from firthshot import estimators

    if not isinstance(name, str) or name not in SAVED:
        raise FirthshotError(f"it holds a {name!r}, which is not one of {', '.join(SAVED)}")
    return getattr(estimators, name)


# Writing


def _tensors(model: Any) -> dict[str, Array]:
    groups = {
        "parameters": model._fitted_parameters(),
        "columns": {} if model.column_scale_ is None else vars(model.column_scale_),
        "classes": {} if model._prior_shift is None else {"shift": model._prior_shift},
        "loo_path": getattr(model, "loo_path_", {}),
        "support": model.support_,
    }
    return {
        f"{group}/{name}": np.ascontiguousarray(values)
        for group, arrays in groups.items()
        for name, values in arrays.items()
    }


def _describe(model: Any) -> dict[str, Any]:
    name = type(model).__name__
    if name not in SAVED or type(model) is not class_of(name):
        raise FirthshotError(f"A {name} cannot be saved: only {', '.join(SAVED)} can.")
    names = getattr(model, "feature_names_in_", None)
    return {
        "format": FORMAT,
        "firthshot": __version__,
        "class": name,
        "params": {key: encode(value) for key, value in model.get_params().items()},
        "classes": encode_classes(model.classes_),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(one) for one in names],
        **{key: getattr(model, name) for key, name in ORIGIN.items()},
        "fitted": {key: encode(value) for key, value in model._fitted_numbers().items()},
        **({"record": dict(model.record_)} if model.record_ else {}),
    }


def checksum(meta: Mapping[str, Any], tensors: Mapping[str, Array]) -> str:
    """Return the SHA-256 of a description, but for its own checksum, and of the tensors."""
    described = {key: value for key, value in meta.items() if key != CHECKSUM}
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for name in sorted(tensors):
        values = tensors[name]
        digest.update(f"{name} {values.dtype.str} {values.shape}".encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def encode(value: Any) -> Any:
    """Return a value in JSON's terms; what JSON does not tell apart is an object of one entry."""
    value = value.item() if isinstance(value, np.generic) else value
    match value:
        case float() if not math.isfinite(value):
            return {"float": repr(value)}
        case None | bool() | int() | float() | str():
            return value
        case np.ndarray():
            return {"array": encode(value.tolist())}
        case tuple():
            return {"tuple": [encode(one) for one in value]}
        case list():
            return [encode(one) for one in value]
        case dict():
            return {"dict": [[encode(key), encode(one)] for key, one in value.items()]}
        case np.random.RandomState():
            return None
    raise FirthshotError(
        f"A {type(value).__name__} cannot be saved: give parameters and labels as numbers or text."
    )


def decode(value: Any) -> Any:
    """Return the value that `encode` was given."""
    if isinstance(value, list):
        return [decode(one) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind:
        case "float":
            return float(content)
        case "array":
            return np.array(decode(content))
        case "tuple":
            return tuple(decode(content))
        case "dict":
            return {decode(key): decode(one) for key, one in content}
    raise FirthshotError(f"it holds a value of the unknown kind {kind!r}")


def encode_classes(classes: Array) -> dict[str, Any]:
    """Return labels in JSON's terms, with their type."""
    kind = classes.dtype.str
    kind = kind if LABEL_TYPES.fullmatch(kind) else "object"
    return {"dtype": kind, "values": [encode(one) for one in classes.tolist()]}


def decode_classes(described: Any) -> Array:
    """Return the labels in their own type, sorted and different, two or more."""
    from firthshot.guard import ROOM

    values, kind = [decode(one) for one in described["values"]], described["dtype"]
    if not LABEL_TYPES.fullmatch(kind) or len(values) < 2:
        raise FirthshotError("its classes are not labels, or fewer than two")
    if len(values) * np.dtype(kind).itemsize > ROOM:  # a width is a few bytes of the file
        raise FirthshotError("its classes are wider than any names")
    classes = np.empty(len(values), kind)
    classes[:] = values
    if [encode(one) for one in classes.tolist()] != described["values"]:
        raise FirthshotError("its classes do not fit their type")
    if len(set(values)) < len(values):
        raise FirthshotError("its classes are not all different")
    return classes
