"""Add trials until the reported intervals are narrow enough.

Only the width of an interval is looked at, never its place: stopping early because a difference is
positive would bias it. The coefficient is chosen on the spec's own val trials and stays; only novel
trials are added, for all methods of a place at once so that they remain matched. What a round adds
depends on the rows of the trials before it and on nothing else, so a resumed run adds the same.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import Array
from firthshot.experiments.plan import Cell, Plan, TrialCondition
from firthshot.experiments.schema import KEYS, PLACE
from firthshot.experiments.spec import Spec
from firthshot.experiments.statistics import half_width

if TYPE_CHECKING:
    pass

Place = tuple[str, int, int, str]  # the values of PLACE
_GROWTH = 8  # a round multiplies the trials by this at most: early widths are noisy


class Rounds:
    """Keep how many novel trials every place has reached."""

    def __init__(self, spec: Spec, plan: Plan) -> None:
        self.spec, self.first = spec, plan.first
        self.novel = [s for s in plan.settings if s.condition.split == "novel"]
        self.reached: dict[Place, int] = {
            place_of(setting.condition): spec.trials for setting in self.novel
        }
        self.widths: dict[Place, float] = {}

    def next_cells(self, folder: Path) -> list[Cell]:
        """Return the cells of the next round; none when all is narrow enough or at the cap."""
        if self.spec.until_ci is None:
            return []
        self.widths = half_widths(folder, self.reached, self.first)
        grown: dict[Place, tuple[int, int]] = {}
        for place, width in self.widths.items():
            now = self.reached[place]
            then = self._enough(now, width)
            if then > now:
                grown[place] = (now, then)
                self.reached[place] = then
        return [
            cell
            for setting in self.novel
            if place_of(setting.condition) in grown
            for cell in setting.cells(
                *(self.first + count for count in grown[place_of(setting.condition)])
            )
        ]

    def _enough(self, now: int, width: float) -> int:
        """Return the number of trials at which the width should be reached, in whole steps."""
        target = self.spec.until_ci or math.inf
        if width <= target:
            return now
        wanted = min(now * (width / target) ** 2 * 1.05, now * _GROWTH)
        step = self.spec.trials
        return min(self.spec.trial_cap, max(now + step, math.ceil(wanted / step) * step))

    def unreached(self) -> dict[Place, float]:
        """Return the places that stopped at the cap, with the half-width they came to."""
        target = self.spec.until_ci or math.inf
        return {place: width for place, width in self.widths.items() if width > target}


def place_of(condition: TrialCondition) -> Place:
    """Return the place of a condition: where methods share trials."""
    return condition.bank, condition.ways, condition.shots, condition.scheme


def half_widths(folder: Path, reached: dict[Place, int], first: int = 0) -> dict[Place, float]:
    """Return, per place, the widest 95 % half-interval in points among its improvements.

    Those of the coefficient chosen on val and of the theory's count, over the novel trials that
    the place has reached; a chosen 0 has no width.
    """
    # polars, which these load, is heavy: presets and specs are looked at without it.
    from firthshot.experiments.summary.choice import reported_coefficients
    from firthshot.experiments.summary.reading import read_index
    from firthshot.experiments.summary.scores import load_scored

    index = read_index([folder])
    widest = dict.fromkeys(reached, 0.0)
    for key in index.files:
        about = dict(zip(KEYS, key, strict=True))
        if about["split"] == "novel" and about["penalty"] != "none":
            novel, place = load_scored(index, key), tuple(about[name] for name in PLACE)
            counted = novel.trials < first + reached[place]
            for value, theory in reported_coefficients(index, novel).items():
                if theory or novel.at(value) >= 0:
                    gains = 100 * novel.gains(value, theory)[counted]
                    widest[place] = max(widest[place], _width(gains[np.isfinite(gains)]))
    return widest


def _width(gains: Array) -> float:
    """Return the half-width of an interval; that of one trial is not narrow."""
    return half_width(gains) if len(gains) > 1 else math.inf if len(gains) else 0.0
