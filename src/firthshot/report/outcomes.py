"""What a penalty does in a setting, classified by the summary's tests, and how amounts are told.

A setting *helps* or *costs* when its test, Holm-corrected over the whole table, is below ALPHA. A
gain below SMALL is called small, however significant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from firthshot.experiments.statistics import ALPHA
from firthshot.report.wording import Condition, counted, parts, points_ci, where

SMALL = 0.001  # a tenth of a point of accuracy
MUCH = 0.01  # a loss of a point of accuracy is worth a word on its cause
SAME_ECE = 0.005
SAME_NLL = 0.005
WIDER = 2.0  # intervals over classes are worth a sentence from this ratio on

Row = dict[str, Any]
Effect = tuple[Condition, float, float | None]  # where, mean, half-width


@dataclass(frozen=True)
class Outcome:
    """What the chosen coefficient does in one setting.

    ``kind`` is ``helps``, ``costs``, ``unclear`` (not significant) or ``unchanged`` (the validation
    classes chose coefficient 0). ``trials_needed`` is how many trials a test in this table needs
    to be significant at all.
    """

    condition: Condition
    kind: str
    row: Row
    trials_needed: int = 1

    @property
    def too_few(self) -> bool:
        """Return whether there are so few trials that no effect could be significant."""
        return self.kind == "unclear" and self.row["trials"] < self.trials_needed

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


def needed_words(few: Sequence[Outcome]) -> str:
    """Say how many trials settings with too few of them have, and how many they need."""
    there = max(outcome.row["trials"] for outcome in few)
    needed = few[0].trials_needed
    return (
        f"with {counted(there, 'trial')} nothing can be significant, at least {needed} are needed"
    )
