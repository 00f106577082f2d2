"""The table of a fitted model, as text, as rows and as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.jeffreys._separation import INTERCEPT, NO_ESTIMATE, coefficient_names
from firthshot.jeffreys._tests import TestResult

if TYPE_CHECKING:
    from firthshot.jeffreys.estimator import JeffreysLogisticRegression

_PENALTIES = {0.0: "maximum likelihood (no penalty)", 0.5: "Firth's penalised likelihood (τ = ½)"}

_NO_ESTIMATE_NOTE = (
    "Warning: the classes are separated and tau is 0, so the estimates only tell where the "
    "solver stopped on its way to infinity, and standard errors mean nothing: use tau = 0.5."
)


@dataclass(frozen=True)
class Row:
    """One coefficient: its estimate, standard error, interval and test against zero."""

    contrast: str
    term: str
    estimate: float
    std_error: float
    lower: float
    upper: float
    chi2: float
    p_value: float


@dataclass(frozen=True)
class Summary:
    """A fitted model in numbers; ``print`` shows it as a table.

    Attributes
    ----------
    header : dict of str to object
        What was fitted and how.
    rows : tuple of Row
    notes : tuple of str
        Conventions, and warnings that a reader must see.
    """

    header: dict[str, Any]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, fit for JSON; numbers that are not finite become None."""
        rows = [{k: _plain(v) for k, v in asdict(row).items()} for row in self.rows]
        header = {k: _plain(v) for k, v in self.header.items()}
        return {"model": header, "coefficients": rows, "notes": list(self.notes)}

    def cells(self) -> list[list[str]]:
        """Return the table as text: term, estimate, SE, lower, upper, χ², p."""
        return [
            [
                row.term,
                *map(number, (row.estimate, row.std_error, row.lower, row.upper, row.chi2)),
                probability(row.p_value),
            ]
            for row in self.rows
        ]

    def column_titles(self) -> list[str]:
        """Return the titles of the columns of `cells`."""
        tail = 50.0 * (1.0 - self.header["level"])
        return ["", "estimate", "SE", f"{tail:g}%", f"{100 - tail:g}%", "χ²", "p"]

    def head_lines(self) -> list[str]:
        """Return the lines above the table."""
        h = self.header
        counts = ", ".join(f"{name}: {number(count)}" for name, count in h["classes"].items())
        likelihoods = (
            f"Penalised log-likelihood {h['penalised_loglik']:.4f}, "
            f"log-likelihood {h['loglik']:.4f}"
        )
        test = (
            f"Likelihood ratio test of all {h['lr_df']} slopes: χ² = {number(h['lr_chi2'])}, "
            f"p = {probability(h['lr_p_value'])}"
        )
        return [
            f"{h['kind']} logistic regression, {h['method']}",
            f"{h['rows']} rows; {counts}; reference {h['reference']}",
            likelihoods,
            h["reason"][0].upper() + h["reason"][1:],
            *([test] if h["lr_df"] else []),
        ]

    def table_lines(self, width: int = 80) -> list[tuple[str, bool]]:
        """Return the lines of the table for a page of some width; True marks titles."""
        titles, cells = self.column_titles(), self.cells()
        widths = [max(len(line[k]) for line in [titles, *cells]) for k in range(1, len(titles))]
        room = max(12, width - sum(widths) - 2 * len(widths))
        names = [_broken(line[0], room) for line in cells]
        longest = max(len(part) for name in names for part in name)
        lines = [(_line("".ljust(longest), titles[1:], widths), True)]
        shown = None
        for row, name, texts in zip(self.rows, names, cells, strict=True):
            if row.contrast != shown and self.header["contrasts"] > 1:
                lines.append((f"{row.contrast} against {self.header['reference']}", True))
            shown = row.contrast
            lines += [(part, False) for part in name[:-1]]
            lines.append((_line(name[-1].ljust(longest), texts[1:], widths), False))
        return lines

    def __str__(self) -> str:
        """Return header, table and notes as text of 80 columns."""
        table = [line for line, _ in self.table_lines()]
        notes = [line for note in self.notes for line in wrap(note, 80)]
        return "\n".join([*self.head_lines(), "", *table, "", *notes])


def _line(name: str, texts: list[str], widths: list[int]) -> str:
    cells = [text.rjust(width) for text, width in zip(texts, widths, strict=True)]
    return "  ".join([name, *cells]).rstrip()


def _broken(name: str, room: int) -> list[str]:
    """Break a long name, at a colon or bracket if there is one."""
    parts = []
    while len(name) > room:
        cut = max(name.rfind(mark, 1, room - 1) for mark in ":[ ")
        cut = cut + 1 if cut > 2 else room
        parts.append(name[:cut])
        name = "  " + name[cut:]
    return [*parts, name]


def number(value: float) -> str:
    """Format a number for the table: four decimals, or four digits where that says nothing."""
    if np.isnan(value):
        return "–"
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    size = abs(value)
    if size == round(size) and size < 1e6:
        return f"{value:.0f}"
    return f"{value:.4f}" if 1e-2 <= size < 1e5 else f"{value:.3e}"


