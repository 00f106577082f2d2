"""Whether the linear head has an optimum at all: complete and quasi-complete separation.

Albert and Anderson (1984): the likelihood has no maximum if and only if some direction separates
the classes. Convex analysis calls such a direction one of recession.
"""

from __future__ import annotations

import numpy as np

from firthshot.arrays import Array
from firthshot.engine.solvers.span import RowSpan

# Nonzeros of a linear programme that is still worth solving: these take some ten seconds, three
# million more than ten minutes. Beyond that, separation is reported only if the last iterate
# separates the classes.
_LARGEST_PROGRAM = 250_000


def has_recession_direction(
    span: RowSpan, supported: Array, decay: Array, confidence: float, logits: Array
) -> bool:
    """Return whether the objective falls for ever along some direction.

    Along V the loss −Σ T log p stays bounded if and only if, on every sample, all classes with
    T > 0 share the largest logit of V; it then falls for ever if some other class lies below. L2 on
    all parameters, the confidence penalty and T > 0 everywhere each exclude it. ``supported`` is
    T > 0, (K, N), ``decay`` (r,) the L2 factors of the coordinates, ``logits`` (K, N) those of the
    last iterate.
    """
    if decay.all() or confidence or supported.all():
        return False
    if decay.any():  # only the intercept is free, and it moves all samples alike
        return not bool(supported.any(1).all())
    if span.rank == supported.shape[1] or not supported.any(1).all():
        return True
    if _separated(logits, supported):
        return True
    firsts, which = span.distinct()
    together = np.zeros((len(supported), len(firsts)), bool)
    np.logical_or.at(together.T, which, supported.T)
    if span.rank == len(firsts):
        return not bool(together.all())
    return _finds_recession_direction(span.features[firsts], together)


def _separated(z: Array, supported: Array) -> bool:
    """Return whether z (K, N) puts the only supported class of every sample strictly above.

    Strictly: by more than 1e-6 of the largest logit, far above the rounding of float64. If this
    says no, the linear programme decides.
    """
    if (supported.sum(0) != 1).any():
        return False
    label = np.where(supported, z, np.inf).min(0)
    rival = np.where(supported, -np.inf, z).max(0)
    return bool((label - rival > 1e-6 * np.abs(z).max(0)).all())


def _finds_recession_direction(features: Array, supported: Array) -> bool:
    """Look for a direction of recession by a linear programme (HiGHS).

    Maximise the sum of the gaps between each sample's supported classes and the others over all
    directions whose gaps lie in [0, 1], and are 0 among supported classes. Directions can be
    scaled, so the maximum is 0, or at least 1.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, vstack

    n_classes, n = supported.shape
    rank = features.shape[1]
    if 2 * n * (n_classes - 1) * rank > _LARGEST_PROGRAM:
        return False
    scaled = features / np.abs(features).max(0)
    sample, rival = (part.ravel() for part in np.indices((n, n_classes)))
    label = supported.argmax(0)[sample]
    sample, rival, label = (part[rival != label] for part in (sample, rival, label))
    rows = np.repeat(np.arange(len(sample)), rank)
    at = np.arange(rank)
    columns = [(of[:, None] * rank + at).ravel() for of in (label, rival)]
    values = scaled[sample].ravel()
    gaps = csr_array(
        (
            np.concatenate([values, -values]),
            (np.concatenate([rows, rows]), np.concatenate(columns)),
        ),
        shape=(len(sample), n_classes * rank),
    )
    tied = supported[rival, sample]
    free, upper = gaps[~tied], np.concatenate([np.ones((~tied).sum()), np.zeros((~tied).sum())])
    answer = linprog(
        -free.sum(0),
        A_ub=vstack([free, -free]),
        b_ub=upper,
        A_eq=gaps[tied] if tied.any() else None,
        b_eq=np.zeros(tied.sum()) if tied.any() else None,
        bounds=(None, None),
        method="highs",
    )
    return bool(answer.status == 0 and -answer.fun > 0.5)
