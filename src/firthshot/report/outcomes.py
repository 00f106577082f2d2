"""What a penalty does in a setting, classified by the summary's tests, and how amounts are told.

A setting *helps* or *costs* when its test, Holm-corrected over the whole table, is below ALPHA. A
gain below SMALL is called small, however significant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from firthshot.report.wording import Condition, parts, points_ci, where

ALPHA = 0.05
SMALL = 0.001  # a tenth of a point of accuracy
SAME_ECE = 0.005
SAME_NLL = 0.005
WIDER = 2.0  # intervals over classes are worth a sentence from this ratio on

Row = dict[str, Any]
Effect = tuple[Condition, float, float | None]  # where, mean, half-width


@dataclass(frozen=True)
class Outcome:
    """What the chosen coefficient does in one setting.

    ``kind`` is ``helps``, ``costs``, ``unclear`` (not significant) or ``unchanged`` (the validation
    classes chose coefficient 0).
    """

    condition: Condition
    kind: str
    row: Row

    @property
    def sure_over_classes(self) -> bool:
        """Return whether the interval that also resamples classes leaves zero out."""
        low, high = self.row["improvement_classes_low"], self.row["improvement_classes_high"]
        return low is None or low > 0 or high < 0


@dataclass(frozen=True)
class Remark:
    """A sentence, and what it is about (accuracy, theory, calibration, …).

    ``tone`` is ``good``, ``bad`` or ``plain``.
    """

    topic: str
    tone: str
    text: str


def kind_of(mean: float, p_holm: float, coefficient: float | None = None) -> str:
    """Classify a difference."""
    if coefficient == 0:
        return "unchanged"
    if p_holm >= ALPHA or mean == 0:
        return "unclear"
    return "helps" if mean > 0 else "costs"


def phrases(rows: Sequence[Effect], among: Sequence[Condition]) -> list[str]:
    """Return "where: amount" for each part, the largest effect first."""
    by_condition = {condition: (mean, width) for condition, mean, width in rows}
    groups = parts(list(by_condition), among)
    groups.sort(key=lambda part: -max(abs(by_condition[one][0]) for one in part))
    return [f"{where(part, among)} ({amount([by_condition[o] for o in part])})" for part in groups]


def amount(effects: list[tuple[float, float | None]]) -> str:
    """Return one effect with its interval, or the smallest and the largest of several."""
    ordered = sorted(effects, key=lambda effect: effect[0])
    low, high = points_ci(*ordered[0]), points_ci(*ordered[-1])
    return f"{low} points" if low == high else f"{low} to {high} points"


def effects(outcomes: Iterable[Outcome]) -> list[Effect]:
    """Return the improvements of outcomes."""
    return [(o.condition, o.row["improvement"], o.row["improvement_ci"]) for o in outcomes]
