"""The temperature of a head from its own support set: rows of every class left out at once.

Leaving out one row of a class and none of the others tells the head that this class is rarer, and
with two or three rows per class that matters more than anything else: the row is given too little
probability, and a temperature fitted to that is far too high. Leaving out as many rows of every
class keeps the classes in proportion, and costs at most five fits.

What few left-out rows say is uncertain, and of two rows per class it is said by a head that saw
one. Such a temperature is therefore averaged with another that any support set gives: the one at
which a head is as sure of its own rows as heads turn out to be. ``docs/choosing-lambda.md`` has the
measurements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firthshot.objective import log_softmax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firthshot.estimators._support import Array, Support

ROUNDS = 5
ENOUGH = 200  # one temperature does not need more left-out rows than that
FEWEST = 10  # fewer left-out rows are not asked
HALF = 20  # this many count as much as the support itself
SUPPORT_PROBABILITY = 0.99


def rounds(support: Support) -> Iterator[Array]:
    """Yield the rows to leave out in each round: disjoint, and never a whole class.

    The j-th distinct row of a class is left out in round j modulo the number of rounds, which is
    five or that of the distinct rows of the largest class; with it go its copies, so that a weight
    of two and a row given twice are the same. A class of one distinct row stays. The rounds end
    when there are enough rows, and there are none if there would be too few.
    """
    rank = _rank_in_class(support)
    n_distinct = np.zeros(support.n_classes, np.int64)
    np.maximum.at(n_distinct, support.labels, rank + 1)
    leavable = n_distinct[support.labels] > 1
    if support.weights[leavable].sum() < FEWEST:
        return
    n_rounds, left = min(ROUNDS, int(n_distinct.max())), 0.0
    for number in range(n_rounds):
        if left >= ENOUGH:
            return
        rows = np.flatnonzero((rank % n_rounds == number) & leavable)
        left += float(support.weights[rows].sum())
        yield rows


def _rank_in_class(support: Support) -> Array:
    """Return the position of every row among the distinct rows of its class, (N,).

    They are ordered along a fixed direction, on which different rows hardly ever meet; the order
    of the rows in the support set has no part in it.
    """
    along = np.asarray(support.X @ np.sin(np.arange(1, support.X.shape[1] + 1)), np.float64)
    order = np.lexsort((along, support.labels))
    labels, along = support.labels[order], along[order]
    apart = 1e-6 if support.X.dtype == np.float32 else 1e-12
    new_class = np.diff(labels, prepend=-1) != 0
    new_row = new_class | (np.diff(along, prepend=0.0) > apart * np.abs(along).max())
    number = np.cumsum(new_row)
    rank = np.empty(len(labels), np.int64)
    rank[order] = number - np.repeat(
        number[new_class], np.diff(np.flatnonzero(np.append(new_class, True)))
    )
    return rank


def support_temperature(logits: Array, labels: Array, weights: Array) -> float:
    """Return the temperature at which rows that a head was fitted to get their labels with 0.99.

    In the weighted geometric mean of the probabilities, over the rows (N, K) that the head has
    right. It undoes what the penalty did to the size of the logits; 1 if the head has no row right.
    """
    right = logits.argmax(axis=1) == labels
    if not right.any():
        return 1.0
    z, rows = logits[right], np.arange(int(right.sum()))
    own, share = labels[right], weights[right] / weights[right].sum()
    wanted = -np.log(SUPPORT_PROBABILITY)

    def loss(sharpness: float) -> float:
        return float(-share @ log_softmax(sharpness * z)[rows, own])

    low, high = 0.0, 1.0
    while loss(high) > wanted and high < 1e12:
        low, high = high, 2 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if loss(middle) > wanted else (low, middle)
    return 1.0 / high


def average(left_out: float, support: float, n_left_out: float, shots: float) -> float:
    """Return the geometric mean of two temperatures, weighted by how much is behind the first.

    The support counts 20 rows against those left out, and at least 1 / shots: so much of each
    class the heads without them lacked.
    """
    share = max(1 / shots, HALF / (n_left_out + HALF))
    return float(left_out ** (1 - share) * support**share)
