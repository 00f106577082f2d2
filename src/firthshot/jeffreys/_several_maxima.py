"""Whether a penalised likelihood may have several maxima, and which is the highest.

They occur where a row has much leverage: in small separated data, and where a few values of a
skewed column dwarf the others, so that one slope fits these values and another all the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firthshot.jeffreys._kernels import memory
from firthshot.jeffreys._model import STALLED, Fit, Maximum, Model, make_maximum, maximise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from firthshot.jeffreys._kernels.memory import FloatArray

# Hat value of one row, at the maximum found first, from which others are looked for: three times
# the mean, between these two. Simulated fits with a second maximum almost always had such a row.
_LEAST_LEVERAGE, _MUCH_LEVERAGE, _TIMES_THE_MEAN = 0.35, 0.5, 3.0
_DOMINANT = 0.3  # share of one value in its column
_DRAWS = 12  # starts at random, three at each of four distances
SAME = 1e-6  # in log-likelihood: solutions for one maximum agree within 1e-8
_DEEP = 15.0  # a maximum that much lower matters to no interval, and to no p-value above 1e-7
STARTS_TOL = 1e-4  # standard errors: tells maxima apart; the highest is solved again to tol
FAR = 1e6  # linear predictors beyond which the likelihood is made of rounding errors
_LEAST_PIVOT = 1e-12  # of the information, relative: the same in its Cholesky factor
# Steps towards maximum likelihood, which in separated data has no end. Where a simulated fit ended
# at a lower maximum, a climb from one of these points ended elsewhere.
FAR_STEPS, NEAR_STEPS = 6, 3
_FENCES = (1.5, 3.0)  # interquartile ranges from the median: Tukey's fences


class Ends(NamedTuple):
    """Where climbs ended, one along each first axis."""

    theta: FloatArray  # (s, q)
    lp: FloatArray  # (s,), in θ
    decrement: FloatArray  # (s,)
    n_iter: NDArray[np.int64]  # (s,)
    status: NDArray[np.int64]  # (s,)
    reached: FloatArray  # (s,), with the gain of the last step; minus infinity where none ended

    def maximum(self, model: Model, k: int) -> Maximum:
        """Say in words how one of them ended."""
        ended = self.lp[k].item(), self.decrement[k].item(), self.n_iter[k].item(), self.status[k]
        return make_maximum(model, self.theta[k], ended)


def climb_each(
    model: Model,
    starts: FloatArray,
    forms: FloatArray,
    tol: float,
    max_iter: int,
    curvature: FloatArray | None = None,
) -> Ends:
    """Climb from each start, shape (s, q), keeping the values of its forms, shape (s, m, q)."""
    A = np.zeros((model.size, model.size)) if curvature is None else curvature
    work = model.make_work()
    found = model.run("maximise_each", model.data, work, starts, forms, A, tol, max_iter)
    _, lp, decrement, _, status = found
    ended = (status == memory.CONVERGED) | (status == memory.NO_ASCENT) & (decrement <= STALLED)
    with np.errstate(all="ignore"):  # of climbs that failed
        reached = np.where(ended, lp + 0.5 * decrement**2, -np.inf)
    return Ends(found[0], lp, decrement, found[3], status, reached)


def towards_likelihood(
    model: Model, starts: FloatArray, forms: FloatArray, steps: int
) -> FloatArray:
    """Return the points a few steps from each start towards maximum likelihood."""
    plain = replace(model, data=model.data._replace(tau=0.0))
    return climb_each(plain, starts, forms, STARTS_TOL, steps).theta


def is_suspect(fitted: Fit) -> bool:
    """Tell whether a row has so much leverage that there may be a maximum elsewhere.

    A row that alone has some level of a factor has as much and does no harm, so the fit must also
    have been slow, or one value must dwarf the others of its column. A large model must have shown
    a second maximum. Without penalty, and in a saturated model, there is one maximum.
    """
    data, model = fitted.model.data, fitted.model
    if data.tau == 0.0 or model.design.rank == data.y.size:
        return False
    if fitted.searched and not model.is_small:
        return bool(fitted.others)
    mean = model.size / float(data.w.sum())
    bound = min(max(_TIMES_THE_MEAN * mean, _LEAST_LEVERAGE), _MUCH_LEVERAGE)
    # a row of weight w is w rows, each with its share of the leverage
    if (fitted.hat / np.maximum(data.w, 1.0)).max() <= bound:
        return False
    return model.is_slow(fitted.maximum.n_iter) or _largest_share(data.Z) > _DOMINANT


def _largest_share(Z: FloatArray) -> float:
    """Return the largest share of one value in a column's sum of squares about its mean.

    Columns of two values do not count.
    """
    squares = (Z - Z.mean(axis=1, keepdims=True)) ** 2
    low, high = Z.min(axis=1, keepdims=True), Z.max(axis=1, keepdims=True)
    many = ((low < Z) & (high > Z)).any(axis=1)
    return float((squares[many].max(axis=1) / squares[many].sum(axis=1)).max(initial=0.0))


def _is_irregular(Z: FloatArray) -> bool:
    """Tell whether one value dwarfs its column, or a column has few distinct values for its rows.

    No simulated fit to other columns, separated or not, had a second maximum.
    """
    if _largest_share(Z) > _DOMINANT:
        return True
    gaps = np.diff(np.sort(Z, axis=1), axis=1) > 0.0
    distinct = 1 + gaps.sum(axis=1)
    return bool(((distinct > 1) & (2 * distinct < Z.shape[1])).any())


def highest(fitted: Fit, max_iter: int) -> Fit:
    """Return the fit, or a higher one from another start; it knows the other maxima it met.

    The fit counts as the highest if climbs from some way, and from far, towards maximum likelihood
    end there too.
    Otherwise climbs start from fits to winsorised columns and from drawn points as well.
    """
    model = fitted.model
    if not fitted.suspect or (model.is_small and not _is_irregular(model.data.Z)):
        return fitted
    free = np.zeros((1, 0, model.size))
    near = towards_likelihood(model, np.zeros((1, model.size)), free, NEAR_STEPS)
    far = towards_likelihood(model, near, free, FAR_STEPS - NEAR_STEPS)
    found = [(fitted.maximum.reached, fitted.maximum.theta)]
    _add_ends(found, model, np.concatenate([near, far]), max_iter)
    if len(found) == 1:
        return replace(fitted, searched=True)
    _add_ends(found, model, np.concatenate([*_winsorised(model), fitted.draws]), max_iter)
    top = max(range(len(found)), key=lambda k: found[k][0])
    level = found[top][0] - _DEEP
    others = tuple(found[k][1] for k in range(len(found)) if k != top and found[k][0] > level)
    if top == 0:
        return replace(fitted, others=others, searched=True)
    work = model.make_work()
    end = maximise(model, work, found[top][1], fitted.tol, max_iter)
    parts = work.F, work.hat, work.V, work.P, work.P0, work.A
    return Fit(model, end, *parts, fitted.tol, others, searched=True)


def _add_ends(
    found: list[tuple[float, FloatArray]], model: Model, starts: FloatArray, max_iter: int
) -> None:
    """Climb from each start; note new maxima whose likelihood is more than rounding errors."""
    free = np.zeros((len(starts), 0, model.size))
    ends, work = climb_each(model, starts, free, STARTS_TOL, max_iter), model.make_work()
    for reached, theta in zip((ends.reached + model.shift).tolist(), ends.theta, strict=True):
        if reached == -np.inf or any(abs(reached - known) <= SAME for known, _ in found):
            continue
        model.run("value", model.data, work, theta)
        pivots = np.diag(work.L) ** 2 / np.diag(work.F)
        if model.farthest(theta) <= FAR and pivots.min() > _LEAST_PIVOT:
            found.append((reached, theta))


def _winsorised(model: Model) -> Iterator[FloatArray]:
    """Yield fits to columns cut at a few interquartile ranges from the median."""
    data, free = model.data, np.zeros((1, 0, model.size))
    low, middle, high = np.quantile(data.Z, [0.25, 0.5, 0.75], axis=1)
    spread = np.where(high > low, high - low, np.inf)
    for fence in _FENCES:
        reach = fence * spread
        clipped = np.clip(data.Z, (middle - reach)[:, None], (middle + reach)[:, None])
        shortened = replace(model, data=data._replace(Z=np.ascontiguousarray(clipped)))
        yield climb_each(shortened, np.zeros((1, model.size)), free, 1e-2, 50).theta


def drawn_starts(fitted: Fit) -> FloatArray:
    """Return a few points at four distances from zero, always the same ones."""
    low, high = np.quantile(fitted.model.data.Z, [0.25, 0.75], axis=1)
    unit = np.tile(np.where(high > low, high - low, 1.0), fitted.model.contrasts)
    draws = np.random.default_rng(1).normal(size=(_DRAWS, fitted.model.size)) / unit
    return np.asarray(draws * np.resize([0.5, 1.0, 2.0, 4.0], (_DRAWS, 1)))
