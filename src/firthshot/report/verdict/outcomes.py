"""What a penalty does in a setting, classified by the summary's tests.

A setting *helps* or *costs* when its test, Holm-corrected over the whole table, is below ALPHA.
That no difference was found does not say that there is none: two heads do *as well* as one
another, and a coefficient is *safe*, only where an interval leaves no room for a loss of MARGIN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from firthshot.experiments.schema import METHOD
from firthshot.experiments.statistics import ALPHA


@dataclass(frozen=True, order=True)
class Condition:
    """Ways and shots of a setting; balanced shots sort before unbalanced ones."""

    ways: int
    unbalanced: bool
    shots: int
    scheme: str

    @staticmethod
    def of(row: Mapping[str, Any]) -> Condition:
        """Return the condition of a line of a summary's table."""
        scheme = row["shots_scheme"]
        return Condition(row["ways"], scheme != "balanced", row["shots"], scheme)

    @property
    def label(self) -> str:
        """Return the shots as charts and tables name them."""
        return self.scheme if self.unbalanced else str(self.shots)


PRACTICAL = 0.001  # a tenth of a point: nobody would act on a smaller difference
MARGIN = 0.005  # half a point of accuracy: what "as well" and "safe" may overlook at most

Row = dict[str, Any]


class Effect(NamedTuple):
    """A mean difference in a setting and the half-width of its 95 % interval."""

    condition: Condition
    mean: float
    width: float | None

    @property
    def is_a_loss(self) -> bool:
        """Return whether the interval leaves no room for a gain."""
        return self.width is not None and self.mean + self.width < 0

    @property
    def turned(self) -> Effect:
        """Return the effect from the other side."""
        return Effect(self.condition, -self.mean, self.width)


class Again(NamedTuple):
    """What a coefficient does on some of the trials when it is trained otherwise, where known."""

    zero: Effect | None = None  # from zero weights
    optimum: Effect | None = None  # at the optimum of the same objective

    def charge(self, trained: Effect) -> Effect | None:
        """Return how much of a loss is the penalty's, None where the training alone is to blame.

        The optimum decides where it is known: the penalty has no larger loss than there. Otherwise
        a loss that is not there from zero weights is the start's noise.
        """
        if self.optimum is not None:
            smaller = max(trained, self.optimum, key=lambda effect: effect.mean)
            return smaller if self.optimum.is_a_loss else None
        return None if self.is_of_the_start(trained) else trained

    def is_of_the_start(self, trained: Effect) -> bool:
        """Return whether a loss is not there from zero weights: the noise of the random start."""
        return self.zero is not None and self.zero.mean > max(-MARGIN, trained.mean / 2)


_ONCE = Again()  # what was not trained again


@dataclass(frozen=True)
class Tested:
    """A line of a table whose tests Holm's rule corrects together.

    ``kind`` is ``helps``, ``costs``, ``unclear`` (not significant) or ``unchanged`` (coefficient
    0). ``trials_needed`` is how many trials a test in this table needs to be significant at all,
    ``trials_told`` how many one in the larger table needs: a report names one number.
    """

    condition: Condition
    kind: str
    row: Row
    trials_needed: int = 1
    trials_told: int = 1
    difference: ClassVar[str]  # the column that is tested

    @property
    def too_few(self) -> bool:
        """Return whether there are so few trials that no effect could be significant."""
        return self.kind == "unclear" and self.row["trials"] < self.trials_needed

    @property
    def effect(self) -> Effect:
        """Return the difference that was tested."""
        return self._effect(self.difference)

    @property
    def opponent(self) -> tuple[str, str, str] | None:
        """Return head, penalty and prior of another method, where it is the other side."""
        return None

    @property
    def optimum(self) -> Effect | None:
        """Return the difference at the optimum, where that was solved."""
        return None

    @property
    def is_of_the_start(self) -> bool:
        """Return whether the difference is the random start's, where that was tried."""
        return False

    def _effect(self, name: str) -> Effect:
        return Effect(self.condition, self.row[name], self.row[f"{name}_ci"])


