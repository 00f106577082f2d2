"""Resample classes too: an interval that says how sure we are of *other* classes.

More trials on the same twenty novel classes make the interval over trials as narrow as one likes,
but not the classes more numerous. Each trial draws K of the C classes, so its improvement is

    D_t = μ + Σ_{c in t} g_c + e_t,        Σ_c g_c = 0,

with an effect g_c per class (the Hájek projection of the improvement onto classes), found by least
squares. Part of the spread of estimated effects is noise of the trials; what noise alone would
exceed 19 times in 20 is taken off by shrinking them. A bootstrap then draws C classes with
replacement, again and again: the mean moves by K times the mean effect drawn, plus the trials' own
error. Quantiles are widened by √(C / (C - 1)) · t / 1.96, with C - 1 degrees of freedom, as befits
a mean of few. With few trials, or nearly all classes in each, the interval is too wide rather than
too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array
from firthshot.experiments.statistics import Z

REPLICATES = 2000
_SEED = 20220420  # the interval is a fixed function of the trials
_SINGULAR = 1e-9


@dataclass(frozen=True)
class ClassDesign:
    """Which classes each trial drew, prepared for least squares."""

    trials: Array  # (T,) trial numbers, ascending
    members: Array  # (T, C) 1 where the class is in the trial
    ways: int  # K, classes per trial
    # pseudo-inverse of the centred Gram matrix; None where class effects cannot be told apart
    solve: Array | None
    draws: Array  # (B, C) how often each replicate of the bootstrap draws each class, over C
    noise: Array  # (B,) standard normal

    @classmethod
    def of(cls, trials: Array, classes: Array) -> ClassDesign:
        """Prepare the design of distinct trials (T,), ascending, with their classes (T, K)."""
        drawn = np.bincount(classes.ravel()) > 0
        count, ways = int(drawn.sum()), classes.shape[1]
        members = np.zeros((len(trials), count))
        members[np.arange(len(trials))[:, None], (np.cumsum(drawn) - 1)[classes]] = 1.0
        random = np.random.default_rng(_SEED)
        draws = random.multinomial(count, np.full(count, 1 / count), REPLICATES) / count
        noise = random.standard_normal(REPLICATES)
        return cls(trials, members, ways, _inverse_gram(members, ways), draws, noise)

    def only(self, trials: Array) -> ClassDesign | None:
        """Return the design of some of the trials, or None where it does not know one of them."""
        if np.array_equal(trials, self.trials):
            return self
        at = np.searchsorted(self.trials, trials)
        if at.max(initial=0) >= len(self.trials) or not np.array_equal(self.trials[at], trials):
            return None
        classes = np.nonzero(self.members[at])[1].reshape(len(at), self.ways)
        return ClassDesign.of(trials, classes)

    def interval(self, differences: Array) -> tuple[float, float] | None:
        """Return the 95 % interval of the mean of differences (T,) over classes and trials.

        None where it cannot be known: all classes in every trial, or too few trials.
        """
        if self.solve is None:
            return None
        mean, (trials, classes) = differences.mean(), self.members.shape
        effects = self.solve @ ((differences - mean) @ self.members)
        fitted = self.members @ effects
        residual = differences - mean - fitted + fitted.mean()
        variance = (residual**2).sum() / (trials - classes)
        effects = effects * _shrinkage(effects, variance * np.trace(self.solve))
        shifts = self.ways * self.draws @ effects + np.sqrt(variance / trials) * self.noise
        low, high = np.quantile(shifts, [0.025, 0.975]) * _widening(classes)
        return float(mean + low), float(mean + high)


def _inverse_gram(members: Array, ways: int) -> Array | None:
    """Invert the Gram matrix of memberships on the C - 1 directions that can be told apart."""
    trials, classes = members.shape
    if ways >= classes or trials <= classes:
        return None
    gram = members.T @ members - np.outer(members.sum(0), members.sum(0)) / trials
    values, vectors = np.linalg.eigh(gram)
    if values[1] <= _SINGULAR * values[-1]:  # values[0] is the direction of "all classes alike"
        return None
    rest = vectors[:, 1:]
    inverse: Array = (rest / values[1:]) @ rest.T
    return inverse


def _shrinkage(effects: Array, noise: float) -> float:
    """Return the factor that takes off the sure part of the noise's expected sum of squares."""
    from scipy.special import chdtri

    freedom, spread = len(effects) - 1, float((effects**2).sum())
    sure = noise * chdtri(freedom, 0.95) / freedom
    return float(np.sqrt(1 - sure / spread)) if spread > sure else 0.0


def _widening(classes: int) -> float:
    """Return what turns the bootstrap's quantiles into those of a mean of few classes."""
    from scipy.special import stdtrit

    return float(np.sqrt(classes / (classes - 1)) * stdtrit(classes - 1, 0.975) / Z)
