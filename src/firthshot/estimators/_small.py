"""Small fits of the linear objective without a compiled kernel: NumPy all the way.

The size of the problem alone decides, so that no result depends on what was compiled before.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from firthshot.arrays import Array
from firthshot.engine import Kind, Rows, minimise_together, shared_rows
from firthshot.estimators._support import Support, centre_of

# Multiplications of one product of all logits, K N min(N, d), up to which a fit runs here: 1000
# rows of 384 features and 50 classes. Compiling the kernels takes longer than a fit ten times as
# large; once compiled they would be at most twice as fast at this size.
SMALL = 2e7
# From so many multiplications on, they take most of the time: directions are then computed in
# float32, and all else too for a gradient no smaller than `LOOSE`. Below, rounding of float64 is
# all that tells a row given twice from a weight of two.
WORTH_SINGLE, LOOSE = 3e5, 1e-3
# Products of fewer multiplications stay in one thread anyway. To share out larger ones of this size
# gains little on a quiet machine and costs ten times as much on a busy one.
ONE_THREAD = 2e5
MOST_LOGITS = 2_000_000  # of all problems of a batch: 16 MB an array


@dataclass(frozen=True)
class Variant:
    """One problem on the rows of a support set."""

    lam: float
    l2: float
    left_out: Array | None = None  # numbers of rows
    start: Array | None = None  # (K, n), coordinates of another variant's optimum


@dataclass(frozen=True)
class SmallRows:
    """The rows of a support set as the solver sees them, (X − centre) / unit."""

    rows: Rows
    centre: Array | None
    unit: float

    def weights(self, x: Array) -> tuple[Array, Array]:
        """Return coef (B, K, d) and intercept (B, K) for rows as they are."""
        coef, intercept = self.rows.weights(x)
        coef = coef / self.unit
        return coef, intercept if self.centre is None else intercept - coef @ self.centre


@dataclass(frozen=True)
class SmallOptima:
    """Where the solver got to with every variant."""

    x: Array  # (B, K, n), its coordinates
    logits: Array  # (B, K, N), of all rows
    converged: Array  # (B,)
    iterations: Array  # (B,)


def is_small(support: Support, variants: list[Variant]) -> bool:
    """Tell whether variants are solved here: by their size, and since there must be an L2 term."""
    return _product(support) <= SMALL and min(variant.l2 for variant in variants) > 0


def _product(support: Support) -> float:
    """Return the multiplications of one product of all logits."""
    X = support.dense[0]
    return float(support.n_classes * len(X) * min(X.shape))


def small_rows(support: Support, intercept: bool) -> SmallRows:
    """Return the rows, centred where an intercept makes up for that, in units of their size."""
    known: dict[bool, SmallRows] = support.prepared
    if intercept not in known:
        X, moments = support.dense[0], support.moments
        unit = float(np.sqrt(moments.spread if intercept else moments.square))
        centre = centre_of(X, support.weights) if intercept else None
        rows = (X if centre is None else X - centre) / np.float64(unit)
        known[intercept] = SmallRows(shared_rows(rows, intercept), centre, unit)
    return known[intercept]


def solve_variants(
    support: Support, small: SmallRows, variants: list[Variant], tol: float, max_iter: int
) -> SmallOptima:
    """Return the optima of variants, in batches of as many as memory likes."""
    at_once = max(1, MOST_LOGITS // (support.n_classes * len(support.labels)))
    parts = [variants[first : first + at_once] for first in range(0, len(variants), at_once)]
    with _one_thread(len(parts[0]) * _product(support)):
        found = [_solve_batch(support, small, part, tol, max_iter) for part in parts]
    return SmallOptima(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))


def _one_thread(multiplications: float) -> AbstractContextManager[object]:
    if multiplications <= ONE_THREAD:
        return nullcontext()
    limit: AbstractContextManager[object] = _blas().limit(limits=1, user_api="blas")
    return limit


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def _solve_batch(
    support: Support, small: SmallRows, variants: list[Variant], tol: float, max_iter: int
) -> tuple[Array, ...]:
    weights = np.tile(support.weights, (len(variants), 1))
    x = np.zeros((len(variants), support.n_classes, small.rows.width))
    for b, variant in enumerate(variants):
        if variant.left_out is not None:
            weights[b, variant.left_out] = 0.0
        if variant.start is not None:
            x[b] = variant.start
    total = weights.sum(axis=1, keepdims=True)
    lam, l2 = np.array([(variant.lam, variant.l2) for variant in variants]).T
    decay = ridge_rows(support.n_classes) * l2 / (small.unit**2 * (1 + lam) * total[:, 0])
    problem = small.rows, weights / total, _targets(support, lam), decay
    many = len(variants) * _product(support) >= WORTH_SINGLE
    quick: Kind = np.float32 if many else np.float64
    x = x.astype(quick if tol >= LOOSE else np.float64, copy=False)
    batch = minimise_together(*problem, x, tol, max_iter, quick)
    return batch.x, small.rows.logits(batch.image), batch.norm <= tol, batch.iterations


def _targets(support: Support, lam: Array) -> Array:
    """Return (y + λ u) / (1 + λ) for every λ, (B, K, N)."""
    n = len(support.labels)
    targets = np.outer(lam / (1 + lam), support.prior)[:, :, None].repeat(n, axis=2)
    targets[:, support.labels, np.arange(n)] += (1 / (1 + lam))[:, None]
    return targets


def ridge_rows(n_classes: int) -> float:
    """Return the factor that l2 takes on K rows of weights.

    The one row w of two classes is the difference of two opposite halves: ½ ‖w‖² = ‖W‖².
    """
    return 2.0 if n_classes == 2 else 1.0
