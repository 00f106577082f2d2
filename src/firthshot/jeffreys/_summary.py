"""The table of a fitted estimator, as text and as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.jeffreys import _export

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

    from firthshot.jeffreys._separation import Separation

# What the solver leaves of a zero: its tolerance is 1e-8 standard errors, and twice a difference
# of log-likelihoods is known to about 1e-10.
_ZERO_ERRORS, _ZERO_CHI2 = 1e-8, 1e-10


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

    @property
    def odds_ratio(self) -> tuple[float, float, float]:
        """Estimate and bounds of the odds ratio (of the odds, for an intercept)."""
        with np.errstate(over="ignore"):
            ratio, lower, upper = np.exp([self.estimate, self.lower, self.upper]).tolist()
        return ratio, lower, upper


@dataclass(frozen=True)
class TermRow:
    """One term of a formula: the test that all its coefficients are zero."""

    term: str
    df: int
    chi2: float
    p_value: float


@dataclass(frozen=True, repr=False)
class Summary:
    """A fitted model in numbers; ``print`` shows it as a table.

    Attributes
    ----------
    header : dict of str to object
        What was fitted and how.
    rows : tuple of Row
    notes : tuple of str
        Conventions, and warnings that a reader must see.
    terms : tuple of TermRow
        Tests of whole terms of a formula.
    odds_ratios : bool
        Whether odds ratios are shown instead of estimates and standard errors.
    separation : Separation or None
        What the data do to maximum likelihood; None if nobody looked.
    """

    header: dict[str, Any]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    terms: tuple[TermRow, ...] = ()
    odds_ratios: bool = False
    separation: Separation | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, fit for JSON; numbers that are not finite become None."""
        names = ("odds_ratio", "odds_ratio_lower", "odds_ratio_upper") if self.odds_ratios else ()
        return {
            "model": _plain(self.header),
            "coefficients": [
                _plain(asdict(row) | dict(zip(names, row.odds_ratio, strict=False)))
                for row in self.rows
            ],
            "terms": [_plain(asdict(row)) for row in self.terms],
            "notes": list(self.notes),
            "separation": None if self.separation is None else self.separation.to_dict(),
        }

    def to_frame(self) -> pd.DataFrame:
        """Return the coefficients as a pandas frame, with all their digits."""
        import pandas as pd

        return pd.DataFrame(self.to_dict()["coefficients"])

    def to_markdown(self) -> str:
        """Return the table in Markdown, numbers rounded as in print."""
        return _export.to_markdown(*self._lettered())

    def to_latex(self) -> str:
        """Return the table as a LaTeX tabular; it needs the package booktabs."""
        return _export.to_latex(*self._lettered())

    def _repr_html_(self) -> str:
        """Show the table in a notebook."""
        titles, rows, names = self._lettered()
        notes = [*self.notes, *self.separation_note()]
        return _export.to_html(self.head_lines(), titles, rows, notes, names)

    def _lettered(self) -> tuple[list[str], list[list[str]], int]:
        """Return titles, cells, and how many columns of names; several classes have two."""
        if self.header["contrasts"] == 1:
            return self.column_titles(), self.cells(), 1
        pairs = zip(self.rows, self.cells(), strict=True)
        return ["", *self.column_titles()], [[row.contrast, *cells] for row, cells in pairs], 2

    def separation_note(self) -> list[str]:
        """Return the sentence about separation, if there is something to say."""
        found = self.separation
        return [str(found)] if found is not None and found.is_noteworthy else []

    def cells(self) -> list[list[str]]:
        """Return the table as text: term, estimate, SE (or odds ratio), lower, upper, χ², p."""
        return [
            [row.term, *self._numbers(row), chi_squared(row.chi2), probability(row.p_value)]
            for row in self.rows
        ]

    def _numbers(self, row: Row) -> list[str]:
        if self.odds_ratios:
            return [number(value) for value in row.odds_ratio]
        values = (row.estimate, row.std_error, row.lower, row.upper)
        least = _ZERO_ERRORS * row.std_error
        return [number(0.0 if abs(value) < least else value) for value in values]

    def column_titles(self) -> list[str]:
        """Return the titles of the columns of `cells`."""
        tail = 50.0 * (1.0 - self.header["level"])
        first = ["odds ratio"] if self.odds_ratios else ["estimate", "SE"]
        return ["", *first, f"{tail:g}%", f"{100 - tail:g}%", "χ²", "p"]

    def head_lines(self) -> list[str]:
        """Return the lines above the table."""
        h = self.header
        slopes = {1: "the slope", 2: "both slopes"}.get(
            h["overall_df"], f"all {h['overall_df']} slopes"
        )
        test = (
            f"{h['overall_test']} test of {slopes}: χ² = {chi_squared(h['overall_chi2'])}, "
            f"p = {probability(h['overall_p_value'])}".replace("= <", "< ")
        )
        size = f"{h['groups']} groups" if h.get("groups") else f"{h['rows']:,} rows"
        counts = ", ".join(f"{name}: {number(count)}" for name, count in h["classes"].items())
        if h["weights"] and not h.get("groups"):
            counts = f"summed weights {counts}"
        return [
            f"{h['kind']} logistic regression, {h['method']}",
            *self._source_lines(),
            f"{size}; {counts}; reference {h['reference']}",
            *self._fit_lines(),
            *([test] if h["overall_df"] else []),
        ]

    def _fit_lines(self) -> list[str]:
        """Say how high the fit got and how it ended, and which fit where there are two."""
        h = self.header
        whose = f" (Firth's fit, before {h['correction'].upper()})" * (h["correction"] != "none")
        likelihoods = f"log-likelihood {h['loglik']:.4f}"
        if h["tau"] > 0.0:
            likelihoods = f"penalised log-likelihood {h['penalised_loglik']:.4f}, {likelihoods}"
        return [line[0].upper() + line[1:] + whose for line in (likelihoods, h["reason"])]

    def _source_lines(self) -> list[str]:
        """Say what was fitted: formula, table, weights, offset, rows left out."""
        h = self.header
        table = f" (table {h['table']})" if h.get("table") else ""
        formula = [f"{h['formula']}{table}"] if h.get("formula") else []
        parts = []
        if h["weights"]:
            none = h.get("rows_of_weight_zero") or 0
            without = f"{none} row{'s' * (none != 1)} of weight 0 left out; " if none else ""
            total = number(h["weights_sum"])
            parts.append(f"Weights: {h['weights']}; {without}weights sum to {total}.")
        if h["offset"]:
            parts.append(f"Offset: {h['offset']}.")
        if levels := h.get("reference_levels"):
            pairs = ", ".join(f"{name} = {level}" for name, level in levels.items())
            parts.append(f"Reference levels: {pairs}.")
        if left_out := h.get("rows_left_out"):
            rows = "1 row" if left_out == 1 else f"{left_out} rows"
            parts.append(f"Left out: {rows} with missing values.")
        return [*formula, *([" ".join(parts)] if parts else [])]

    def term_lines(self, width: int = 80) -> list[tuple[str, bool]]:
        """Return the lines of the tests of terms; True marks titles, none if there are none."""
        if not self.terms:
            return []
        cells = [
            [t.term, str(t.df), chi_squared(t.chi2), probability(t.p_value)] for t in self.terms
        ]
        title, body = _layout(["Test of term", "df", "χ²", "p"], cells, width)
        return [(title, True), *((part, False) for parts in body for part in parts)]

    def table_lines(self, width: int = 80) -> list[tuple[str, bool]]:
        """Return the lines of the table for a page of some width; True marks titles."""
        title, body = _layout(self.column_titles(), self.cells(), width)
        lines, shown = [(title, True)], None
        for row, parts in zip(self.rows, body, strict=True):
            if row.contrast != shown and self.header["contrasts"] > 1:
                lines.append((f"{row.contrast} against {self.header['reference']}", True))
            shown = row.contrast
            lines += [(part, False) for part in parts]
        return lines

    def __str__(self) -> str:
        """Return header, table and notes as text of 80 columns."""
        head = [line for long in self.head_lines() for line in wrap(long, 80)]
        table = [line for line, _ in self.table_lines()]
        terms = ["", *(line for line, _ in self.term_lines())] if self.terms else []
        notes = [line for note in [*self.notes, *self.separation_note()] for line in wrap(note, 80)]
        return "\n".join([*head, "", *table, *terms, "", *notes])

    def __repr__(self) -> str:
        """Show the table, as a notebook or a console does that evaluates a name."""
        return str(self)


def _layout(titles: list[str], cells: list[list[str]], width: int) -> tuple[str, list[list[str]]]:
    """Return the line of titles, and each row as lines: its name, broken to fit, and its cells."""
    widths = [max(len(line[k]) for line in [titles, *cells]) for k in range(1, len(titles))]
    room = max(12, width - sum(widths) - 2 * len(widths))
    names = [_broken(line[0], room) for line in cells]
    longest = max(len(part) for name in [titles[:1], *names] for part in name)

    def line(name: str, texts: list[str]) -> str:
        aligned = [text.rjust(size) for text, size in zip(texts, widths, strict=True)]
        return "  ".join([name.ljust(longest), *aligned]).rstrip()

    body = [[*n[:-1], line(n[-1], texts[1:])] for n, texts in zip(names, cells, strict=True)]
    return line(titles[0], titles[1:]), body


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


def chi_squared(value: float) -> str:
    """Format a χ²; what rounding leaves of zero is zero."""
    return number(0.0 if value < _ZERO_CHI2 else value)


def probability(value: float) -> str:
    """Format a p-value."""
    if np.isnan(value):
        return number(value)
    return f"{value:.4f}" if value >= 1e-3 else f"{value:.1e}" if value > 1e-99 else "<1e-99"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
