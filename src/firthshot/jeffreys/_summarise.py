"""Collect the table of a fitted estimator: numbers, header and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError, listed
from firthshot.jeffreys._separation import NO_ESTIMATE, coefficient_names
from firthshot.jeffreys._summary import Row, Summary, TermRow
from firthshot.jeffreys._tests import HIGHER, TestResult, chi2_tail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from firthshot.jeffreys._kernels.memory import FloatArray
    from firthshot.jeffreys.estimator import JeffreysLogisticRegression

_PENALTIES = {0.0: "maximum likelihood (no penalty)", 0.5: "Firth's penalised likelihood (τ = ½)"}

_CONSTANT = 1e-12  # range of a constant column made again from its basis, relative to its size
_NO_ESTIMATE_NOTE = (
    "Warning: the classes are separated and tau is 0, so the estimates only tell where the "
    "solver stopped on its way to infinity, standard errors mean nothing, and finite bounds (–) "
    "of such coefficients are not searched: use tau = 0.5."
)
_ROBUST_NOTE = (
    "Warning: robust standard errors are too small where a column separates the classes ({}): "
    "use the profile intervals."
)
_LOST_NOTE = (
    "Warning: a profile bound (–) of {} was not found, because a restricted fit failed; use the "
    "Wald interval or another level."
)
_RANK_NOTE = (
    "The design has rank {} < {} columns: coefficients of least norm; those that the data do not "
    "determine have no standard error."
)
_NOT_CONVERGED_NOTE = (
    "Warning: the fit did not converge ({}), so there are no tests or intervals (–)."
)
_LOCAL_NOTE = (
    "Warning: the penalised likelihood has several maxima, and this one is not the highest: a "
    "test without a value (–) found a higher one. Fit a simpler model."
)


def summarise(
    model: JeffreysLogisticRegression,
    level: float,
    method: str,
    *,
    odds_ratios: bool = False,
    terms: Mapping[str, TestResult] | None = None,
    source: Mapping[str, Any] | None = None,
) -> Summary:
    """Collect the table of a fitted estimator.

    Parameters
    ----------
    terms : mapping of str to TestResult, default=None
        Tests of the terms of a formula.
    source : mapping, default=None
        What the header says of formula, weights and offset besides what the estimator knows.
    """
    if model.is_robust and method != "wald":
        raise FirthshotError(
            f"Standard errors {model.standard_errors} have Wald intervals: use method='wald'."
        )
    bounds = model.conf_int(level, method)
    tests = model.test(method="wald" if method == "wald" else "likelihood-ratio")
    tests = _wald_where_needed(model, tests)
    pairs = [(str(label), column) for label in model.contrasts_ for column in model._columns()]
    errors, of_tests = model.bse(), [(test.chi2, test.p_value) for test in tests]
    numbers = np.column_stack([model.params_, errors, bounds, of_tests]).tolist()
    tested = tuple(
        TermRow(k, t.df, float(t.chi2), float(t.p_value)) for k, t in (terms or {}).items()
    )
    header = _header(model, level, source or {})
    separation = model.separation()
    separated = model.tau == 0.0 and bool(separation)
    if separated:
        header |= {"converged": False, "reason": NO_ESTIMATE.rstrip(".")}
    missing = np.isnan(bounds).any(axis=1) & ~np.isnan(errors)
    lost = [name for name, is_lost in zip(model.parameter_names_, missing, strict=True) if is_lost]
    local = any(test.reason == HIGHER for test in (*tests, *(terms or {}).values()))
    notes = [
        *_notes(model, method, odds_ratios),
        (bool(tested), "Test of term: all its coefficients are zero, those of the others free."),
        (odds_ratios, "Odds ratios: exp(estimate), and the odds at the intercept."),
        (local, _LOCAL_NOTE),
        (separated, _NO_ESTIMATE_NOTE),
        (separation and model.is_robust, _ROBUST_NOTE.format(listed(separation.variables))),
        (lost and model.converged_, _LOST_NOTE.format(", ".join(lost))),
    ]
    rows = tuple(Row(*pair, *line) for pair, line in zip(pairs, numbers, strict=True))
    said = tuple(note for holds, note in notes if holds)
    return Summary(header, rows, said, tested, odds_ratios, separation)


def _wald_where_needed(
    model: JeffreysLogisticRegression, tests: Sequence[TestResult]
) -> Sequence[TestResult]:
    """Give FLIC's intercepts, which do not maximise the penalised likelihood, their Wald test."""
    if model.correction != "flic":
        return tests
    tests = list(tests)
    for k in model._intercept_rows():
        chi2 = float((model.params_[k] / model.bse()[k]) ** 2)
        tests[k] = TestResult(chi2, 1, float(chi2_tail(chi2, 1)), np.nan, True, "Wald test")
    return tests


