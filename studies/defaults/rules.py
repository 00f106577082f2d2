"""The rules for λ and l2 that are tried, from what is known of a support set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

BASELINE = "LogisticRegression()"
COSINE = "FirthCosineClassifier()"
OURS = "default: calibrated"


@dataclass(frozen=True)
class Facts:
    """What a rule may know of a support set: classes, rows, and the spread of the rows.

    The spread v is the mean squared distance of the rows from their mean (the trace of their
    covariance S). It has the unit of l2, so that l2 = c v gives the same predictions whatever the
    scale of the features. ``scale`` is the l2 that the estimator makes of them.
    """

    classes: int
    rows: int
    spread: float
    scale: float

    @property
    def shots(self) -> float:
        """Return the rows per class, on average."""
        return self.rows / self.classes


Rule = Callable[[Facts], tuple[float, float]]


def constant(value: float) -> Callable[[Facts], float]:
    """Return the rule that takes a value whatever the support set."""
    return lambda _: value


RIDGES: dict[str, Callable[[Facts], float]] = {
    "1": constant(1.0),
    "3 v": lambda f: 3 * f.spread,
    "v": lambda f: f.spread,
    "v share": lambda f: f.scale,
    "v/√shots": lambda f: f.spread / np.sqrt(f.shots),
    "v/shots": lambda f: f.spread / f.shots,
    "0.3 v": lambda f: 0.3 * f.spread,
    "0.1 v": lambda f: 0.1 * f.spread,
    "0.001 v": lambda f: 0.001 * f.spread,
}
LAMBDAS: dict[str, Callable[[Facts], float]] = {
    **{f"{value:g}": constant(value) for value in (0.0, 0.1, 0.3, 1.0, 3.0)},
    "1/shots": lambda f: 1 / f.shots,
    "1/shots²": lambda f: 1 / f.shots**2,
    "K/2": lambda f: f.classes / 2,
}
DEFAULT = ("1/shots²", "v share")


def rule(lam: str, l2: str) -> Rule:
    """Return the rule of a λ and an l2 by their names."""
    return lambda facts: (LAMBDAS[lam](facts), RIDGES[l2](facts))


def named(lam: str, l2: str) -> str:
    """Return what the tables call a rule."""
    return f"λ = {lam}, l2 = {l2}"


# Trained in every cell with 2,000 trials.
CORE: dict[str, Rule] = {
    BASELINE: lambda _: (0.0, 1.0),
    named(*DEFAULT): rule(*DEFAULT),
    named("0", DEFAULT[1]): rule("0", DEFAULT[1]),
    named("1", DEFAULT[1]): rule("1", DEFAULT[1]),
}
# LogisticRegression() on features times ten has l2 = 1/100 on these, and the other way round.
SCALED: dict[str, Rule] = {
    "LogisticRegression(), features × 10": lambda _: (0.0, 0.01),
    "LogisticRegression(), features × 0.1": lambda _: (0.0, 100.0),
}
WIDE: dict[str, Rule] = {
    BASELINE: CORE[BASELINE],
    **SCALED,
    **{named(lam, l2): rule(lam, l2) for l2 in RIDGES for lam in LAMBDAS},
}
