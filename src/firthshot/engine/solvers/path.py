"""Starting points on a path of λ, from the optima that are known already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import log1p, prod

import numpy as np

from firthshot.arrays import Array
from firthshot.objective import PenaltyTables

# Points of an interpolation: from the sixth on the tolerance of the optima hides the gain.
_MOST = 5
# The least slack: optima of rows that are fitted to this are on their way to infinity.
_LEAST_SLACK = 1e-6


def walk(
    form: PenaltyTables, chosen: list[int], warm_start: bool
) -> Iterator[tuple[int, Guesses | None]]:
    """Return coefficients in the order of solving, each with the optima known by then.

    There are none, and the order is that given, where every coefficient starts at zero. Else the
    smallest λ, the hardest problem, comes first; then always the one farthest from all that is
    known, so that the others are interpolated.
    """
    if not warm_start or len(chosen) == 1 or form.confidence[chosen].any():
        yield from ((l, None) for l in chosen)
        return
    share = (form.label / form.probability).tolist()
    # objectives may be scaled: what is the same along a path is L2 beside the labels
    ridge = [f"{form.weight_decay[l] / (form.label[l] or 1.0):.9e}" for l in chosen]
    for same in dict.fromkeys(ridge):
        guesses = Guesses(len(form.target))
        left = [l for l, other in zip(chosen, ridge, strict=True) if other == same]
        while left:
            l = guesses.farthest(left, share)
            left.remove(l)
            guesses.share = share[l]
            yield l, guesses


@dataclass
class Guesses:
    """Optima along one path, each at its share s = 1/(1 + λ) of the labels in the targets.

    Rows that can be fitted have W = log(1 + K/λ) times a constant. L2 keeps a distance from the
    targets, ``slack``, also at λ = 0, as λ would: W is nearly a line along log(1 + K/(λ + slack)).
    """

    n_classes: int
    share: float = 0.0  # of the coefficient that is being solved
    slack: float = 1.0
    shares: list[float] = field(default_factory=list)
    found: list[tuple[Array, ...]] = field(default_factory=list)

    def place(self, share: float) -> float:
        """Return log(1 + K/(λ + slack)) of a share, along which W is interpolated."""
        return log1p(self.n_classes * share / (1.0 - share + self.slack * share))

    def farthest(self, left: list[int], shares: list[float]) -> int:
        """Return the coefficient whose share is farthest from all that is known."""
        known = [0.0, *map(self.place, self.shares)]
        places = [self.place(shares[l]) for l in left]
        distances = [min(abs(place - other) for other in known) for place in places]
        return left[distances.index(max(distances))]

    def add(self, by_logits: Array, *optimum: Array) -> None:
        """Remember the optimum of the present place: the intercept first, then what vanishes.

        ``by_logits`` is dLoss/dZ there, (K, N), which at the first place tells the slack. The
        arrays are kept and must not change.
        """
        if not self.shares:
            self.slack = max(_LEAST_SLACK, 0.5 * float(np.abs(by_logits).sum()))
        if self.share not in self.shares:
            self.shares.append(self.share)
            self.found.append(optimum)

    def fill(self, *start: Array) -> None:
        """Write the interpolated optimum of the present place, zero where nothing is known."""
        here, nodes = self.place(self.share), [self.place(share) for share in self.shares]
        near = sorted(range(len(nodes)), key=lambda j: abs(nodes[j] - here))[:_MOST]
        weights = [
            prod((here - nodes[i]) / (nodes[j] - nodes[i]) for i in near if i != j) for j in near
        ]
        shrunk = [weight * here / nodes[j] for weight, j in zip(weights, near, strict=True)]
        for number, part in enumerate(start):
            known = [self.found[j][number] for j in near]
            _combine(shrunk if number else weights, known, part)


def _combine(weights: list[float], parts: list[Array], out: Array) -> None:
    """Write Σ weight · part to ``out``, zero for none."""
    if not parts:
        out[:] = 0.0
        return
    np.multiply(parts[0], weights[0], out=out)
    term = np.empty_like(out)
    for weight, part in zip(weights[1:], parts[1:], strict=True):
        np.multiply(part, weight, out=term)
        out += term
