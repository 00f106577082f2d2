"""A start near the optimum where rows are many: L-BFGS in float32.

A Newton step pays several passes over the rows for its direction. Far from the optimum of many
thousand rows those are better spent on gradients, in float32 as long as its rounding is small
beside them; Newton's method then finishes, or only confirms in float64 that nothing is left to do.
"""

from __future__ import annotations

import numpy as np

from firthshot.arrays import Array
from firthshot.engine.solvers.newton_cg import SpanData, gradient_bound
from firthshot.kernels.mean_loss import MeanLoss, cross_entropy, loss_state

# Gradients in float32 are good for this, relative to features of length 1: 1e-7 with a margin. At
# twice the value Newton's method finds some more to do.
_ROUNDING = 2e-5
# The gradient's bound is brought safely below the tolerance; the change of the value that ends
# L-BFGS is float32's; ten pairs are scipy's default, of which more or less changes little.
_SAFELY, _SMALLEST_CHANGE, _MEMORY = 0.9, 1e-8, 10


def approach(
    data: SpanData, loss: MeanLoss, tolerance: float, max_iterations: int, theta: Array
) -> int:
    """Move θ (C, r) in place to where the gradient is nearly small enough; return the steps."""
    from scipy.optimize import minimize

    single = MeanLoss(
        loss.targets.astype(np.float32), data.weights_single, np.float32(loss.probability),
        np.float32(0.0),
    )  # fmt: skip
    state, n = loss_state(loss.targets.shape, np.float32), len(loss.weights)
    # L-BFGS works on θ / scale, in which the loss at zero is curved alike everywhere.
    scale = 1 / np.sqrt(loss.probability / len(theta) * data.squares + data.decay)
    least = _ROUNDING * loss.probability * float(np.sqrt(data.squares.sum()))
    bound, goal = np.inf, _SAFELY * max(tolerance, least)

    def value_and_gradient(scaled: Array) -> tuple[float, Array]:
        nonlocal bound
        here = scaled.reshape(theta.shape) * scale
        np.matmul(here.astype(np.float32), data.features_single, out=state.z)
        value = cross_entropy(single, state, 0, n)
        gradient = (state.gradient @ data.transposed_single).astype(np.float64) + data.decay * here
        bound = gradient_bound(gradient, data.free, data.shift)
        return value + 0.5 * float((data.decay * here**2).sum()), (gradient * scale).ravel()

    def end_when_small(_: Array) -> None:
        if bound <= goal:
            raise StopIteration

    found = minimize(
        value_and_gradient, (theta / scale).ravel(), jac=True, method="L-BFGS-B",
        callback=end_when_small,
        options={
            "maxiter": max_iterations, "gtol": 0.0, "ftol": _SMALLEST_CHANGE, "maxcor": _MEMORY,
        },
    )  # fmt: skip
    theta[:] = found.x.reshape(theta.shape) * scale
    return int(found.nit)
