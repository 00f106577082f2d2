"""How often the printed interval holds the accuracy of held-out rows.

Finished draws are kept in a table, so that the command goes on where it was stopped.
"""

from __future__ import annotations

import csv
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import numpy as np

from firthshot import Bank, FewShotClassifier, load_bank
from firthshot.own_data.assessment.estimate import estimate_accuracy
from firthshot.own_data.assessment.rows import LabelledFit, leave_out, rounds_of
from studies.own_data.draws import BANKS, mean_over_classes, user_draw

KEPT = Path(__file__).parent / "coverage.csv"
NUMBERS = ("held_out", "estimate", "low", "high", "measured")
FIRST = 1000  # the constants of the interval were set on earlier draws


@dataclass(frozen=True)
class Covered:
    """One draw: what was printed, and what held-out rows had."""

    bank: str
    trial: int
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


def cover(bank: Bank, trial: int) -> Covered:
    """Assess one draw."""
    draw = user_draw(bank, trial)
    classes, labels = np.unique(draw.labels, return_inverse=True)
    task = LabelledFit(FewShotClassifier(), draw.features, labels, classes)
    one, _ = estimate_accuracy(task, leave_out(task, rounds_of(task)))
    model = FewShotClassifier().fit(draw.features, draw.labels)
    right = model.predict(draw.held_features) == draw.held_labels
    held_out = mean_over_classes(right, draw.held_labels)
    numbers = (held_out, one.accuracy, one.low, one.high, one.measured)
    return Covered(bank.name, trial, draw.shots, len(classes), *map(float, numbers))


def run(number: int, kept: Path = KEPT) -> list[Covered]:
    """Assess so many draws of every bank; those of the table are done."""
    done = {(one.bank, one.trial): one for one in read(kept)}
    trials = range(FIRST, FIRST + number)
    found = []
    for bank in map(load_bank, BANKS):
        for trial in trials:
            one = done.get((bank.name, trial))
            if one is None:
                one = cover(bank, trial)
                append(kept, one)
            found.append(one)
    return found


def read(kept: Path) -> list[Covered]:
    """Return the draws of a table; none where there is no table."""
    if not kept.exists():
        return []
    kinds: dict[str, type] = dict.fromkeys(NUMBERS, float) | {"trial": int, "ways": int}
    with kept.open(newline="") as lines:
        return [
            Covered(**{name: kinds.get(name, str)(value) for name, value in line.items()})
            for line in csv.DictReader(lines)
        ]


def append(kept: Path, one: Covered) -> None:
    """Write one draw at the end of a table."""
    is_new = not kept.exists()
    with kept.open("a", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        if is_new:
            writer.writerow(asdict(one))
        writer.writerow(f"{x:.6f}" if isinstance(x, float) else x for x in astuple(one))


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
