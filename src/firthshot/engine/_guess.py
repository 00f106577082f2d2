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
    The smallest λ, the hardest problem, comes first; then always the one farthest from all that is
    known, so that the others are interpolated.
    """
    if not together or form.confidence[chosen].any():
        yield from ((l, Guesses(len(form.target))) for l in chosen)
        return
    share = form.label / form.probability
    for decay in dict.fromkeys(form.weight_decay[chosen].tolist()):
        guesses = Guesses(len(form.target))
        left = [l for l in chosen if form.weight_decay[l] == decay]
        while left:
            l = max(left, key=lambda l: guesses.distance(float(share[l])))
            left.remove(l)
            guesses.at = float(share[l])
            yield l, guesses


@dataclass
class Guesses:
    """Optima along one path, each at its share s = 1/(1 + λ) of the labels in the targets.

    Rows that can be fitted have W = log(1 + K/λ) times a constant. L2 keeps a distance from the
    targets, ``slack``, also at λ = 0, as λ would: W is nearly a line along log(1 + K/(λ + slack)).
    """

    n_classes: int
    at: float = 0.0
    slack: float = 1.0
    shares: list[float] = field(default_factory=list)
    found: list[tuple[Array, ...]] = field(default_factory=list)

    def place(self, share: float) -> float:
        """Return log(1 + K/(λ + slack)) of a share, along which W is interpolated."""
        return float(np.log1p(self.n_classes * share / (1.0 - share + self.slack * share)))

    def distance(self, share: float) -> float:
        """Return how far a share is from all that is known."""
        known = [0.0, *(self.place(other) for other in self.shares)]
        return min(abs(self.place(share) - other) for other in known)

    def add(self, by_logits: Array, *optimum: Array) -> None:
        """Remember the optimum of the present place: the intercept first, then what vanishes.

        ``by_logits`` is dLoss/dZ there, (K, N), which at the first place tells the slack.
        """
        if not self.shares:
            self.slack = max(1e-6, 0.5 * float(np.abs(by_logits).sum()))
        if self.at not in self.shares:
            self.shares.append(self.at)
            self.found.append(tuple(part.copy() for part in optimum))

    def fill(self, *start: Array) -> None:
        """Write the interpolated optimum of the present place, zero where nothing is known."""
        for part in start:
            part[:] = 0.0
        at, nodes = self.place(self.at), [self.place(share) for share in self.shares]
        near = sorted(range(len(nodes)), key=lambda j: abs(nodes[j] - at))[:_MOST]
        for j in near:
            others = [nodes[i] for i in near if i != j]
            share = float(np.prod([(at - other) / (nodes[j] - other) for other in others]))
            start[0][:] += share * self.found[j][0]
            for part, known in zip(start[1:], self.found[j][1:], strict=True):
                part += share * at / nodes[j] * known
