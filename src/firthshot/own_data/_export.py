"""A fitted head for use without this package: ONNX, skops, or scikit-learn's own classes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError, MissingExtraError
from firthshot.own_data._examples import named_rows

if TYPE_CHECKING:
    from firthshot.own_data._model import FittedModel

ENDINGS = {"onnx": ".onnx", "skops": ".skops", "sklearn": ".joblib"}


def export_head(model: FittedModel, kind: str, path: Path) -> Path:
    """Write the head of a model to a file and return its path.

    Parameters
    ----------
    kind : {"onnx", "skops", "sklearn"}
        "sklearn" is a joblib file, a pickle, of a plain scikit-learn pipeline; "skops" holds the
        same pipeline without pickle.
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
