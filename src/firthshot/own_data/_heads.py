"""The heads that `fit` can take, by name, and what they are for use without this package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError, MissingExtraError
from firthshot.own_data._examples import Examples, named_rows
from firthshot.own_data._remarks import columns_differ

if TYPE_CHECKING:
    from firthshot.own_data._model import FittedModel

AUTO = "auto"
HEADS = {
    AUTO: "FewShotClassifier",
    "linear": "FirthClassifier",
    "cosine": "FirthCosineClassifier",
    "mlp": "FirthMLPClassifier",
}
EXPLICIT_ONLY = ("calibrate", "standardize")
EXPORTS = {"onnx": ".onnx", "skops": ".skops", "sklearn": ".joblib"}


def make_head(head: str, given: dict[str, Any], examples: Examples | None = None) -> Any:
    """Return the unfitted estimator of a name of HEADS with the parameters that were given.

    ``class_weight``, "balanced" or "none", is one of every head. The columns and class sizes of
    ``examples``, the rows to fit, settle what was not given.
    """
    from firthshot import estimators

    if head not in HEADS:
        raise FirthshotError(f"Head {head!r} is unknown: choose from {', '.join(HEADS)}.", "head")
    weight = given.get("class_weight")
    if weight not in (None, "balanced", "none"):
        raise FirthshotError(f"class_weight is {weight!r}: choose 'balanced' or 'none'.")
    kind = getattr(estimators, HEADS[head])
    parameters = {name: value for name, value in given.items() if name != "class_weight"}
    parameters |= _auto(given) if head == AUTO else _explicit(given, examples)
    unknown = set(parameters) - set(kind().get_params())
    if unknown:
        raise FirthshotError(
            f"Head {head!r} has no parameter {', '.join(sorted(unknown))}: leave it out, or name "
            "another head.",
            "head",
        )
    return kind(**parameters)


def _auto(given: dict[str, Any]) -> dict[str, Any]:
    for name in EXPLICIT_ONLY:
        if name in given:
            raise FirthshotError(
                f"{name} belongs to the heads linear, cosine and mlp: name one of them.", "head"
            )
    return {"class_prior": "training"} if given.get("class_weight") == "none" else {}


def _explicit(given: dict[str, Any], examples: Examples | None) -> dict[str, Any]:
    if examples is None:
        return {}
    uneven = bool(np.ptp(np.bincount(examples.coded_labels()[1])))
    balanced = given.get("class_weight") != "none" and uneven
    return {
        "calibrate": given.get("calibrate", True),
        "standardize": given.get("standardize", columns_differ(examples)),
        "class_weight": "balanced" if balanced else None,
    }


def counts_alike(estimator: Any) -> bool:
    """Tell whether classes count alike, however many rows they have."""
    parameters = estimator.get_params()
    prior = parameters["class_prior"]
    if prior is None:
        return bool(parameters["class_weight"] == "balanced")
    return isinstance(prior, str) and prior == "uniform"


def export_head(model: FittedModel, kind: str, path: Path) -> Path:
    """Write the head of a model to a file and return its path.

    "sklearn" is a joblib file, a pickle, of a plain scikit-learn pipeline; "skops" holds the same
    pipeline without pickle.
    """
    if kind == "onnx":
        return Path(model.estimator.to_onnx(path))
    pipeline = as_pipeline(model.estimator)
    if kind == "sklearn":
        import joblib

        joblib.dump(pipeline, path)
        return path
    try:
        from skops.io import dump
    except ImportError:
        raise MissingExtraError("A skops file", "skops") from None
    dump(pipeline, path)
    return path


def as_pipeline(estimator: Any) -> Any:
    """Return a linear or cosine head as a pipeline of scikit-learn's classes."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    from firthshot.estimators import FirthClassifier, FirthCosineClassifier

    cosine = isinstance(estimator, FirthCosineClassifier)
    scaled = cosine and estimator.column_scale_ is not None
    if not isinstance(estimator, FirthClassifier) or scaled:
        raise FirthshotError(
            "scikit-learn has no classes for this head: write it as onnx, or fit the linear head.",
            "head=linear",
        )
    W, b = _affine(estimator)
    head = LogisticRegression()
    head.classes_, head.n_features_in_ = estimator.classes_, W.shape[1]
    two = len(W) == 2
    head.coef_, head.intercept_ = (W[1:] - W[:1], b[1:] - b[:1]) if two else (W, b)
    head.n_iter_ = np.array([1])
    return make_pipeline(Normalizer(), head) if cosine else make_pipeline(head)


def _affine(estimator: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return W (K, d) and b (K,) of logits that are affine in the rows, or in their directions.

    They are read off the probabilities of ± the unit vectors, so that scaling, temperature and
    frequencies of classes are in them.
    """
    d = int(estimator.n_features_in_)
    unit = np.eye(d)
    names = getattr(estimator, "feature_names_in_", None)
    plus, minus = (
        np.asarray(estimator.predict_log_proba(named_rows(rows, names))) for rows in (unit, -unit)
    )
    plus, minus = (one - one.mean(axis=1, keepdims=True) for one in (plus, minus))
    return np.asarray((plus - minus).T / 2), np.asarray((plus + minus).mean(axis=0) / 2)
