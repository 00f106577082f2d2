"""The temperature of a head from its own support set: rows of every class left out at once.

Leaving out one row of a class and none of the others tells the head that this class is rarer, and
with two or three rows per class that matters more than anything else: the row is given too little
probability, and a temperature fitted to that is far too high. Leaving out as many rows of every
class keeps the classes in proportion, and costs at most five fits.

What few left-out rows say is uncertain, and of two rows per class it is said by a head that saw
one. Such a temperature is therefore averaged with another that any support set gives: the one at
which a head is as sure of its own rows as plain logistic regression is, or nearly certain of them
where that one is timid. ``docs/choosing-lambda.md`` has the measurements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from firthshot.estimators._centre import FAR
from firthshot.objective import log_softmax, softmax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firthshot.estimators._loo import LeftOut
    from firthshot.estimators._support import Array, Support

ROUNDS = 5
ENOUGH = 200  # one temperature does not need more left-out rows than that
FEWEST = 20  # fewer left-out rows are not asked
HALF = 20  # this many count as much as the support itself
SUPPORT_PROBABILITY = 0.95
MOST_OF_MEAN_LEAD = 2.0
LEARNED, TIMID = 0.3, 0.65  # features as encoders give them lie below, rows of unit length above
# Logits are never sharpened or flattened by more than this factor (a strong l2 on features of
# small scale asks for a lot).
LARGEST = 1e4
PSEUDO = 0.25  # Platt's 1 makes few rows too timid


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
    if support.moments.spread < FAR * support.moments.square:
        along -= along.mean()  # else what is small beside the mean would count as equal
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


def support_temperature(logits: Array, plain: Array | None, labels: Array, weights: Array) -> float:
    """Return a temperature from the logits (N, K) that a head gives the rows it was fitted to.

    How hard a task is, one row per class cannot say. Two sizes of the logits are known to do:
    that of plain logistic regression (``plain``: λ = 0, l2 = 1, on the same rows), where features
    are large enough for it to learn its rows, and the one at which the head gives its rows 0.95,
    where they are not: where the share of the labels' information that plain logistic regression
    has not learned, −log p / log K, is 0.65 or more. Below 0.3 the first stands alone, between
    them their geometric mean. Without ``plain`` the second stands alone: for rows that all have
    one length, which says nothing. 1 if the head tells no classes apart.
    """
    share = weights / weights.sum()
    size = _size(logits, share)
    if size == 0:
        return 1.0
    log_sharpness, timid = 0.0, 1.0
    if plain is not None:
        timid = _timidity(plain, labels, share)
        log_sharpness += (1 - timid) * np.log(max(_size(plain, share) / size, 1e-12))
    if timid > 0:  # it takes a search
        nearly_certain = _sharpness_at(SUPPORT_PROBABILITY, logits, labels, weights)
        log_sharpness += timid * np.log(nearly_certain)
    return float(np.exp(-log_sharpness))


def _timidity(plain: Array, labels: Array, share: Array) -> float:
    """Return 0 where plain regression learned its rows, 1 where it learned little of them."""
    log_p = log_softmax(plain)[np.arange(len(labels)), labels]
    missing = float(-share @ log_p) / np.log(plain.shape[1])
    return float(np.clip((missing - LEARNED) / (TIMID - LEARNED), 0, 1))


def _size(logits: Array, share: Array) -> float:
    """Return how far a row's logits are from their mean, root mean square over the rows."""
    apart = logits - logits.mean(axis=1, keepdims=True)
    return float(np.sqrt(share @ np.square(apart).sum(axis=1)))


def _sharpness_at(probability: float, logits: Array, labels: Array, weights: Array) -> float:
    """Return the factor by which the rows that the head has right reach a probability.

    It is the weighted geometric mean of the labels' probabilities that reaches it, unless rows that
    are right by a hair ask for more than twice what the mean lead over the next class needs.
    """
    right = logits.argmax(axis=1) == labels
    if not right.any():
        return 1.0
    z, rows = logits[right], np.arange(int(right.sum()))
    own, share = labels[right], weights[right] / weights[right].sum()
    wanted = -np.log(probability)
    lead = float(share @ _leads(z, own))
    if not lead > 0:
        return 1.0

    def loss(sharpness: float) -> float:
        return float(-share @ log_softmax(sharpness * z)[rows, own])

    odds = probability / (1 - probability) * (z.shape[1] - 1)
    most = MOST_OF_MEAN_LEAD * np.log(odds) / lead
    if loss(most) > wanted:
        return float(most)
    return float(brentq(lambda sharpness: loss(sharpness) - wanted, 0.0, most, rtol=1e-12))


def _leads(logits: Array, labels: Array) -> Array:
    """Return how far the label's logit is above the largest other one, (N,)."""
    rows, others = np.arange(len(labels)), logits.copy()
    others[rows, labels] = -np.inf
    return np.asarray(logits[rows, labels] - others.max(axis=1))


def share_of_support(n_left_out: float, shots: float) -> float:
    """Return how much the support's temperature counts against that of the left-out rows.

    It counts as 20 rows do, and at least 1 / shots: so much of each class the heads without them
    lacked. Where that is a tenth or less it is not worth its fit.
    """
    if not n_left_out:
        return 1.0
    share = max(1 / shots, HALF / (n_left_out + HALF))
    return share if share > 0.1 else 0.0


def average(left_out: float, support: float, share: float) -> float:
    """Return the geometric mean of two temperatures, the second weighted by ``share``."""
    return float(left_out ** (1 - share) * support**share)


def fit_temperature(left: LeftOut) -> float:
    """Return the temperature T for which softmax(logits / T) fits the left-out labels best.

    The likelihood is that of labels smoothed in Platt's way, (R + ¼) / (R + ½) for the label and
    the rest for the other classes, with R the sum of the weights, so that a few rows that are all
    right do not demand certainty. Without rows to leave out T is 1.
    """
    n, n_classes = left.logits.shape
    if not n:
        return 1.0
    total = float(left.weights.sum())
    rest = PSEUDO / (total + 2 * PSEUDO)
    targets = np.full((n, n_classes), rest / (n_classes - 1))
    targets[np.arange(n), left.labels] = 1 - rest
    wanted = (targets * left.logits).sum(1)

    def slope(log_sharpness: float) -> float:
        p = softmax(np.exp(log_sharpness) * left.logits)
        return float(left.weights @ ((p * left.logits).sum(1) - wanted))

    # The loss is convex in the sharpness 1/T, so that its slope has one root, if any.
    low, high = -np.log(LARGEST), np.log(LARGEST)
    if slope(low) >= 0:
        return LARGEST
    if slope(high) <= 0:
        return 1 / LARGEST
    return float(np.exp(-brentq(slope, low, high, xtol=1e-13)))
