"""Add trials until the reported intervals are narrow enough.

Only the width of an interval is looked at, never its place: stopping early because a difference is
positive would bias it. The coefficient is chosen on the spec's own val trials and stays; only novel
trials are added, for all methods of a place at once so that they remain matched. What a round adds
depends on the rows of the trials before it and on nothing else, so a resumed run adds the same.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from firthshot.experiments.run.store import part_files
from firthshot.experiments.schema import ARTIFICIAL, METHOD, PLACE

if TYPE_CHECKING:
    import polars as pl

    from firthshot.experiments.plan.cell import Cell, TrialCondition
    from firthshot.experiments.plan.layout import Plan
    from firthshot.experiments.run.store import RunFolder
    from firthshot.experiments.spec.fields import Spec

Place = tuple[str, int, int, str]  # the values of PLACE
_METHOD = (*METHOD, *ARTIFICIAL)
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

    def next_cells(self, folder: RunFolder) -> list[Cell]:
        """Return the cells of the next round; none when all is narrow enough or at the cap."""
        if self.spec.until_ci is None:
            return []
        rows = read_rows(folder, self.first)
        self.widths = half_widths(rows, self.reached, self.spec.trials)
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


def read_rows(folder: RunFolder, first: int = 0) -> pl.DataFrame:
    """Return the columns that widths need, of all penalised rows; trials counted from ``first``."""
    import polars as pl

    columns = [*PLACE, *_METHOD, "split", "coefficient", "theory", "trial", "accuracy"]
    rows = pl.scan_parquet(part_files(folder.path), glob=False).filter(
        (pl.col("penalty") != "none") & (pl.col("status") == "ok")
    )
    return rows.select(columns).with_columns(pl.col("trial") - first).collect()


def half_widths(rows: pl.DataFrame, reached: dict[Place, int], trials: int) -> dict[Place, float]:
    """Return, per place, the widest 95 % half-interval in points among its improvements.

    Those of the coefficient chosen on val and of the theory's count; a chosen 0 has no width.
    """
    import polars as pl

    chosen = choose(rows.filter((pl.col("split") == "val") & (pl.col("trial") < trials)))
    novel = rows.filter(pl.col("split") == "novel")
    widest = dict.fromkeys(reached, 0.0)
    for key, group in novel.group_by([*PLACE, *_METHOD]):
        place: Any = key[: len(PLACE)]
        mine = group.filter(pl.col("trial") < reached[place])
        reported = pl.col("theory") | (pl.col("coefficient") == chosen.get(key, 0.0))
        widest[place] = max(widest[place], _widest(mine, reported))
    return widest


def choose(val: pl.DataFrame) -> dict[tuple[Any, ...], float]:
    """Return the coefficient that the summary would choose on these val rows, all of them ok.

    The best mean accuracy, the smaller one of equals; candidates have every trial that 0 has.
    """
    import polars as pl

    from firthshot.experiments.statistics import SAME_MEAN

    keys = [*PLACE, *_METHOD]
    grid = val.filter(~pl.col("theory") & pl.col("accuracy").is_finite())
    zero = grid.filter(pl.col("coefficient") == 0).select(*keys, "trial")
    means = (
        grid.join(zero, on=[*keys, "trial"], how="semi")
        .group_by([*keys, "coefficient"])
        .agg(pl.col("accuracy").cast(pl.Float64).mean(), trials=pl.len())
        .filter(pl.col("trials") == pl.col("trials").max().over(keys))
    )
    best = means.filter(pl.col("accuracy") >= pl.col("accuracy").max().over(keys) - SAME_MEAN).sort(
        "coefficient"
    )
    first = best.unique(keys, keep="first", maintain_order=True)
    return {tuple(row[:-1]): row[-1] for row in first.select(*keys, "coefficient").rows()}


def _widest(rows: pl.DataFrame, reported: pl.Expr) -> float:
    import polars as pl

    from firthshot.experiments.statistics import half_width

    zero = rows.filter((pl.col("coefficient") == 0) & ~pl.col("theory"))
    paired = rows.filter(reported & ((pl.col("coefficient") != 0) | pl.col("theory"))).join(
        zero.select("trial", base="accuracy"), on="trial"
    )
    gain = (pl.col("accuracy").cast(pl.Float64) - pl.col("base")).fill_nan(None) * 100
    groups = paired.group_by("coefficient", "theory").agg(gain)
    widths = (half_width(each.drop_nulls().to_numpy()) for each in groups.to_series(2))
    # One trial has no width: that is not narrow.
    return max((math.inf if math.isnan(width) else width for width in widths), default=0.0)
