"""The linear head with L2 on the Gram matrix of its rows, which all coefficients share.

Where rows are at most about twice as many as features, everything but the Gram matrix and the
final weights is computed in N dimensions (:mod:`firthshot.engine.solvers.newton_cg_gram`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from firthshot.arrays import Array, pad_columns, round_up
from firthshot.engine.results import Status
from firthshot.engine.solvers.newton_cg_gram import GramData, centre, mirror, newton_cg_gram, weigh
from firthshot.engine.solvers.path import walk
from firthshot.engine.solvers.problem import LinearProblem, Solution
from firthshot.engine.solvers.span import Bias
from firthshot.kernels.mean_loss import loss_state
from firthshot.kernels.vectors import lanes_of
from firthshot.objective import PenaltyTables

# A centred Gram matrix made from an uncentred one loses as many digits as the square of the mean is
# larger than the spread: four of sixteen here. Twice the value loses a third of a digit more.
FAR_AWAY = 1e4
# Up to this condition number an inverse in float32, of seven digits, still preconditions well; at
# twice the value conjugate gradients take more steps, but do not fail.
WITHIN_SINGLE = 1e5
# Rounding of logits in float32, 1e-7, with a margin. Twice the value computes logits afresh in a
# few fits that had no need of it.
ROUNDING = 2e-6
# From this condition number on, and for so many coefficients, a preconditioner pays for its
# inverse, about N³ operations; twice either costs a path some products.
WORTH_AN_INVERSE, ENOUGH_COEFFICIENTS = 30.0, 3
# So many rows of weights are computed at once: enough for a product, and few enough for a cache.
_AT_ONCE = 256


@dataclass(frozen=True)
class GramRows:
    """The rows of a problem as the solver sees them, and the way back to weights.

    ``rows`` is X, or (X − mean) / unit in float32; ``data`` is of X / unit.
    """

    data: GramData
    bias: Bias
    rows: Array  # (N, d)
    weights: Array  # (n,), s, padded by zeros
    scale: Array  # (N,), what ν is multiplied by
    mean: Array  # (d,), what a free intercept subtracts
    unit: float
    largest: float  # Frobenius norm of the Gram matrix, which bounds its largest eigenvalue
    mean_square: float  # mean of the diagonal of the Gram matrix

    @classmethod
    def of(
        cls, X: Array, weights: Array, bias: Bias, unit: float = 1.0, *, loose: bool = False
    ) -> GramRows:
        """Compute the Gram matrix of rows X / unit (N, d), whose positive weights sum to one.

        With ``loose`` the products are those of float32, good for a gradient of about 1e-5.
        """
        n, root, rows = len(X), np.sqrt(weights), X
        mean = weights @ X if bias == "free" else np.zeros(X.shape[1])
        scale, along, constant = root / unit, np.zeros(n), 0.0
        if bias == "joint":
            constant = unit**2
        elif loose:
            rows, scale = np.empty(X.shape, np.float32), root
            centre(X, mean, unit, rows)
        products = rows @ rows.T
        if bias == "free" and not loose:
            along = products @ weights
            constant = float(weights @ along)
            if constant > FAR_AWAY * (float(weights @ np.diag(products)) - constant):
                rows, along, constant = X - mean, np.zeros(n), 0.0
                products = rows @ rows.T
        padded = round_up(n, lanes_of(np.float64))
        gram, single = np.zeros((padded, padded)), np.zeros((padded, padded), np.float32)
        largest = weigh(products, along, constant, scale, gram, single)
        root, inverse_root = pad_columns(root, padded), np.zeros(padded)
        np.divide(1.0, root, out=inverse_root, where=root > 0)
        shift = float(np.sqrt(mean @ mean)) / unit
        data = GramData(
            gram, single, root.astype(np.float32), inverse_root, np.ones(padded, np.float32),
            bias == "free", shift,
        )  # fmt: skip
        weights, mean_square = pad_columns(weights, padded), float(gram.trace()) / n
        return cls(data, bias, rows, weights, scale / unit, mean, unit, largest, mean_square)

    def write_weights(self, nu: Array, b: Array, coef: Array, intercept: Array) -> None:
        """Write coef (L, C, d) and intercept (L, C) of dual variables ν (L, C, n)."""
        n, d = self.rows.shape
        along = (nu[..., :n] * self.scale).reshape(-1, n)
        if self.bias == "free" and self.rows.dtype == np.float64:  # those in float32 are centred
            along -= along.sum(1, keepdims=True) * self.weights[:n]
        flat, combined = coef.reshape(-1, d), along.astype(self.rows.dtype, copy=False)
        for first in range(0, len(flat), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            flat[part] = combined[part] @ self.rows
        if self.bias == "joint":
            intercept[:] = along.sum(1).reshape(b.shape) * self.unit**2
        else:
            intercept[:] = b - coef @ self.mean

    def inverse(self, ridge: float) -> Array | None:
        """Return (G + ridge)⁻¹ in float32, None if it is too ill-conditioned for float32."""
        from scipy.linalg.lapack import spotrf, spotri

        if not self.largest <= WITHIN_SINGLE * ridge:
            return None
        shifted = self.data.gram_single.copy()
        shifted.ravel()[:: len(shifted) + 1] += np.float32(ridge)
        # LAPACK's lower triangle is the upper one in our order of entries.
        factor, failed = spotrf(shifted.T, lower=1, overwrite_a=1)
        if failed:
            return None
        inverse: Array = spotri(factor, lower=1, overwrite_c=1)[0].T
        mirror(inverse)
        return inverse


def path_inverse(form: PenaltyTables, rows: GramRows) -> tuple[Array, float] | None:
    """Return the preconditioner (G + ridge)⁻¹ of a path of λ > 0, None if it would not pay.

    Where predictions are near the targets y + λu, the Hessian by logits is about λ/K in most
    directions, and so the whole Hessian about λ/K (G + decay K/λ). One inverse serves the path: its
    ridge is the geometric mean of decay K/λ over the coefficients.
    """
    surplus = form.probability - form.label
    ridges = [
        decay * len(form.target) / more
        for decay, more in zip(form.weight_decay.tolist(), surplus.tolist(), strict=True)
        if decay > 0 and more > 0
    ]
    if len(ridges) < ENOUGH_COEFFICIENTS:
        return None
    ridge = float(np.exp(np.log(ridges).mean()))
    inverse = rows.inverse(ridge) if rows.largest >= WORTH_AN_INVERSE * ridge else None
    return None if inverse is None else (inverse, ridge)


def minimise_by_gram(
    problem: LinearProblem,
    rows: GramRows,
    shared: tuple[Array, float] | None,
    chosen: list[int],
    found: Solution,
) -> None:
    """Write the optimum of every chosen coefficient."""
    limits = problem.limits
    form, shape, at_end = problem.form, (len(problem.Y), len(rows.weights)), {}
    each = len(form.label)
    nu, b, image = np.zeros((each, *shape)), np.zeros((each, shape[0])), np.zeros((each, *shape))
    state, plain = loss_state(shape, np.float64), (rows.data.gram_single, 0.0)
    drift = ROUNDING * float(np.sqrt(len(problem.X) * rows.mean_square))
    for l, guesses in walk(form, chosen, problem.warm_start):
        loss, decay = problem.loss(l, rows.weights), float(form.weight_decay[l])
        point, state = (nu[l], b[l], image[l]), state._replace(gradient=np.empty(shape))
        if guesses is not None:
            guesses.fill(b[l], nu[l], image[l])
        matrix, ridge = plain if shared is None or form.label[l] >= loss.probability else shared
        curvature = loss.probability / shape[0]
        level = decay + curvature * rows.mean_square
        found.iterations[l], found.gradient_norm[l], found.objective[l] = newton_cg_gram(
            tuple(rows.data), tuple(loss), decay,
            (matrix, np.float32(level), np.float32(curvature), np.float32(ridge)),
            (limits.tolerance, drift * loss.probability, limits.max_iterations), point,
            tuple(state),
        )  # fmt: skip
        at_end[l] = state.gradient
        if rows.bias == "free" and not (form.target[:, l].all() or loss.targets.any(1).all()):
            found.status[l] = Status.NO_OPTIMUM  # a class without targets: its b goes to −∞
        elif guesses is not None and found.gradient_norm[l] <= limits.tolerance:
            guesses.add(state.gradient, b[l], nu[l], image[l])
    part: Any = sorted(at_end)
    if len(part) == len(found.coef):
        part = slice(None)  # views, which are written in place: a path of weights is large
    coef, intercept = found.coef[part], found.intercept[part]
    rows.write_weights(nu[part], b[part], coef, intercept)
    if coef.base is not found.coef:
        found.coef[part], found.intercept[part] = coef, intercept
    if problem.audit:
        for l, by_logits in at_end.items():
            found.gradient_norm[l] = problem.largest_entry(l, by_logits, found)
