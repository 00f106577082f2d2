"""A start near the optimum where rows are many: L-BFGS in float32.

A Newton step pays several passes over the rows for its direction. Far from the optimum of many
thousand rows those are better spent on gradients, in float32 as long as its rounding is small
beside them; Newton's method then finishes, or only confirms in float64 that nothing is left to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._kernels.converged import largest_entry_bound
from firthshot.kernels.mean_loss import evaluate

Array = npt.NDArray[Any]

# Gradients in float32 are good for this, relative to features of length 1.
ROUNDING = 2e-5


def approach(
    wide: Array,
    tall: Array,
    scale: Array,
    decay: Array,
    targets: Array,
    weights: Array,
    probability: float,
    free: bool,
    shift: float,
    tolerance: float,
    max_iterations: int,
    theta: Array,
) -> int:
    """Move θ (C, r) in place to where the gradient is nearly small enough; return the steps.

    Parameters
    ----------
    wide, tall : (r, n) and (n, r), features in float32; n a multiple of its lanes
    scale : (r,), roots of the inverse curvatures: L-BFGS works on θ / scale
    decay : (r,) L2 factors; targets : (C, n); weights : (n,)
    free, shift : see :func:`firthshot.engine._kernels.converged.largest_entry_bound`
    """
    from scipy.optimize import minimize

    single = [a.astype(np.float32) for a in (targets, weights)]
    p, by_logits = np.empty_like(single[0]), np.empty_like(single[0])
    top, total = np.empty_like(single[1]), np.empty_like(single[1])
    bound = np.inf

    def value_and_gradient(scaled: Array) -> tuple[float, Array]:
        nonlocal bound
        at = scaled.reshape(theta.shape) * scale
        z = at.astype(np.float32) @ wide
        value = evaluate(z, *single, np.float32(probability), p, by_logits, top, total)
        gradient = (by_logits @ tall).astype(np.float64) + decay * at
        bound = largest_entry_bound(gradient, free, shift)
        return value + 0.5 * float((decay * at**2).sum()), (gradient * scale).ravel()

    def stop(_: Array) -> None:
        if bound <= 0.9 * tolerance:
            raise StopIteration

    found = minimize(
        value_and_gradient, (theta / scale).ravel(), jac=True, method="L-BFGS-B", callback=stop,
        options={"maxiter": max_iterations, "gtol": 0.0, "ftol": 1e-8, "maxcor": 10},
    )  # fmt: skip
    theta[:] = found.x.reshape(theta.shape) * scale
    return int(found.nit)
