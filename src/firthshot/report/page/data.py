"""What the charts of the page are drawn from: aggregates as compact tables of numbers.

Every line refers to its method by a number, so that names are stored once. Tables are
``{"columns": […], "rows": [[…], …]}``; the page's script turns them into objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

import polars as pl

from firthshot.report.gather import Gathered
from firthshot.report.verdict import GROUP, Condition, Verdict
from firthshot.report.verdict.outcomes import turned
from firthshot.report.wording import capital, head_name
from firthshot.report.wording.cards import opponent_name, penalty_title, title_of

_DIGITS = 6  # significant; the downloads have all
_CHOSEN = (
    *("coefficient", "at_edge", "trials", "base_accuracy", "base_accuracy_ci", "accuracy"),
    *("accuracy_ci", "improvement", "improvement_ci"),
    *("improvement_classes_low", "improvement_classes_high", "relative_improvement"),
    *("share_won", "share_lost", "p_holm", "base_nll", "nll", "base_brier", "brier"),
    *("base_ece_pooled", "ece_pooled", "theory_coefficient", "theory_exact", "theory_trials"),
    *("theory_improvement", "theory_improvement_ci", "theory_improvement_classes_low"),
    *("theory_improvement_classes_high", "theory_share_won", "theory_nll", "theory_brier"),
)
_CURVE = (
    *("split", "coefficient", "theory", "trials", "accuracy", "accuracy_ci"),
    *("improvement", "improvement_ci", "nll", "brier", "ece_pooled"),
)
_CONTRAST = (
    *("trials", "difference", "difference_ci", "difference_classes_low"),
    *("difference_classes_high", "p_holm", "nll_difference", "ece_difference"),
)
Table = dict[str, list[Any]]
_group = itemgetter(*GROUP)


def page_data(gathered: Gathered) -> dict[str, Any]:
    """Return methods, settings and the tables behind each chart."""
    book = _Book(gathered.verdicts)
    summary = gathered.summary
    return {
        "methods": book.methods,
        "settings": book.table(_penalised(summary.chosen), _CHOSEN),
        "curves": book.table(_penalised(summary.all), _CURVE),
        "bins": book.table(
            gathered.reliability.to_dicts(), ("series", "bin", "count", "confidence", "hit")
        ),
        "differences": book.table(
            gathered.differences.to_dicts(), ("theory", "low", "high", "count", "trials")
        ),
        "contrasts": book.table(_both_ways(summary.contrasts), ("against", *_CONTRAST)),
    }


class _Book:
    def __init__(self, verdicts: Sequence[Verdict]) -> None:
        self.methods = [_method(verdict) for verdict in verdicts]
        self._number = {_group(verdict.key): at for at, verdict in enumerate(verdicts)}

    def table(self, rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> Table:
        """Return the columns of lines, each with its method, ways and shots."""
        lines = []
        for row in rows:
            number = self._number.get(_group(row))
            if number is not None:
                condition = Condition.of(row)
                place = [number, condition.ways, condition.label]
                values = [row.get(name) for name in columns]
                rounded = (float(f"{v:.{_DIGITS}g}") if isinstance(v, float) else v for v in values)
                lines.append([*place, *rounded])
        return {"columns": ["method", "ways", "shots", *columns], "rows": lines}


def _method(verdict: Verdict) -> dict[str, str]:
    return {
        "title": title_of(verdict),
        "bank": verdict.key["bank"],
        "head": head_name(verdict.key["head"]),
        "penalty": penalty_title(verdict),
    }


def _penalised(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return frame.filter(pl.col("penalty") != "none").to_dicts()


def _both_ways(contrasts: pl.DataFrame) -> list[dict[str, Any]]:
    """Return each contrast of two penalties also from the other's side."""
    lines = []
    for row in contrasts.to_dicts():
        lines.append({**row, "against": _opponent(row, "against_")})
        if row["against_penalty"] != "none":
            lines.append({**turned(row), "against": _opponent(row, "")})
    return lines


def _opponent(row: dict[str, Any], prefix: str) -> str:
    opponent = (row[f"{prefix}head"], row[f"{prefix}penalty"], row[f"{prefix}prior"])
    beside = row["head" if prefix else "against_head"]
    return capital(opponent_name(opponent, beside).removeprefix("the "))
