"""Add trials until the reported intervals are narrow enough.

Only the width of an interval is looked at, never its place: stopping early because a difference is
positive would bias it. The coefficient is chosen on the spec's own val trials and stays; only novel
trials are added, for all methods of a place at once so that they remain matched. What a round adds
depends on the rows of the trials before it and on nothing else, so a resumed run adds the same.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.arrays import Array
from firthshot.experiments.plan import Cell, Plan, TrialCondition
from firthshot.experiments.schema import PLACE
from firthshot.experiments.spec import Spec
from firthshot.experiments.statistics import half_width

if TYPE_CHECKING:
    from firthshot.experiments.summary.scores import Scored

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
    from firthshot.experiments.summary.choice import choose, partner
    from firthshot.experiments.summary.reading import read_index, splits
    from firthshot.experiments.summary.scores import load_scored

    index = read_index([folder])
    widest = dict.fromkeys(reached, 0.0)
    for _, keys in splits(index):
        loaded = {split: [load_scored(index, key) for key in some] for split, some in keys.items()}
        for novel in loaded.get("novel", ()):
            if novel.key["penalty"] == "none":
                continue
            val = partner(novel, [val for val in loaded.get("val", ()) if len(val.trials)])
            place: Any = tuple(novel.key[name] for name in PLACE)
            chosen = choose(val).coefficient if val else 0.0
            width = _widest(novel, chosen, novel.trials < first + reached[place])
            widest[place] = max(widest[place], width)
    return widest


def _widest(novel: Scored, chosen: float, reached: Array) -> float:
    accuracy = novel.scores["accuracy"]
    reported = [accuracy[novel.at(chosen)]] if chosen and novel.at(chosen) >= 0 else []
    reported += [novel.theory["accuracy"]] if novel.theory else []
    gains = [100 * (row - accuracy[novel.at(0.0)])[reached] for row in reported]
    widths = [half_width(gain[np.isfinite(gain)]) for gain in gains if np.isfinite(gain).any()]
    # One trial has no width: that is not narrow.
    return max((math.inf if math.isnan(width) else width for width in widths), default=0.0)
