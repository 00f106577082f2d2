"""Whether a penalised likelihood has several maxima, and which is the highest.

They occur in small separated data, and where a few values of a skewed column dwarf the others:
from zero the solver may then end at a slope that fits the large values alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from firthshot.jeffreys._model import Fit, Maximum, maximise
from firthshot.kernels.elementary import largest_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firthshot.jeffreys._kernels.memory import FloatArray, Work

# Iterations; a warm start in a likelihood with one maximum needs three or four. At 16 the second
# maximum of some small separated tables is missed.
SLOW = 8
# Starts at random: four at each of three distances. They cost as much as the whole fit each, so
# only tables of few rows and small models, where other maxima were met, get them.
_DRAWS, _FEW_ROWS, _SMALL = 12, 1000, 12
_SAME = 1e-6  # in log-likelihood: solutions for one maximum agree within 1e-8
_DEEP = 15.0  # a maximum that much lower matters to no interval, and to no p-value above 1e-7
_STARTS_TOL = 1e-4  # standard errors: tells maxima apart; the highest is solved again to tol
# Share of one value in the sum of squares of its column from which it may pull a maximum of its
# own, and the same in squared standard deviations for long columns; twice as much misses some.
_DOMINANT, _LEAST_DOMINANT, _OUTLYING = 0.3, 0.04, 40.0
_FAR = 1e6  # linear predictors beyond which the likelihood is made of rounding errors
_LEAST_PIVOT = 1e-12  # of the information, relative: the same in its Cholesky factor
_ML_STEPS = 3  # towards maximum likelihood, which in separated data has no end
_FENCES = (1.5, 3.0)  # interquartile ranges from the median: Tukey's fences


def scattered(fitted: Fit) -> FloatArray:
    """Return zero and a few points at three distances from it, always the same ones.

    With many rows there is one maximum, and zero will do.
    """
    size = fitted.model.size
    draws = _DRAWS if fitted.model.data.y.size <= _FEW_ROWS else 0
    points = np.random.default_rng(0).normal(size=(draws, size))
    points *= np.resize([1.0, 3.0, 9.0], (draws, 1))
    return np.concatenate([np.zeros((1, size)), points])


def is_suspect(fitted: Fit) -> bool:
    """Tell whether the full fit was slow, and in a large model also whether it has a rival.

    A factor with many levels takes some iterations more, which says nothing by itself; there a
    search from many starts for every bound of every level would take minutes.
    """
    if fitted.several or fitted.maximum.n_iter <= SLOW + 2:
        return fitted.several
    return fitted.model.size <= _SMALL or _has_rival(fitted)


def _has_rival(fitted: Fit) -> bool:
    """Tell whether another start leads elsewhere, and not far below."""
    model, top = fitted.model, fitted.penalised_loglik
    work = model.make_work()
    for start in scattered(fitted):
        end = maximise(model, work, start, _STARTS_TOL, 100).penalised_loglik
        if end > top - _DEEP and abs(end - top) > _SAME:
            return True
    return False


def highest(fitted: Fit, max_iter: int) -> Fit:
    """Return the fit, or a higher one from another start where that may matter.

    It may where one value has a large share in the sum of squares of its column, and in a small
    model where the solver was slow.
    """
    model, small = fitted.model, fitted.model.size <= _SMALL
    slow = small and fitted.maximum.n_iter > SLOW
    dominant = min(_DOMINANT, max(_OUTLYING / model.data.y.size, _LEAST_DOMINANT))
    if not slow and largest_share(model.data.Z) <= dominant:
        return fitted
    work = model.make_work()
    top, several = fitted.maximum, False
    for start in _other_starts(fitted, work):
        end = maximise(model, work, start, _STARTS_TOL, max_iter)
        if not end.converged or not _is_sound(fitted, work, end):
            continue
        gap = end.penalised_loglik - top.penalised_loglik
        several |= abs(gap) > _SAME and gap > -_DEEP
        top = end if gap > _SAME else top
    if top is fitted.maximum:
        return replace(fitted, several=several)
    end = maximise(model, work, top.theta, fitted.tol, max_iter)
    parts = work.F, work.hat, work.V, work.P, work.P0, work.A
    return Fit(model, end, *parts, fitted.tol, several=True)


def _is_sound(fitted: Fit, work: Work, end: Maximum) -> bool:
    """Tell whether the likelihood at a maximum is more than rounding errors."""
    pivots = np.diag(work.L) ** 2 / np.diag(work.F)
    return fitted.model.farthest(end.theta) <= _FAR and float(pivots.min()) > _LEAST_PIVOT


def _other_starts(fitted: Fit, work: Work) -> Iterator[FloatArray]:
    """Yield a few steps towards maximum likelihood, fits to winsorised columns, and draws."""
    model, data = fitted.model, fitted.model.data
    likelihood = replace(model, data=data._replace(tau=0.0))
    theta = np.zeros(model.size)
    for _ in range(2):
        theta = maximise(likelihood, work, theta, _STARTS_TOL, _ML_STEPS).theta
        yield theta
    low, middle, high = np.quantile(data.Z, [0.25, 0.5, 0.75], axis=1)
    spread = np.where(high > low, high - low, np.inf)
    for fence in _FENCES:
        reach = fence * spread
        clipped = np.clip(data.Z, (middle - reach)[:, None], (middle + reach)[:, None])
        shortened = replace(model, data=data._replace(Z=np.ascontiguousarray(clipped)))
        yield maximise(shortened, work, np.zeros(model.size), 1e-2, 50).theta
    if model.size <= _SMALL and data.y.size <= _FEW_ROWS:
        unit = np.tile(np.where(np.isfinite(spread), spread, 1.0), model.contrasts)
        draws = np.random.default_rng(1).normal(size=(_DRAWS, model.size)) / unit
        yield from draws * np.resize([0.5, 1.0, 2.0, 4.0], (_DRAWS, 1))
