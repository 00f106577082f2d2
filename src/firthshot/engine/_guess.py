"""Starting points on a path of coefficients, from the optima that are known already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._form import GradientForm

Array = npt.NDArray[Any]

# Interpolation by more points than this gains nothing.
_MOST = 5


def walk(form: GradientForm, chosen: list[int], together: bool) -> Iterator[tuple[int, Guesses]]:
    """Return coefficients in the order of solving, each with the optima known by then.

    Parameters
    ----------
    together : whether optima may serve as starting points at all

    Notes
    -----
    Divided by 1 + λ the objective has the targets s y + (1 − s) u and the L2 factor s · decay,
    s = 1/(1 + λ): its optimum is a smooth function of s, along which W vanishes at 0. The largest
    s, the hardest problem, comes first; then always that in the middle of the widest gap, so that
    all others are interpolated.
    """
    if not together or form.confidence[chosen].any():
        yield from ((l, Guesses()) for l in chosen)
        return
    share = form.label / form.probability
    for decay in dict.fromkeys(form.weight_decay[chosen].tolist()):
        guesses = Guesses()
        left = [l for l in chosen if form.weight_decay[l] == decay]
        while left:
            l = max(left, key=lambda l: guesses.distance(float(share[l])))
            left.remove(l)
            guesses.at = float(share[l])
            yield l, guesses


@dataclass
class Guesses:
    """Optima along one path."""

    at: float = 0.0
    nodes: list[float] = field(default_factory=list)
    found: list[tuple[Array, ...]] = field(default_factory=list)

    def distance(self, at: float) -> float:
        """Return how far a place is from all that is known."""
        return min(abs(at - node) for node in [0.0, *self.nodes])

    def add(self, *optimum: Array) -> None:
        """Remember the optimum of the present place: the intercept first, then what vanishes."""
        if self.at not in self.nodes:
            self.nodes.append(self.at)
            self.found.append(tuple(part.copy() for part in optimum))

    def fill(self, *start: Array) -> None:
        """Write the interpolated optimum of the present place, zero where nothing is known."""
        for part in start:
            part[:] = 0.0
        near = sorted(range(len(self.nodes)), key=lambda j: abs(self.nodes[j] - self.at))[:_MOST]
        for j in near:
            others = [self.nodes[i] for i in near if i != j]
            share = float(np.prod([self._ratio(j, other) for other in others]))
            start[0][:] += share * self.found[j][0]
            share *= self._ratio(j, 0.0)
            for part, known in zip(start[1:], self.found[j][1:], strict=True):
                part += share * known

    def _ratio(self, j: int, other: float) -> float:
        return (self.at - other) / (self.nodes[j] - other)
