"""Average marginal effects on the probabilities, with standard errors by the delta method."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError, listed
from firthshot.formulas import as_pandas, variables_of
from firthshot.jeffreys._prediction import classes, points
from firthshot.jeffreys._profile import chi2_quantile
from firthshot.jeffreys._tests import chi2_tail

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd  # type: ignore[import-untyped]

    from firthshot.jeffreys._kernels.memory import FloatArray
    from firthshot.jeffreys._regression import Regression

_STEP = 1e-6  # of a difference quotient, relative to the range: it keeps nine digits


def marginal_effects(
    fit: Regression, data: Any, variables: str | Sequence[str] | None, level: float
) -> pd.DataFrame:
    """Return average marginal effects on each probability, with delta-method intervals."""
    import pandas as pd

    model, table = fit.model, fit.data.table if data is None else as_pandas(data)
    weights = fit.data.row_weights() if data is None else _given_weights(fit, table)
    covariance = model.cov_params()
    quantile, found = np.sqrt(chi2_quantile(level)), []
    labels = [str(label) for label in classes(model)]
    for variable in _chosen(fit, variables):
        for change, lower, upper, width in _changes(fit, table, variable):
            share = weights / weights.sum() / width
            ends = [_averages(fit, rows, share) for rows in (upper, lower)]
            effects, gradients = (a - b for a, b in zip(*ends, strict=True))
            errors = np.sqrt(np.einsum("kq,qr,kr->k", gradients, covariance, gradients))
            for k in range(int(len(labels) == 2), len(labels)):
                effect, error = effects[k], errors[k]
                p_value = float(chi2_tail((effect / error) ** 2, 1))
                bounds = effect - quantile * error, effect + quantile * error
                found.append((variable, change, labels[k], effect, error, *bounds, p_value))
    titles = ["variable", "change", "class", "effect", "std_error", "lower", "upper", "p_value"]
    return pd.DataFrame(found, columns=titles)


def _chosen(fit: Regression, variables: str | Sequence[str] | None) -> list[str]:
    known = variables_of(fit.data)
    chosen = [variables] if isinstance(variables, str) else list(variables or known)
    for name in chosen:
        if name not in known:
            raise FirthshotError(f"No term has the variable {name!r}: choose of {listed(known)}.")
    return chosen


def _given_weights(fit: Regression, table: pd.DataFrame) -> FloatArray:
    name = fit.data.source["weights"]
    return table[name].to_numpy(float) if name in table.columns else np.ones(len(table))


def _averages(fit: Regression, rows: Any, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weighted sum of each probability and its gradient by the coefficients."""
    frame, offset = fit._new_design(rows, None)
    at = points(fit.model, frame, offset)
    slopes = at.P[:, :, None] * at.slopes()
    gradients = np.einsum("n,nkj,np->kjp", share, slopes, at.X)
    return share @ at.P, gradients.reshape(at.P.shape[1], -1)


def _changes(fit: Regression, table: Any, name: str) -> Iterator[tuple[str, Any, Any, FloatArray]]:
    """Yield each change of a variable: in words, both tables, and what to divide by."""
    levels = _levels(fit, name)
    for level in levels[1:]:
        ends = [table.assign(**{name: [end] * len(table)}) for end in (levels[0], level)]
        yield f"{_named(level)} against {_named(levels[0])}", *ends, np.ones(len(table))
    if levels:
        return
    values, seen = table[name].to_numpy(float), fit.data.table[name].to_numpy(float)
    step = _STEP * np.ptp(seen)
    if step == 0.0:
        raise FirthshotError(f"Column {name!r} is constant: its effect needs rows that differ.")
    # A spline has no value outside the range of the fit: at its ends the quotient is one-sided.
    low, high = seen.min(), seen.max()
    lower = np.where(values < low, values - step, np.maximum(values - step, low))
    upper = np.where(values > high, values + step, np.minimum(values + step, high))
    yield "per unit", table.assign(**{name: lower}), table.assign(**{name: upper}), upper - lower


def _levels(fit: Regression, name: str) -> list[Any]:
    """Return the levels of a factor or of a column of 0 and 1, the reference first; else none."""
    column = fit.data.table[name]
    levels = sorted(column.unique()) if not hasattr(column, "cat") else list(column.cat.categories)
    formula = fit.data.source["formula"]
    factor = re.search(rf"\b(?:C|factor)\(\s*`?{re.escape(name)}`?\s*[,)]", formula)
    if column.dtype.kind in "iuf" and not factor and levels != [0, 1]:
        return []
    reference = fit.data.source["reference_levels"].get(name)
    return sorted(levels, key=lambda level: str(level) != reference)  # the others keep their order


def _named(level: Any) -> str:
    return f"{level:g}" if isinstance(level, float) else str(level)
