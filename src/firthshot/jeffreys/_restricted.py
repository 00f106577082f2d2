"""Restricted maxima: the one search behind tests, intervals and profiles, so that they agree."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from firthshot.jeffreys._kernels import memory
from firthshot.jeffreys._model import Fit, Maximum
from firthshot.jeffreys._several_maxima import (
    FAR,
    NEAR_STEPS,
    SAME,
    Ends,
    climb_each,
    towards_likelihood,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from firthshot.jeffreys._kernels.memory import FloatArray

_MOST_ITERATIONS = 200  # of a restricted fit; from the full maximum it takes three or four
_MOST_STEPS = 50  # towards a level
_KEPT, _LOST = 1e-7, "the restricted fit was lost to rounding on a very long step"
_TOO_FAR = 1e12  # linear predictors at which rounding must spoil the likelihood
_PARTS, _ROUGH = 4, 1e-2  # of the way to a hypothesis; standard errors, of climbs there
_DRAWS, _SPREADS = 18, (2.0, 4.0, 8.0)  # about the first start; standard errors
# Rows · coefficients² of the hypotheses between two reports of progress: hundredths of a second.
_WORK = 50_000_000


def restricted_maxima(
    fitted: Fit, C: FloatArray, values: FloatArray, *, rough: bool = False
) -> list[Maximum]:
    """Return the restricted maxima of hypotheses ``C[k] β = values[k]``, C (h, m, J p).

    The penalty is that of the full model, and a maximum depends on its hypothesis alone. The first
    climb starts from the full maximum, moved to the hypothesis along the path of quadratic theory.
    If it is slow, or several maxima are suspected, others start from zero, from the mirror image of
    the first start, from twice the full maximum, from a few steps towards maximum likelihood, and
    from the maximum followed on its way to the hypothesis. Where these do not agree, more start
    from the other maxima of the full model and from points drawn once and for all; in a small model
    some of these lie about the first start. If ``rough``, the first climb may end at ten times the
    tolerance.
    """
    search, top, everything = _Search(fitted, C, values), fitted.maximum.theta, np.arange(len(C))
    first = search.along_path(everything, top)
    # The error of an end is squared in the log-likelihood.
    tol = float(np.sqrt(fitted.tol))
    if fitted.suspect:
        starts = np.insert(search.different_starts(everything, first), 0, first, axis=1)
        best, agree = search.climb(everything, starts, tol)
        doubtful, rounds = np.flatnonzero(~agree), [search.all_starts]
    else:
        best, _ = search.climb(everything, first[:, None], 10.0 * tol if rough else tol)
        # A climb that ended early would have taken an iteration more.
        slow = fitted.model.is_slow(best.n_iter + rough) | (best.reached == -np.inf)
        doubtful, rounds = np.flatnonzero(slow), [search.different_starts, search.all_starts]
    for more in rounds:
        if not len(doubtful):
            break
        found, agree = search.climb(doubtful, more(doubtful, first[doubtful]), tol, best)
        for part, new in zip(best, found, strict=True):
            part[doubtful] = new
        doubtful = doubtful[~agree]
    return [search.maximum(best, k) for k in range(len(C))]


def side_by_side(fitted: Fit) -> int:
    """Return how many hypotheses are searched at once, between reports of progress."""
    return max(1, _WORK // (fitted.model.data.y.size * fitted.model.size**2))


class _Search:
    """Climbs for several hypotheses side by side; ``which`` says for which of them."""

    def __init__(self, fitted: Fit, C: FloatArray, values: FloatArray) -> None:
        self._fitted, self._model, self._values = fitted, fitted.model, values
        h, m, _ = C.shape
        self._forms = fitted.model.to_theta(C.reshape(h * m, -1)).reshape(h, m, -1)
        across = np.swapaxes(self._forms, 1, 2)
        spread = fitted.inverse_information @ across
        self._path = spread @ np.linalg.inv(self._forms @ spread)  # of quadratic theory

    def along_path(self, which: NDArray[np.int64], theta: FloatArray) -> FloatArray:
        """Move points, (q,) or (k, q), to each hypothesis by quadratic theory."""
        return self._moved(which, self._path, theta)

    def _nearest(self, which: NDArray[np.int64], theta: FloatArray) -> FloatArray:
        return self._moved(which, self._shortest, theta)

    @cached_property
    def _shortest(self) -> FloatArray:
        across = np.swapaxes(self._forms, 1, 2)
        return np.asarray(across @ np.linalg.inv(self._forms @ across))

    def _moved(self, which: NDArray[np.int64], ways: FloatArray, theta: FloatArray) -> FloatArray:
        gap = np.einsum("kmq,q->km" if theta.ndim == 1 else "kmq,kq->km", self._forms[which], theta)
        return np.asarray(theta - np.einsum("kqm,km->kq", ways[which], gap - self._values[which]))

    def different_starts(self, which: NDArray[np.int64], first: FloatArray) -> FloatArray:
        """Return starts far from the first one and from each other, shape (k, 5, q)."""
        forms, top = self._forms[which], self._fitted.maximum.theta
        far = towards_likelihood(self._model, first, forms, NEAR_STEPS)
        followed, part = np.broadcast_to(top, first.shape), (first - top) / _PARTS
        for _ in range(_PARTS - 1):
            followed = self._roughly(followed + part, forms)
        others = (np.zeros_like(first), -first, 2.0 * top)
        moved = (self._nearest(which, theta) for theta in others)
        return np.stack([*moved, far, followed + part], axis=1)

    def all_starts(self, which: NDArray[np.int64], first: FloatArray) -> FloatArray:
        """Return many starts, shape (k, s, q)."""
        zero = self._nearest(which, np.zeros_like(first))
        near = towards_likelihood(self._model, zero, self._forms[which], NEAR_STEPS)
        root = np.linalg.cholesky(self._fitted.inverse_information)
        draws = _DRAWS if self._model.is_small else 0
        steps = np.random.default_rng(2).normal(size=(draws, first.shape[1])) @ root.T
        steps *= np.resize(_SPREADS, (draws, 1))
        starts = [near, *(self._nearest(which, first + step) for step in steps)]
        others = (*self._fitted.others, *self._fitted.draws)
        return np.stack([*starts, *(self._nearest(which, theta) for theta in others)], axis=1)

    def _roughly(self, starts: FloatArray, forms: FloatArray) -> FloatArray:
        """Return about where climbs end, or where they started."""
        found = climb_each(self._model, starts, forms, _ROUGH, _MOST_ITERATIONS)
        return np.where(np.isfinite(found.reached)[:, None], found.theta, starts)

    def climb(
        self,
        which: NDArray[np.int64],
        starts: FloatArray,
        tol: float,
        known: Ends | None = None,
    ) -> tuple[Ends, NDArray[np.bool_]]:
        """Return the best end of the climbs from each row of ``starts`` and the best one known.

        Also tell for which hypotheses all of them agree.
        """
        k, s, q = starts.shape
        rows = np.repeat(which, s)
        forms = self._forms[rows]
        # What the fit has learnt of curvature holds near it; far starts begin without.
        alone = known is None and s == 1
        curvature = self._fitted.curvature if alone else None
        found = climb_each(
            self._model, starts.reshape(k * s, q), forms, tol, _MOST_ITERATIONS, curvature
        )
        found.reached[self._lost(found, forms, self._values[rows])] = -np.inf
        if alone:
            return found, np.ones(k, dtype=bool)
        ends = [part.reshape(k, s, *part.shape[1:]) for part in found]
        if known is not None:
            ends = [
                np.concatenate([old[which][:, None], new], axis=1)
                for old, new in zip(known, ends, strict=True)
            ]
        reached = ends[-1]
        best = np.arange(k), reached.argmax(axis=1)
        with np.errstate(invalid="ignore"):
            agree = np.ptp(reached, axis=1) <= SAME
        return Ends(*(part[best] for part in ends)), agree

    def _lost(self, found: Ends, forms: FloatArray, values: FloatArray) -> NDArray[np.bool_]:
        """Tell which climbs have left their hypothesis, or ended among rounding errors."""
        gap = np.abs((forms @ found.theta[..., None])[..., 0] - values).max(axis=1)
        lost = gap > _KEPT * (1.0 + np.abs(values).max(axis=1))
        far = np.flatnonzero(~(np.abs(found.theta).sum(axis=1) * self._widest <= FAR))
        if len(far):
            # So far out, a likelihood is made of rounding errors.
            above = found.lp[far] + self._model.shift > self._fitted.penalised_loglik + _KEPT
            limit = np.where(above, FAR, _TOO_FAR)
            lost[far] |= ~(self._model.farthest(found.theta[far]) <= limit)
        return np.asarray(lost)

    @cached_property
    def _widest(self) -> float:
        Z = self._model.data.Z
        return float(max(Z.max(), -Z.min()))

    def maximum(self, best: Ends, k: int) -> Maximum:
        """Say in words how the search for one maximum ended."""
        end = best.maximum(self._model, k)
        lost = end.converged and best.reached[k] == -np.inf
        return replace(end, converged=False, reason=_LOST) if lost else end


def crossing(fitted: Fit, form: FloatArray, near: Maximum, drop: float, side: float) -> float:
    """Return where the branch of a restricted maximum falls by ``drop``, or NaN."""
    model, work, theta = fitted.model, fitted.model.make_work(), near.theta.copy()
    work.A[:] = fitted.curvature
    level = fitted.penalised_loglik - model.shift - drop, drop
    start = work, theta, model.to_theta(form[None]), level, np.sign(side)
    bound, _, status = model.run("profile_bound", model.data, *start, fitted.tol, _MOST_STEPS)
    return float(bound) if status == memory.CONVERGED else np.nan
