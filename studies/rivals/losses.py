"""Look for losses that a verdict charges Firth with and the optimum does not show.

Every bank is run twice on the same trials: as published, and at the optimum of the same objective
with a tiny ridge, without which separable rows have none. A setting is charged where the verdict
says that the chosen λ, or the theory's, costs accuracy. It is charged wrongly where the same λ at
the optimum leaves room for a gain, and too much where the verdict names a larger loss than the
optimum shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from firthshot.experiments.checks import OPTIMUM_RIDGE, Check
from firthshot.experiments.runner import run
from firthshot.experiments.spec import load_spec
from firthshot.report.gather import gather
from firthshot.report.verdict import Condition, Effect, Outcome

BANKS = (
    "clinc150-minilm",
    "mini-resnet10",
    "mini-resnet10-bn-train-sorted",
    "cub-resnet10",
    "cifarfs-wrn16-2",
    "cifarfs-efficientnet-lite0",
)
SETTINGS: dict[str, Any] = {
    "ways": [16],
    "shots": [1, 5, 20],
    "coefficients": [0, 0.1, 1, 10],
    "references": False,
}
_SAME = 1e-5  # a thousandth of a point: the same trials, averaged in another precision
WORDS = {"costs": "loss", "training": "loss of the training", "unstable": "unstable, left out"}
_ABOUT = (
    "Linear head, 16 ways, {trials} trials a setting, trained as published and solved on the same "
    f"trials (CE + λ KL + a ridge of {OPTIMUM_RIDGE:g}). *Charged*: the loss that the verdict puts "
    "down to λ, the smaller of the two. "
    "Command: `python -m studies.rivals losses`."
)
OPTIMUM = {"solver": "converged", "l2": OPTIMUM_RIDGE, "l2_kind": "ridge"}


@dataclass(frozen=True)
class Charge:
    """What a verdict says of one λ in one setting, and what the optimum shows for the same λ."""

    shots: str
    which: str
    coefficient: float
    standing: str
    trained: Effect
    optimum: tuple[float, float]
    charge: Effect | None = None

    @property
    def charged(self) -> bool:
        """Return whether the verdict calls it a loss of Firth's."""
        return self.charge is not None

    @property
    def wrongly(self) -> bool:
        """Return whether it is charged with a loss that the optimum does not show."""
        return self.charged and sum(self.optimum) >= 0

    @property
    def exaggerated(self) -> bool:
        """Return whether it is charged with a larger loss than the optimum shows."""
        return self.charge is not None and self.charge.mean < self.optimum[0] - _SAME

    @property
    def excused(self) -> bool:
        """Return whether the verdict does not charge it, though the optimum shows a loss."""
        return self.standing in ("training", "unstable") and sum(self.optimum) < 0


def charges_of(
    bank: str, folder: Path, trials: int, settings: Mapping[str, Any] = SETTINGS
) -> list[Charge]:
    """Run a bank as published and at the optimum, and compare their losses."""
    asked = {**settings, "banks": [bank], "trials": trials}
    published = load_spec("datasets-firth", asked)
    run(published, folder / "published")
    run(load_spec("datasets-firth", {**asked, **OPTIMUM}), folder / "optimum")
    solved = gather([folder / "optimum"]).summary.all
    verdicts = gather([folder / "published"]).verdicts
    return [
        charge
        for verdict in verdicts
        for outcome in verdict.outcomes
        for charge in _charges(outcome, verdict.checks, solved)
    ]


def _charges(outcome: Outcome, checks: Sequence[Check], solved: pl.DataFrame) -> Iterator[Charge]:
    row, place = outcome.row, outcome.condition
    unstable = {
        check.coefficient for check in checks if check.unstable and Condition.of(check.key) == place
    }
    said = (
        ("chosen", row["coefficient"], outcome.standing, outcome.effect, outcome.charge),
        ("theory", row["theory_coefficient"], outcome.theory_standing, outcome.theory_effect,
         outcome.theory_charge),
    )  # fmt: skip
    for which, coefficient, standing, effect, charge in said:
        same = solved.filter(
            pl.col("split") == "novel",
            pl.col("penalty") == "firth",
            pl.col("ways") == place.ways,
            pl.col("shots_scheme") == place.scheme,
            pl.col("shots") == place.shots,
            (pl.col("coefficient") - coefficient).abs() < 1e-9,
        )
        said_of_it = standing or ("unstable" if coefficient in unstable else "")
        if coefficient and said_of_it and len(same):
            best = same["improvement"][0], same["improvement_ci"][0]
            yield Charge(place.label, which, coefficient, said_of_it, effect, best, charge)


def page(found: Mapping[str, Sequence[Charge]], trials: int) -> str:
    """Return the page: a line per bank, and every loss that was seen or charged."""
    every = [one for charges in found.values() for one in charges]
    lines = [
        "# Losses that verdicts charge Firth with",
        "",
        _answer(every),
        "",
        _ABOUT.format(trials=trials),
        "",
        f"| bank | {' | '.join(COUNTED)} |",
        "| --- |" + " ---: |" * len(COUNTED),
        *(_bank_line(bank, charges) for bank, charges in found.items()),
        "",
        "| bank | shots | λ | verdict | as trained, points | at the optimum, points | charged |",
        "| --- | --- | ---: | --- | ---: | ---: | ---: |",
        *(
            _charge_line(bank, one)
            for bank, charges in found.items()
            for one in charges
            if one.standing in WORDS
        ),
    ]
    return "\n".join(lines) + "\n"


def _answer(charges: Sequence[Charge]) -> str:
    """Return the result in words: charged without cause, charged too much, not charged."""
    charged, wrong, large, excused = (
        sum(getattr(one, name) for one in charges)
        for name in ("charged", "wrongly", "exaggerated", "excused")
    )
    return (
        f"The verdicts charge Firth with {charged} losses. The optimum shows no loss in {wrong} of "
        f"them, and a smaller one than charged in {large}. In {excused} other cases the verdict "
        "puts a loss down to the training, and the optimum shows a loss too."
    )


def _bank_line(bank: str, charges: Sequence[Charge]) -> str:
    counts = (sum(map(counts_it, charges)) for counts_it in COUNTED.values())
    return f"| {bank} | {' | '.join(map(str, counts))} |"


def _charge_line(bank: str, one: Charge) -> str:
    trained = _points(one.trained.mean, one.trained.width)
    said = WORDS[one.standing]
    return (
        f"| {bank} | {one.shots} | {one.which} {one.coefficient:g} | {said} | {trained} "
        f"| {_points(*one.optimum)} | {_points(*(one.charge or (None, None, None))[1:])} |"
    )


COUNTED: dict[str, Callable[[Charge], bool]] = {
    "λ > 0": lambda one: one.coefficient > 0,
    "charged": lambda one: one.charged,
    "no loss at the optimum": lambda one: one.wrongly,
    "a smaller loss at the optimum": lambda one: one.exaggerated,
    "put down to the training": lambda one: one.standing == "training",
    "unstable": lambda one: one.standing == "unstable",
    "not charged, a loss at the optimum": lambda one: one.excused,
}


def _points(mean: float | None, width: float | None) -> str:
    return "–" if mean is None else f"{100 * mean:+.2f} ± {100 * (width or 0):.2f}"
