"""The temperature of a head, from its support set alone.

1. A fifth of every class is left out at a time, and one temperature makes the left-out rows most
   likely.
2. Another makes the head as sure of its own rows as plain logistic regression is of them, or 95 %
   sure where plain logistic regression has learned little.
3. The result is their geometric mean, in which the support set counts as 20 left-out rows, and at
   least 1 / shots (`HeadEstimator` puts the three together).

Rows of all classes are left out together because a class that loses a row alone looks rarer to the
head: with two or three rows per class that matters more than anything else, and the temperature
would be far too high. ``studies/defaults`` has the measurements.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log, sqrt
from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import Array
from firthshot.estimators._support import Support, rank_in_class
from firthshot.objective import log_softmax

if TYPE_CHECKING:
    from firthshot.estimators._left_out import LeftOut


# Each settled on base and validation classes (studies/defaults).
ROUNDS = 5  # as in five-fold cross-validation; ten would double the time of a fit
ENOUGH = (
    100  # left-out rows, for one number; 60 cost 0.006 of log-loss, 200 gain nothing to be seen
)
WORTH = 20  # left-out rows that count as much as the support; fewer are not asked; 40 is timid
SURE = 0.95  # of its own rows; 0.9 costs up to 0.1 of log-loss with two rows per class
# Shares of the labels' information that plain logistic regression has not learned: features as
# encoders give them lie below the first, rows of unit length above the second.
LEARNED, TIMID = 0.3, 0.65
PSEUDO = 0.25  # rows of each outcome; Platt's 1 makes few rows too timid
LARGEST = 1e4  # factor between logits and what they become: only a degenerate fit asks for more
MOST_STEPS = 100  # to a temperature; bisection alone takes half of them
LEAST_STEP, MOST_STEP, PRECISION = 0.2, 5.0, 1e-5  # factors between one sharpness and the next


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
    if support.weights[leavable].sum() < WORTH:
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
    if support.far:
        along -= along.mean()  # else what is small beside the mean would count as equal
    apart = 1e-6 if support.X.dtype == np.float32 else 1e-12
    return rank_in_class(along, support.labels, apart)


def support_temperature(logits: Array, plain: Array | None, labels: Array, weights: Array) -> float:
    """Return a temperature from the logits (N, K) that a head gives the rows it was fitted to.

    How hard a task is, one row per class cannot say. Two answers are known to do: logits of the
    size that plain logistic regression gives the same rows (``plain``: λ = 0, l2 = 1), where the
    features are large enough for it to learn them; and a probability of 0.95 for the labels, where
    they are not. Between the two stands their geometric mean, by the share of the labels'
    information that plain regression has not learned. Without ``plain`` the second stands alone:
    for rows that all have one length, which says nothing. 1 if the head tells no classes apart.
    """
    share = weights / weights.sum()
    size = _size(logits, share)
    if size == 0:
        return 1.0
    log_temperature, timid = 0.0, 1.0
    if plain is not None:
        timid = _timidity(plain, labels, share)
        log_temperature += (1 - timid) * np.log(size / max(_size(plain, share), 1e-12 * size))
    if timid > 0:  # it takes a search
        log_temperature += timid * np.log(_best_temperature(logits, labels, share, 1 - SURE))
    return float(np.exp(log_temperature))


def _timidity(plain: Array, labels: Array, share: Array) -> float:
    """Return 0 where plain regression learned its rows, 1 where it learned little of them."""
    log_p = log_softmax(plain)[np.arange(len(labels)), labels]
    missing = float(-share @ log_p) / np.log(plain.shape[1])
    return float(np.clip((missing - LEARNED) / (TIMID - LEARNED), 0, 1))


def _size(logits: Array, share: Array) -> float:
    """Return how far a row's logits are from their mean, root mean square over the rows."""
    apart = logits - logits.mean(axis=1, keepdims=True)
    return float(np.sqrt(share @ np.square(apart).sum(axis=1)))


def share_of_support(n_left_out: float, shots: float) -> float:
    """Return how much the support's temperature counts against that of the left-out rows.

    It counts as 20 rows do, and at least 1 / shots: so much of each class the heads without them
    lacked. Where that is an eighth or less it is not worth its fit.
    """
    if not n_left_out:
        return 1.0
    share = max(1 / shots, WORTH / (n_left_out + WORTH))
    return share if share > 0.125 else 0.0


def fit_temperature(left: LeftOut) -> float:
    """Return the temperature T for which softmax(logits / T) fits the left-out labels best.

    Labels are smoothed in Platt's way, (R + ¼) / (R + ½) for the label and the rest for the other
    classes, with R the sum of the weights, so that a few rows that are all right do not demand
    certainty. Without rows to leave out T is 1.
    """
    if not len(left.rows):
        return 1.0
    total = float(left.weights.sum())
    smoothing = PSEUDO / (total + 2 * PSEUDO)
    return _best_temperature(left.logits, left.labels, left.weights, smoothing)


def _best_temperature(logits: Array, labels: Array, weights: Array, smoothing: float) -> float:
    """Return the T that minimises the cross-entropy of smoothed labels and softmax(logits / T).

    At the best sharpness 1/T the logits below the top one have the mean over p that they have over
    the labels. Newton's method on the logarithm of that mean, which falls about linearly with the
    sharpness, takes some five steps; a bracket keeps them from going astray.
    """
    n, n_classes = logits.shape
    targets = np.full((n, n_classes), smoothing / (n_classes - 1))
    targets[np.arange(n), labels] = 1 - smoothing
    below = logits.max(axis=1, keepdims=True) - logits
    wanted = float(weights @ np.vecdot(targets, below))
    low, high, sharpness = 1 / LARGEST, LARGEST, 1.0
    for _ in range(MOST_STEPS):
        mean, fall = _mean_below(below, weights, sharpness)
        low, high = (sharpness, high) if mean > wanted else (low, sharpness)
        new = sqrt(low * high)
        if min(mean, wanted, fall) > 0:
            step = sharpness + mean * log(mean / wanted) / fall
            step = min(max(step, LEAST_STEP * sharpness), MOST_STEP * sharpness)
            new = step if low < step < high else new
        done = abs(new - sharpness) <= PRECISION * sharpness
        sharpness = new
        if done:
            break
    return 1 / sharpness


def _mean_below(below: Array, weights: Array, sharpness: float) -> tuple[float, float]:
    """Return how far logits are below the top one, mean over p, and how fast that falls."""
    p = np.exp(-sharpness * below)
    p /= p.sum(axis=1, keepdims=True)
    mean = np.vecdot(p, below)
    spread = np.vecdot(p, below * below) - mean * mean
    return float(weights @ mean), float(weights @ spread)