def probability(value: float) -> str:
    """Format a p-value."""
    if np.isnan(value):
        return "–"
    return f"{value:.4f}" if value >= 1e-3 else f"{value:.1e}" if value > 1e-99 else "<1e-99"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def summarise(model: JeffreysLogisticRegression, level: float, method: str) -> Summary:
    """Collect the table of a fitted estimator."""
    bounds = model.conf_int(level, method)
    tests = model.test(method="wald" if method == "wald" else "likelihood-ratio")
    tests = _wald_where_needed(model, tests)
    columns, labels = model._columns(), [str(c) for c in model.contrasts_]
    pairs = [(label, column) for label in labels for column in columns]
    rows = tuple(
        Row(label, column, *map(float, numbers))
        for (label, column), *numbers in zip(
            pairs,
            model.params_,
            model.bse(),
            bounds[:, 0],
            bounds[:, 1],
            [test.chi2 for test in tests],
            [test.p_value for test in tests],
            strict=True,
        )
    )
    missing = np.isnan(bounds).any(axis=1) & ~np.isnan(model.bse())
    lost = [name for name, is_lost in zip(model.parameter_names_, missing, strict=True) if is_lost]
    header, notes = _header(model, level), _notes(model, method)
    if model.tau == 0.0 and model.separation():
        header |= {"converged": False, "reason": NO_ESTIMATE.rstrip(".")}
        return Summary(header, rows, (*notes, _NO_ESTIMATE_NOTE))
    return Summary(header, rows, (*notes, *_lost_bounds(lost)))


def _lost_bounds(names: list[str]) -> list[str]:
    if not names:
        return []
    listing = ", ".join(names)
    why = "a restricted fit failed; use the Wald interval or another level."
    return [f"Warning: a profile bound (–) of {listing} was not found, because {why}"]


def _wald_where_needed(
    model: JeffreysLogisticRegression, tests: tuple[TestResult, ...]
) -> tuple[TestResult, ...]:
    """Give FLIC's intercepts, which maximise no likelihood, their Wald test."""
    if model.correction != "flic":
        return tests
    from firthshot.jeffreys._tests import chi2_tail

    squares = (model.params_ / model.bse()) ** 2
    walds = {k: float(squares[k]) for k in model._intercept_rows()}
    return tuple(
        TestResult(walds[k], 1, float(chi2_tail(walds[k], 1)), np.nan, True, "Wald test")
        if k in walds
        else test
        for k, test in enumerate(tests)
    )


def _header(model: JeffreysLogisticRegression, level: float) -> dict[str, Any]:
    data = model.fit_.model.data
    counts = np.bincount(data.y, weights=data.w)
    names = [str(model.reference_), *map(str, model.contrasts_)]
    penalty = _PENALTIES.get(float(model.tau), f"Jeffreys penalty with τ = {model.tau:g}")
    overall = _overall_test(model)
    return {
        "kind": "Binary" if len(names) == 2 else "Multinomial",
        "method": penalty + ("" if model.correction == "none" else f", {model.correction.upper()}"),
        "tau": float(model.tau),
        "level": level,
        "rows": int(data.y.size),
        "classes": dict(zip(names, counts.tolist(), strict=True)),
        "contrasts": len(names) - 1,
        "reference": names[0],
        "rank": model.rank_,
        "loglik": model.loglik_,
        "penalised_loglik": model.penalised_loglik_,
        "converged": bool(model.converged_),
        "reason": model.reason_,
        "lr_chi2": overall.chi2,
        "lr_df": overall.df,
        "lr_p_value": overall.p_value,
    }


def _overall_test(model: JeffreysLogisticRegression) -> TestResult:
    """Test all slopes at once; without slopes or with undetermined ones there is no test."""
    columns = model._columns()
    slopes = [c for c in columns if c != INTERCEPT]
    if not slopes or model.rank_ < len(columns) or len(set(columns)) < len(columns):
        return TestResult(np.nan, 0, np.nan, np.nan, True, "")
    labels = [str(c) for c in model.contrasts_]
    result = model.test(coefficient_names(slopes, labels))
    assert isinstance(result, TestResult)
    return result


def _notes(model: JeffreysLogisticRegression, method: str) -> tuple[str, ...]:
    kinds = {
        "profile": "profile penalised likelihood; χ²: penalised likelihood ratio on 1 df, "
        "with the full model's information",
        "wald": "Wald; χ²: Wald on 1 df",
    }
    notes = [f"Standard errors: {model.standard_errors}. Intervals: {kinds[method]}."]
    if model.correction == "flic":
        notes.append("FLIC: the intercept has a Wald interval and test.")
    if model.rank_ < len(model._columns()):
        notes.append(
            f"The design has rank {model.rank_} < {len(model._columns())} columns: coefficients of "
            "least norm; those that the data do not determine have no standard error."
        )
    if not model.converged_:
        notes.append(f"Warning: {model.reason_}.")
    return tuple(notes)