def _header(
    model: JeffreysLogisticRegression, level: float, source: Mapping[str, Any]
) -> dict[str, Any]:
    """Say what was fitted, how, and how it ended."""
    from firthshot import __version__

    data = model.fit_.model.data
    counts = np.bincount(data.y, weights=data.w)
    names = [str(model.reference_), *map(str, model.contrasts_)]
    penalty = _PENALTIES.get(float(model.tau), f"Jeffreys penalty with τ = {model.tau:g}")
    overall = _overall_test(model)
    return {
        "version": __version__,
        "weights": None if np.all(data.w == 1.0) else "sample_weight",
        "offset": "offset" if np.any(data.offset) else None,
        **source,
        "kind": "Binary" if len(names) == 2 else "Multinomial",
        "method": penalty + ("" if model.correction == "none" else f", {model.correction.upper()}"),
        "tau": float(model.tau),
        "correction": model.correction,
        "level": level,
        "rows": int(data.y.size),
        "weights_sum": float(data.w.sum()),
        "classes": dict(zip(names, counts.tolist(), strict=True)),
        "contrasts": len(names) - 1,
        "reference": names[0],
        "rank": model.rank_,
        "loglik": model.loglik_,
        "penalised_loglik": model.penalised_loglik_,
        "converged": bool(model.converged_),
        "reason": model.reason_,
        "overall_chi2": overall.chi2,
        "overall_df": overall.df,
        "overall_p_value": overall.p_value,
        "overall_test": "Wald" if model.is_robust else "Likelihood ratio",
    }


def _moving(X: FloatArray, columns: list[str]) -> list[str]:
    """Return the columns that are not constant: users may bring a column of ones."""
    moving = np.ptp(X, axis=0) > _CONSTANT * np.abs(X).max(axis=0)
    return [name for name, moves in zip(columns, moving, strict=True) if moves]


def _overall_test(model: JeffreysLogisticRegression) -> TestResult:
    """Test all slopes at once; without slopes or with undetermined ones there is no test."""
    columns = model._columns()
    slopes = columns[1:] if model.fit_intercept else _moving(model.fit_.model.X, columns)
    if not slopes or model.rank_ < len(columns) or len(set(columns)) < len(columns):
        return TestResult(np.nan, 0, np.nan, np.nan, True, "")
    labels = [str(c) for c in model.contrasts_]
    method = "wald" if model.is_robust else "likelihood-ratio"
    result = model.test(coefficient_names(slopes, labels), method=method)
    assert isinstance(result, TestResult)
    return result


def _notes(
    model: JeffreysLogisticRegression, method: str, odds_ratios: bool
) -> list[tuple[bool, str]]:
    """Return what may be said of the fit, after whether it holds."""
    columns = len(model._columns())
    silent = odds_ratios and not model.is_robust
    errors = "" if silent else f"Standard errors: {model.standard_errors}. "
    return [
        (True, f"{errors}Intervals: {_interval_words(model, method)}."),
        (model.correction == "flic", "FLIC: the intercept has a Wald interval and test."),
        (model.rank_ < columns, _RANK_NOTE.format(model.rank_, columns)),
        (not model.fit_.maximum.converged, _NOT_CONVERGED_NOTE.format(model.reason_)),
    ]


def _interval_words(model: JeffreysLogisticRegression, method: str) -> str:
    if method == "wald":
        return "Wald; χ²: Wald on 1 df"
    if model.tau == 0.0:
        return "profile likelihood; χ²: likelihood ratio on 1 df"
    return (
        "profile penalised likelihood; χ²: penalised likelihood ratio on 1 df, with the full "
        "model's information"
    )
