"""Predictions with Wald intervals, and average marginal effects by the delta method."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError, check_choice
from firthshot.formulas import as_pandas, variables_of
from firthshot.jeffreys._profile import chi2_quantile
from firthshot.jeffreys._tests import chi2_tail

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd  # type: ignore[import-untyped]

    from firthshot.jeffreys._kernels.memory import FloatArray
    from firthshot.jeffreys._regression import Regression
    from firthshot.jeffreys.estimator import JeffreysLogisticRegression

KINDS = ("probability", "linear")
_STEP = 1e-4  # of a difference quotient, relative to the range of its variable


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


def _points(model: JeffreysLogisticRegression, frame: pd.DataFrame, offset: Any) -> _Points:
    order = [int(np.flatnonzero(model.classes_ == c)[0]) for c in _classes(model)]
    eta = model._predictors(frame, offset)[:, order[1:]]
    X = frame.to_numpy(dtype=np.float64)
    X = np.column_stack([np.ones(len(X)), X]) if model.fit_intercept else X
    return _Points(X, eta, model.predict_proba(frame, offset)[:, order])


def _classes(model: JeffreysLogisticRegression) -> list[Any]:
    return [model.reference_, *model.contrasts_]


def predict(
    fit: Regression, frame: pd.DataFrame, offset: Any, kind: str, level: float | None, cov: Any
) -> pd.DataFrame:
    """Return predictions of rows of a design, with Wald intervals if there is a level."""
    import pandas as pd

    check_choice("kind", kind, KINDS)
    model = fit.model
    at, contrasts = _points(model, frame, offset), len(model.contrasts_)
    if kind == "linear":
        values, first = at.eta, 1
        slopes = np.broadcast_to(np.eye(contrasts), (len(at.X), contrasts, contrasts))
    else:  # by the logit of each probability, so that bounds stay between 0 and 1
        first = int(contrasts == 1)
        P = at.P[:, first:]
        values = np.log(P) - np.log1p(-P)
        slopes = at.slopes()[:, first:] / (1.0 - P)[:, :, None]
    shown = [_shown(values, kind)]
    if level is not None:
        covariance = model.cov_params() if cov is None else np.asarray(cov)
        blocks = covariance.reshape(2 * (contrasts, at.X.shape[1]))
        forms = np.einsum("np,jplq,nq->njl", at.X, blocks, at.X)
        errors = np.sqrt(np.einsum("nkj,njl,nkl->nk", slopes, forms, slopes))
        margin = np.sqrt(chi2_quantile(level)) * errors
        of_logit = shown[0] * (1.0 - shown[0]) if kind == "probability" else 1.0
        shown += [errors * of_logit, _shown(values - margin, kind), _shown(values + margin, kind)]
    titles = ("estimate", "std_error", "lower", "upper")
    rows, classes = np.indices(values.shape)
    labels = np.array([str(c) for c in _classes(model)], dtype=object)[first:]
    columns = {title: numbers.ravel() for title, numbers in zip(titles, shown, strict=False)}
    return pd.DataFrame({"row": rows.ravel(), "class": labels[classes.ravel()], **columns})


def _shown(values: FloatArray, kind: str) -> FloatArray:
    from scipy.special import expit

    return values if kind == "linear" else np.asarray(expit(values))


def marginal_effects(
    fit: Regression, data: Any, variables: Sequence[str] | None, level: float, cov: Any
) -> pd.DataFrame:
    """Return average marginal effects on each probability, with delta-method intervals."""
    import pandas as pd

    model, table = fit.model, as_pandas(data)
    covariance = model.cov_params() if cov is None else np.asarray(cov)
    name = fit.data.source["weights"]
    weights = table[name].to_numpy(float) if name in table.columns else np.ones(len(table))
    known = variables_of(fit.data)
    quantile, found = np.sqrt(chi2_quantile(level)), []
    first = int(len(model.contrasts_) == 1)
    labels = [str(label) for label in _classes(model)]
    for variable in known if variables is None else variables:
        if variable not in known:
            raise FirthshotError(f"No term has the variable {variable!r}: choose of {known}.")
        for change, lower, upper, width in _changes(fit, table, variable):
            share = weights / weights.sum() / width
            ends = [_averages(fit, rows, share) for rows in (upper, lower)]
            effects, gradients = (a - b for a, b in zip(*ends, strict=True))
            errors = np.sqrt(np.einsum("kq,qr,kr->k", gradients, covariance, gradients))
            for k in range(first, len(labels)):
                effect, error = effects[k], errors[k]
                p_value = float(chi2_tail((effect / error) ** 2, 1))
                bounds = effect - quantile * error, effect + quantile * error
                found.append((variable, change, labels[k], effect, error, *bounds, p_value))
    titles = ["variable", "change", "class", "effect", "std_error", "lower", "upper", "p_value"]
    return pd.DataFrame(found, columns=titles)


def _averages(fit: Regression, rows: Any, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weighted sum of each probability and its gradient by the coefficients."""
    frame, offset = fit._new_design(rows, None)
    at = _points(fit.model, frame, offset)
    slopes = at.P[:, :, None] * at.slopes()
    gradients = np.einsum("n,nkj,np->kjp", share, slopes, at.X)
    return share @ at.P, gradients.reshape(at.P.shape[1], -1)


def _changes(fit: Regression, table: Any, name: str) -> Iterator[tuple[str, Any, Any, FloatArray]]:
    """Yield each change of a variable: in words, both tables, and what to divide by."""
    column = table[name]
    formula = fit.data.source["formula"]
    factor = re.search(rf"\b(?:C|factor)\(\s*`?{re.escape(name)}`?\s*[,)]", formula)
    if column.dtype.kind not in "iuf" or factor:
        levels = sorted(column.unique()) if not hasattr(column, "cat") else column.cat.categories
        for level in levels[1:]:
            ends = [table.assign(**{name: [end] * len(table)}) for end in (levels[0], level)]
            yield f"{level} against {levels[0]}", *ends, np.ones(len(table))
        return
    values = column.to_numpy(float)
    step = _STEP * np.ptp(values)
    if step == 0.0:
        raise FirthshotError(f"Column {name!r} is constant: its effect needs rows that differ.")
    # A spline has no value outside the range of the fit: at its ends the quotient is one-sided.
    lower, upper = np.maximum(values - step, values.min()), np.minimum(values + step, values.max())
    yield "per unit", table.assign(**{name: lower}), table.assign(**{name: upper}), upper - lower
