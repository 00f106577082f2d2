"""How often the printed interval holds the accuracy of held-out rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot import FewShotClassifier
from firthshot.own_data.assessment import LabelledFit
from firthshot.own_data.assessment.estimate import estimate_accuracy
from firthshot.own_data.assessment.rows import leave_out, rounds_of
from studies.own_data.draws import BANKS, Draw, draws, mean_over_classes


@dataclass(frozen=True)
class Covered:
    """One draw: what was printed, and what held-out rows had."""

    bank: str
    shots: str
    ways: int
    held_out: float
    estimate: float
    low: float
    high: float
    measured: float

    @property
    def inside(self) -> bool:
        """Tell whether the held-out accuracy is in the interval."""
        return self.low <= self.held_out <= self.high


def cover(bank: str, draw: Draw) -> Covered | None:
    """Assess one draw; None where every class has one row."""
    classes, labels = np.unique(draw.labels, return_inverse=True)
    task = LabelledFit(FewShotClassifier(), draw.features, labels, classes)
    rounds = rounds_of(task)
    if not rounds:
        return None
    one, _ = estimate_accuracy(task, leave_out(task, rounds))
    model = FewShotClassifier().fit(draw.features, draw.labels)
    right = model.predict(draw.held_features) == draw.held_labels
    return Covered(
        bank,
        draw.shots,
        len(classes),
        mean_over_classes(right, draw.held_labels),
        one.accuracy,
        one.low,
        one.high,
        one.measured,
    )


def run(number: int) -> list[Covered]:
    """Assess so many draws of every bank."""
    found = (cover(bank, draw) for bank in BANKS for draw in draws(bank, number))
    return [one for one in found if one is not None]


def table(found: list[Covered]) -> str:
    """Return a table in Markdown: by bank, by rows per class, and of all draws."""
    lines = [
        "| draws | number | held out | printed | left out | RMS error | width | inside |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups = [("all", found)]
    groups += [(bank, [one for one in found if one.bank == bank]) for bank in BANKS]
    kinds = dict.fromkeys(one.shots for one in found)
    groups += [
        (f"{kind} rows a class", [one for one in found if one.shots == kind]) for kind in kinds
    ]
    return "\n".join([*lines, *(_line(name, part) for name, part in groups if part)])


def _line(name: str, part: list[Covered]) -> str:
    values = {key: 100 * np.array([getattr(one, key) for one in part]) for key in NUMBERS}
    error = np.sqrt(np.mean((values["estimate"] - values["held_out"]) ** 2))
    width = np.mean(values["high"] - values["low"])
    inside = 100 * np.mean([one.inside for one in part])
    means = [f"{values[key].mean():.1f}" for key in ("held_out", "estimate", "measured")]
    cells = [name, str(len(part)), *means, f"{error:.1f}", f"{width:.1f}", f"{inside:.1f} %"]
    return f"| {' | '.join(cells)} |"


NUMBERS = ("held_out", "estimate", "low", "high", "measured")
