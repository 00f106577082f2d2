"""What a penalty does in a setting, classified by the summary's tests, and how amounts are told.

A setting *helps* or *costs* when its test, Holm-corrected over the whole table, is below ALPHA. A
gain below SMALL is called small, however significant. That no difference was found does not say
that there is none: two heads do *as well* as one another, and a coefficient is *safe*, only where
an interval leaves no room for a loss of MARGIN.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from firthshot.experiments.statistics import ALPHA
from firthshot.report.wording import Condition, counted, parts, points_ci, where

SMALL = 0.001  # a tenth of a point of accuracy
MARGIN = 0.005  # half a point of accuracy: what "as well" and "safe" may overlook at most
MUCH = 0.01  # a loss of a point of accuracy is worth a word on its cause
SAME_ECE = 0.005
SAME_NLL = 0.005
WIDER = 2.0  # intervals over classes are worth a sentence from this ratio on

Row = dict[str, Any]
Effect = tuple[Condition, float, float | None]  # where, mean, half-width
CHOSE_ZERO = "the validation classes chose λ = 0"
MARGIN_WORDS = f"{100 * MARGIN:g} points"


@dataclass(frozen=True)
class Tested:
    """A line of a table whose tests Holm's rule corrects together.

    ``kind`` is ``helps``, ``costs``, ``unclear`` (not significant) or ``unchanged`` (coefficient
    0). ``trials_needed`` is how many trials a test in this table needs to be significant at all.
    """

    condition: Condition
    kind: str
    row: Row
    trials_needed: int = 1

    @property
    def too_few(self) -> bool:
        """Return whether there are so few trials that no effect could be significant."""
        return self.kind == "unclear" and self.row["trials"] < self.trials_needed


@dataclass(frozen=True)
class Outcome(Tested):
    """What the chosen coefficient does in one setting.

    ``only_zero`` says that coefficient 0 was the only candidate: then nothing was chosen.
    """

    only_zero: bool = False

    @property
    def why_unchanged(self) -> str:
        """Return why an unchanged setting has coefficient 0."""
        return "no λ but 0 was a candidate" if self.only_zero else CHOSE_ZERO

    @property
    def theory_standing(self) -> str | None:
        """Return what the tuning-free coefficient does: ``safe``, ``costs`` or ``open``.

        None where it was not trained, or once only, which has no interval.
        """
        mean, width = self.row["theory_improvement"], self.row["theory_improvement_ci"]
        if width is None:
            return None
        if mean + width < 0:
            return "costs"
        return "safe" if mean - width > -MARGIN else "open"

    @property
    def sure_over_classes(self) -> bool:
        """Return whether the interval that also resamples classes leaves zero out."""
        low, high = self.row["improvement_classes_low"], self.row["improvement_classes_high"]
        return low is None or low > 0 or high < 0


@dataclass(frozen=True)
class Contrast(Tested):
    """A method against another one on the same trials, in one setting."""

    @property
    def effect(self) -> Effect:
        """Return the method's lead over the other."""
        return self.condition, self.row["difference"], self.row["difference_ci"]

    @property
    def standing(self) -> str:
        """Return how the other does: ``better``, ``worse``, ``as well`` or ``open``."""
        if self.kind != "unclear":
            return "worse" if self.kind == "helps" else "better"
        _, lead, width = self.effect
        close = width is not None and lead + width <= MARGIN
        return "as well" if close and not self.too_few else "open"


@dataclass(frozen=True)
class Remark:
    """A sentence, and what it is about (accuracy, theory, calibration, …).

    ``tone`` is ``good``, ``bad`` or ``plain``.
    """

    topic: str
    tone: str
    text: str


def kind_of(mean: float, p_holm: float | None, coefficient: float | None = None) -> str:
    """Classify a difference; without p-value it was not tested."""
    if coefficient == 0:
        return "unchanged"
    if p_holm is None or p_holm >= ALPHA or mean == 0:
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


def unchanged_by_reason(outcomes: Iterable[Outcome]) -> dict[str, list[Condition]]:
    """Return where the coefficient is 0, by the reason."""
    found: dict[str, list[Condition]] = {}
    for outcome in outcomes:
        if outcome.kind == "unchanged":
            found.setdefault(outcome.why_unchanged, []).append(outcome.condition)
    return found


def needed_words(few: Sequence[Tested]) -> str:
    """Say how many trials settings with too few of them have, and how many they need."""
    there = max(outcome.row["trials"] for outcome in few)
    needed = few[0].trials_needed
    return (
        f"with {counted(there, 'trial')} nothing can be significant, at least {needed} are needed"
    )
