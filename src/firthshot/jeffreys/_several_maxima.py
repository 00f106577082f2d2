"""Whether a penalised likelihood may have several maxima, as in small separated data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firthshot.jeffreys._model import climb

if TYPE_CHECKING:
    from firthshot.jeffreys._kernels import FloatArray
    from firthshot.jeffreys._model import Fit

SLOW = 8  # iterations; a warm start in a likelihood with one maximum needs three or four
_DRAWS = 12
_FEW_ROWS = 1000
_SMALL = 12  # coefficients: below, trying many starts everywhere costs little
_SAME = 1e-6
_DEEP = 15.0  # a maximum that much lower matters to no interval, and to no p-value above 1e-7
_STARTS_TOL = 1e-4


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
    if fitted.maximum.n_iter <= SLOW + 2:
        return False
    return fitted.model.size <= _SMALL or _has_rival(fitted)


def _has_rival(fitted: Fit) -> bool:
    """Tell whether a climb from another start ends elsewhere, and not far below."""
    model, top = fitted.model, fitted.penalised_loglik
    work, free = model.make_work(), np.zeros((0, model.size))
    for start in scattered(fitted):
        curvature = np.zeros((model.size, model.size))
        end = climb(model, work, start, curvature, free, _STARTS_TOL, 100).penalised_loglik
        if end > top - _DEEP and abs(end - top) > _SAME:
            return True
    return False