@dataclass(frozen=True)
class Outcome(Tested):
    """What the chosen coefficient does in one setting.

    ``only_zero`` says that coefficient 0 was the only candidate: then nothing was chosen.
    ``again`` and ``theory_again`` are of the chosen and of the tuning-free coefficient.
    """

    only_zero: bool = False
    again: Again = _ONCE
    theory_again: Again = _ONCE
    difference = "improvement"

    @property
    def optimum(self) -> Effect | None:
        """Return the improvement at the optimum, where that was solved."""
        return self.again.optimum

    @property
    def is_of_the_start(self) -> bool:
        """Return whether zero weights do not end in this loss."""
        return self.again.is_of_the_start(self.effect)

    @property
    def theory_effect(self) -> Effect:
        """Return the improvement at the tuning-free coefficient."""
        return self._effect("theory_improvement")

    @property
    def charge(self) -> Effect | None:
        """Return the loss of the chosen coefficient that is the penalty's own, if any."""
        return self.again.charge(self.effect) if self.kind == "costs" else None

    @property
    def theory_charge(self) -> Effect | None:
        """Return the same of the tuning-free coefficient; unstable, the optimum alone tells."""
        trained, best = self.theory_effect, self.theory_again.optimum
        if self.row["theory_improvement"] is None:
            return best if best is not None and best.is_a_loss else None
        return self.theory_again.charge(trained) if trained.is_a_loss else None

    @property
    def charged(self) -> Effect:
        """Return what counts of the effect: of a loss, as much as is the penalty's own."""
        return self.charge or self.effect

    @property
    def theory_told(self) -> Effect:
        """Return the tuning-free effect as trained; of unstable training, the optimum's loss."""
        unstable = self.row["theory_improvement"] is None
        return (self.theory_charge if unstable else None) or self.theory_effect

    @property
    def standing(self) -> str:
        """Return the kind, with ``few``, ``only zero``, ``chose zero`` and ``training`` told apart.

        ``training`` is a loss that is not the penalty's.
        """
        if self.kind == "unchanged":
            return "only zero" if self.only_zero else "chose zero"
        if self.kind == "costs" and self.charge is None:
            return "training"
        return "few" if self.too_few else self.kind

    @property
    def practical(self) -> str:
        """Return the kind, with ``small`` for a significant difference that is of no use."""
        small = abs(round(self.charged.mean, 4)) < PRACTICAL
        if self.standing == "training":
            return "training"
        return "small" if small and self.kind in ("helps", "costs") else self.kind

    @property
    def theory_standing(self) -> str | None:
        """Return what the tuning-free coefficient does: safe, costs, training or open.

        ``training`` is a loss that is not the penalty's. None where it was not trained, or once
        only, which has no interval.
        """
        effect = self.theory_effect
        if self.theory_charge is not None:
            return "costs"
        if effect.width is None:
            return None
        if effect.is_a_loss:
            return "training"
        return "safe" if effect.mean - effect.width > -MARGIN else "open"

    @property
    def is_loose_over_classes(self) -> bool:
        """Return whether it is significant, but not over other classes: their interval has zero."""
        low, high = self.row["improvement_classes_low"], self.row["improvement_classes_high"]
        return self.kind in ("helps", "costs") and low is not None and low <= 0 <= high

    @property
    def widening(self) -> float | None:
        """Return how much wider the interval over classes is than that over trials."""
        width, low = self.row["improvement_ci"], self.row["improvement_classes_low"]
        if not width or low is None:
            return None
        return float((self.row["improvement_classes_high"] - low) / (2 * width))


@dataclass(frozen=True)
class Contrast(Tested):
    """A method against another one on the same trials, in one setting."""

    difference = "difference"

    @property
    def is_reference(self) -> bool:
        """Return whether the other is a head without penalty."""
        return bool(self.row["against_penalty"] == "none")

    @property
    def opponent(self) -> tuple[str, str, str]:
        """Return head, penalty and prior of the other."""
        row = self.row
        return row["against_head"], row["against_penalty"], row["against_prior"]

    @property
    def both_zero(self) -> bool:
        """Return whether two methods are the same head, both without their penalty."""
        unused = self.row["coefficient"] == 0 and self.row["against_coefficient"] == 0
        return bool(unused and not self.is_other_head)

    @property
    def is_other_head(self) -> bool:
        """Return whether the other is another head, with its own penalty."""
        return bool(self.row["head"] != self.row["against_head"]) and not self.is_reference

    @property
    def standing(self) -> str:
        """Return how the other does: ``better``, ``worse``, ``as well`` or ``open``."""
        if self.kind != "unclear":
            return "worse" if self.kind == "helps" else "better"
        _, lead, width = self.effect
        close = width is not None and lead + width <= MARGIN
        return "as well" if close and not self.too_few else "open"


def turned(row: Row) -> Row:
    """Return a contrast from the other method's side."""
    low, high = row["difference_classes_low"], row["difference_classes_high"]
    signs = ("difference", "nll_difference", "brier_difference", "ece_difference")
    swapped = (*METHOD, "coefficient", "accuracy")
    pairs = [(name, f"against_{name}") for name in swapped]
    return {
        **row,
        **{name: None if row[name] is None else -row[name] for name in signs},
        "difference_classes_low": None if high is None else -high,
        "difference_classes_high": None if low is None else -low,
        **{name: row[other] for name, other in pairs},
        **{other: row[name] for name, other in pairs},
        "share_won": row["share_lost"],
        "share_lost": row["share_won"],
    }


def kind_of(mean: float, p_holm: float | None, coefficient: float | None = None) -> str:
    """Classify a difference; without p-value it was not tested."""
    if coefficient == 0:
        return "unchanged"
    if p_holm is None or p_holm >= ALPHA or mean == 0:
        return "unclear"
    return "helps" if mean > 0 else "costs"
