"""Warm starts on a path of λ: polynomial interpolation between the optima that are known already.

W is interpolated by Lagrange's formula, not over λ but over x(λ) = log(1 + K/(λ + slack)), along
which it is nearly a straight line (`Guesses`). Code calls x a *place*.
"""

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

    Without warm starts, and with a confidence penalty, every coefficient starts at zero, in the
    order given. Otherwise the smallest λ, the hardest problem, comes first, then always the one
    whose place is farthest from the places known, so that as many as possible are interpolated and
    not extrapolated.
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
    """Optima along one path of λ, each known by its share 1/(1 + λ) of the labels in the targets.

    Without L2, independent rows have W = log(1 + K/λ) times a constant. L2 keeps predictions away
    from the targets even at λ = 0, as some more λ would: W is nearly log(1 + K/(λ + slack)) times a
    constant, ``slack`` being that distance.
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
        """Remember the optimum of the present coefficient: first the intercept, then W.

        W goes to zero with the place, which its interpolation uses, the intercept does not.
        ``by_logits`` is dLoss/dZ there, (K, N); that of the first coefficient sets the slack. The
        arrays are kept and must not change.
        """
        if not self.shares:  # the distance: mean total variation between predictions and targets
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
