"""Left-out predictions for calibration: some rows of every class at once.

Leaving out one row of a class and none of the others tells the head that this class is rarer, and
with two or three rows per class that matters more than anything else: the row is given too little
probability, and a temperature fitted to that is far too high. Leaving out as many rows of every
class keeps the classes in proportion, and costs at most five fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firthshot.objective import log_softmax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firthshot.estimators._support import Array

ROUNDS = 5
ENOUGH = 200  # one temperature does not need more left-out rows than that
# What a support set of one row per class is taken to say: its own labels, with this probability.
SUPPORT_PROBABILITY = 0.99


def rounds(labels: Array) -> Iterator[Array]:
    """Yield the rows to leave out in each round: disjoint, and never a whole class.

    The j-th row of a class is left out in round j modulo the number of rounds, which is five or
    the size of the largest class; the only row of a class is never left out. The rounds end when
    there are enough rows.
    """
    rank = _rank_in_class(labels)
    single = np.bincount(labels)[labels] == 1
    n_rounds, left = min(ROUNDS, int(rank.max()) + 1), 0
    for number in range(n_rounds):
        rows = np.flatnonzero((rank % n_rounds == number) & ~single)
        if not len(rows) or left >= ENOUGH:
            return
        left += len(rows)
        yield rows


def _rank_in_class(labels: Array) -> Array:
    """Return how many earlier rows have the same label, (N,)."""
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    rank = np.empty(len(labels), np.int64)
    rank[order] = np.arange(len(labels)) - np.repeat(starts, counts)
    return rank


def support_temperature(logits: Array, labels: Array) -> float:
    """Return the temperature at which the rows' own labels get probability 0.99.

    In the geometric mean, and of the rows that a head was fitted to, (N, K): for support sets of
    one row per class, which say nothing about how well a head does on rows that it has not seen.
    Without it the probabilities would say how strong the penalty was. Where no temperature reaches
    0.99, because the fit is wrong on some rows, the result is 1.
    """
    rows = np.arange(len(labels))
    wanted = -np.log(SUPPORT_PROBABILITY)

    def loss(sharpness: float) -> float:
        return float(-log_softmax(sharpness * logits)[rows, labels].mean())

    if not (logits.argmax(axis=1) == labels).all():
        return 1.0
    low, high = 1e-6, 1.0
    while loss(high) > wanted and high < 1e12:
        low, high = high, 2 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if loss(middle) > wanted else (low, middle)
    return 1.0 / high
