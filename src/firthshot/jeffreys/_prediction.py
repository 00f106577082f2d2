"""Predictions with profile or Wald intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError, check_choice
from firthshot.jeffreys._inference import INTERVALS
from firthshot.jeffreys._profile import chi2_quantile, profile_intervals

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from numpy.typing import NDArray

    from firthshot.jeffreys._kernels.memory import FloatArray
    from firthshot.jeffreys._model import Fit
    from firthshot.jeffreys.estimator import JeffreysLogisticRegression

KINDS = ("probability", "linear")
_AT_ONCE = 100  # rows whose profiles are found together: memory grows with the square
_ESTIMABLE = 1e-8  # of a row outside the span of the design, relative: rounding, with room


@dataclass(frozen=True)
class _Points:
    """Rows of a design with their probabilities; the reference is class 0."""

    X: FloatArray  # (n, p), with the constant
    eta: FloatArray  # (n, J)
    P: FloatArray  # (n, J + 1)

    def slopes(self) -> FloatArray:
        """Return the derivatives of log p_k by the linear predictor j, shape (n, K, J)."""
        classes = self.P.shape[1]
        return np.eye(classes)[None, :, 1:] - self.P[:, None, 1:]


def points(model: JeffreysLogisticRegression, frame: pd.DataFrame, offset: Any) -> _Points:
    """Evaluate the model at rows of a design."""
    order = [int(np.flatnonzero(model.classes_ == c)[0]) for c in classes(model)]
    eta = model._predictors(frame, offset)[:, order[1:]]
    X = frame.to_numpy(dtype=np.float64)
    X = np.column_stack([np.ones(len(X)), X]) if model.fit_intercept else X
    return _Points(X, eta, model.predict_proba(frame, offset)[:, order])


def classes(model: JeffreysLogisticRegression) -> list[Any]:
    """Return the reference and then the other classes."""
    return [model.reference_, *model.contrasts_]


def predict(
    model: JeffreysLogisticRegression,
    frame: pd.DataFrame,
    offset: Any,
    *,
    kind: str,
    interval: str | None,
    level: float,
) -> pd.DataFrame:
    """Return predictions of rows of a design, with intervals if one is named."""
    import pandas as pd

    check_choice("kind", kind, KINDS)
    at = points(model, frame, offset)
    values, slopes = _on_the_logit_scale(at, kind)
    columns = {"estimate": _shown(values, kind)}
    if interval is not None:
        check_choice("interval", interval, INTERVALS)
        columns |= _bounds(model, at.X, values, slopes, kind, interval, level)
    rows, labels = np.indices(values.shape)
    names = np.array([str(c) for c in classes(model)][-values.shape[1] :], dtype=object)
    table = {title: numbers.ravel() for title, numbers in columns.items()}
    named = {} if interval is None else {"interval": interval}
    return pd.DataFrame({"row": rows.ravel(), "class": names[labels.ravel()], **table, **named})


def _on_the_logit_scale(at: _Points, kind: str) -> tuple[FloatArray, FloatArray]:
    """Return linear predictors, or logits of probabilities, whose bounds stay between 0 and 1.

    Of two classes the second only; with their derivatives by the linear predictors.
    """
    from scipy.special import logsumexp, softmax

    contrasts = at.eta.shape[1]
    if kind == "linear":
        return at.eta, np.broadcast_to(np.eye(contrasts), (len(at.X), contrasts, contrasts))
    first = int(contrasts == 1)
    logits = np.empty((len(at.X), contrasts + 1 - first))
    slopes = np.empty((*logits.shape, contrasts))
    every = np.column_stack([np.zeros(len(at.X)), at.eta])
    for k in range(first, contrasts + 1):  # from η: a probability near 1 has lost its digits
        others = np.delete(every, k, axis=1)
        logits[:, k - first] = every[:, k] - logsumexp(others, axis=1)
        shares = np.insert(-softmax(others, axis=1), k, 1.0, axis=1)
        slopes[:, k - first] = shares[:, 1:]
    return logits, slopes


def _bounds(
    model: JeffreysLogisticRegression,
    X: FloatArray,
    values: FloatArray,
    slopes: FloatArray,
    kind: str,
    interval: str,
    level: float,
) -> dict[str, FloatArray]:
    """Return standard errors and bounds of what is shown."""
    if interval == "profile":
        _refuse_profile(model, kind)
    errors, estimate = _errors(model, X, slopes), _shown(values, kind)
    if interval == "wald":
        margin = np.sqrt(chi2_quantile(level)) * errors
        sides = -margin, margin
    else:
        sides = _profile_distances(model, X, level)
    lower, upper = (_shown(values + side, kind) for side in sides)
    shown_errors = errors * estimate * (1.0 - estimate) if kind == "probability" else errors
    return {"std_error": shown_errors, "lower": lower, "upper": upper}


def _errors(model: JeffreysLogisticRegression, X: FloatArray, slopes: FloatArray) -> FloatArray:
    """Return the standard errors of what moves with the linear predictors by some slopes."""
    blocks = model.cov_params().reshape(2 * (slopes.shape[2], X.shape[1]))
    forms = np.einsum("np,jplq,nq->njl", X, blocks, X)
    return np.asarray(np.sqrt(np.einsum("nkj,njl,nkl->nk", slopes, forms, slopes)))


def _shown(values: FloatArray, kind: str) -> FloatArray:
    from scipy.special import expit

    return values if kind == "linear" else np.asarray(expit(values))


def _refuse_profile(model: JeffreysLogisticRegression, kind: str) -> None:
    if kind == "probability" and len(model.contrasts_) > 1:
        raise FirthshotError(
            "A probability of three or more classes has no profile interval here: use "
            "interval='wald', or kind='linear' for the log odds against the reference."
        )
    if model.correction == "flic":
        raise FirthshotError(
            "FLIC's intercepts do not maximise the penalised likelihood, so predictions have no "
            "profile interval: use correction='flac' or 'none'."
        )
    if model.is_robust:
        raise FirthshotError(
            f"Profile intervals do not use the covariance {model.standard_errors}: use "
            "interval='wald', or the fit without it."
        )


def _profile_distances(
    model: JeffreysLogisticRegression, X: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return how far the profile bounds of each linear predictor lie from it, each (n, J).

    A fit whose coefficients are the linear predictors of some rows differs from ours in the
    names of its coordinates alone, so the profiles of coefficients serve.
    """
    unique, back = np.unique(X, axis=0, return_inverse=True)
    found = np.zeros((2, len(unique), len(model.contrasts_)))
    moving = np.flatnonzero(unique.any(axis=1))  # without a constant, a row of zeros is certain
    for start in range(0, len(moving), _AT_ONCE):
        rows = moving[start : start + _AT_ONCE]
        fitted = _in_predictors(model, unique[rows])
        if fitted.maximum.converged:
            bounds = profile_intervals(fitted, range(fitted.beta.size), level)
            distances = bounds - fitted.beta.reshape(-1, 1)
        else:
            distances = np.full((fitted.beta.size, 2), np.nan)
        found[:, rows] = distances.reshape(-1, len(rows), 2).transpose(2, 1, 0)
    return found[0, back.ravel()], found[1, back.ravel()]


def _in_predictors(model: JeffreysLogisticRegression, X: FloatArray) -> Fit:
    """Return the fit with the linear predictors of some rows for its coefficients."""
    fitted, _ = model._inferential_fit()
    design = fitted.model.design
    forms = np.zeros((len(X), len(design.T)))  # of FLAC's own column no other row has any
    forms[:, : X.shape[1]] = X
    turned = replace(design, T=forms @ design.T, estimable=_determined(forms, design))
    return replace(fitted, model=replace(fitted.model, design=turned))


def _determined(forms: FloatArray, design: Any) -> NDArray[np.bool_]:
    """Tell which forms lie in the span of the rows of the design."""
    if design.rank == len(design.T):
        return np.ones(len(forms), dtype=bool)
    outside = forms - forms @ design.T @ design.R
    return np.asarray(np.abs(outside).max(axis=1) <= _ESTIMABLE * np.abs(forms).max(axis=1))
