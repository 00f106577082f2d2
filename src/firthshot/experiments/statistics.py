"""Statistics of matched trials: intervals, Wilcoxon's test, Holm's correction.

One convention for every interval over n trials: mean ± t · sd / √n, with sd of ddof 1 and Student's
t of n - 1 degrees of freedom; a ``ci`` is the half-width. ``docs/statistics.md`` says why each rule
is as it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from firthshot.arrays import Array

Z = 1.96  # the normal quantile, for what is no mean over trials
ALPHA = 0.05  # what is significant, after Holm's correction
# Scores are stored as float32: smaller differences are rounding, not results.
SAME_MEAN = 2.0**-24
# Twice the rounding of a difference of two: equal steps lie no further apart, other steps do.
SAME_DIFFERENCE = 2.0**-22
# Up to this many differences Wilcoxon's distribution is counted out, above it is taken as normal.
EXACT_TRIALS = 50


class Paired(NamedTuple):
    """What n matched differences say."""

    trials: int
    mean: float
    ci: float
    share_won: float
    share_lost: float
    p: float


def t_quantile(n: int) -> float:
    """Return Student's t that n values leave outside a 95 % interval of their mean (NaN: n < 2).

    12.7 for 2 values, 2.26 for 10, 1.97 for 300: the spread of few values is itself uncertain.
    """
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 0.975)) if n > 1 else float("nan")


def half_width(values: Array) -> float:
    """Return the half-width t · sd / √n of the 95 % interval of a mean (NaN for n < 2)."""
    n = len(values)
    return float(t_quantile(n) * np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else float("nan")


def first_best(means: Array) -> int:
    """Return the first of the largest means; those closer than rounding are equal."""
    return int(np.flatnonzero(means >= means.max() - SAME_MEAN)[0])


def paired(differences: Array) -> Paired:
    """Summarise matched differences (n,), n ≥ 1, ours minus theirs, one per trial.

    Differences that are all zero have mean 0, interval 0 and p = 1, whatever their number.
    """
    differences = np.asarray(differences, np.float64)
    n = len(differences)
    if not differences.any():
        return Paired(n, 0.0, 0.0, 0.0, 0.0, 1.0)
    sides = (differences > SAME_DIFFERENCE, differences < -SAME_DIFFERENCE)
    won, lost = (float(np.count_nonzero(side) / n) for side in sides)
    mean, ci = float(differences.mean()), half_width(differences)
    return Paired(n, mean, ci, won, lost, wilcoxon(differences))


def wilcoxon(differences: Array) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test of differences (n,).

    Zeros are ranked and then left out (Pratt 1959), ties share their mean rank. Up to 50
    differences the distribution over all signs is exact, ties and zeros included; above, it is
    normal with the variance of the ranks at hand and no continuity correction. Differences closer
    than 2⁻²² tie: accuracies are stored as float32, and a grid of decimals would part some of them.
    """
    signs, ranks = _signed_ranks(np.asarray(differences, np.float64))
    if not len(ranks):
        return 1.0
    positive = float(ranks[signs > 0].sum())
    if len(differences) <= EXACT_TRIALS:
        return _exact_p(ranks, positive)
    from scipy.special import ndtr

    z = (positive - ranks.sum() / 2) / np.sqrt((ranks**2).sum() / 4)
    return float(2 * ndtr(-abs(z)))


def _signed_ranks(differences: Array) -> tuple[Array, Array]:
    """Return signs and mean ranks of the differences that are not zero, zeros ranked with them."""
    sizes = np.abs(differences)
    order = np.argsort(sizes, kind="stable")
    which = np.empty(len(sizes), np.int64)
    which[order] = np.cumsum(np.diff(sizes[order], prepend=0.0) > SAME_DIFFERENCE)
    counts = np.bincount(which)
    mean_ranks = np.cumsum(counts) - (counts - 1) / 2
    kept = sizes > SAME_DIFFERENCE
    return np.sign(differences[kept]), mean_ranks[which[kept]]


def _exact_p(ranks: Array, positive: float) -> float:
    """Count over all 2^n signs how often the positive ranks' sum is as far from its mean."""
    doubled = np.rint(2 * ranks).astype(np.int64)  # mean ranks are halves
    total = int(doubled.sum())
    ways = np.zeros(total + 1)
    ways[0] = 1.0
    for rank in doubled:
        ways[rank:] += ways[: total + 1 - rank].copy()
    far = np.abs(2 * np.arange(total + 1) - total) >= abs(4 * positive - total) - 0.5
    return float(min(1.0, ways[far].sum() / ways.sum()))


def trials_needed(tests: int) -> int:
    """Return the fewest trials with which one of so many tests can be significant at all.

    All n signs alike have the exact p-value 2 / 2^n, which Holm's rule multiplies by the number of
    tests: with fewer trials nothing could ever be found.
    """
    trials = 1
    while tests * 2.0 ** (1 - trials) >= ALPHA:
        trials += 1
    return trials


def holm(p: Array) -> Array:
    """Correct p-values (m,) for their number by Holm's step-down rule.

    The i-th smallest of m is multiplied by m - i + 1; the results are made non-decreasing and
    capped at 1. NaN marks what is no test: it stays NaN and does not count.
    """
    p = np.asarray(p, np.float64)
    corrected = np.full(p.shape, np.nan)
    tests = np.flatnonzero(~np.isnan(p))
    order = tests[np.argsort(p[tests], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else steps
    return corrected
