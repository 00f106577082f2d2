"""A network of dense ReLU layers, its objective on a whole support set, and its minimisation.

Parameters are one flat vector θ: for each layer the weights W (inputs × outputs), then the bias b.
The objective is, with p = softmax(… relu(relu(X W₁ + b₁) W₂ + b₂) …) and targets T (N, K) whose
rows need not sum to one,

    Σ_i Σ_k T_ik log(T_ik / (t_i p_ik)) + ½ decay Σ_layers ‖W‖²,      t_i = Σ_k T_ik.

With T_ik = w_i (y_ik + λ u_k) / Σ w it is CE(y‖p) + λ KL(u‖p), averaged over the samples, up to a
constant, and zero where nothing is left to learn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import xlogy

from firthshot.arrays import Array
from firthshot.objective import log_softmax

if TYPE_CHECKING:
    Layers = list[tuple[Array, Array]]


# A network has kinks, where the gradient jumps and need not become small. So a descent also ends
# when this many steps together lower the objective by less than a share of it.
STALL_STEPS = 10
MEMORY = 10  # pairs of steps and gradients that L-BFGS keeps; more cost more than they save


def layers_of(theta: Array, widths: Sequence[int]) -> Layers:
    """Return the weights and biases of every layer as views into θ."""
    layers, at = [], 0
    for inputs, outputs in pairwise(widths):
        end = at + inputs * outputs
        layers.append((theta[at:end].reshape(inputs, outputs), theta[end : end + outputs]))
        at = end + outputs
    return layers


def n_parameters(widths: Sequence[int]) -> int:
    """Return the number of all weights and biases."""
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(widths))


def xavier_start(widths: Sequence[int], random: np.random.RandomState) -> Array:
    """Draw weights uniform in ± √(6 / (inputs + outputs)), layer by layer; biases are zero."""
    theta = np.zeros(n_parameters(widths))
    for W, _ in layers_of(theta, widths):
        W[:] = random.uniform(-1.0, 1.0, W.shape) * np.sqrt(6.0 / sum(W.shape))
    return theta


def forward(X: Array, layers: Layers) -> list[Array]:
    """Return what each layer is given, the rows first, and the logits last."""
    values = [X]
    for W, b in layers[:-1]:
        values.append(np.maximum(values[-1] @ W + b, 0))
    W, b = layers[-1]
    values.append(values[-1] @ W + b)
    return values


def value_and_gradient(
    theta: Array, widths: Sequence[int], X: Array, targets: Array, decay: float
) -> tuple[float, Array]:
    """Return the module's objective and its gradient by θ."""
    layers, gradient = layers_of(theta, widths), np.empty_like(theta)
    *inputs, logits = forward(X, layers)
    log_p = log_softmax(logits)
    totals = targets.sum(axis=1, keepdims=True)
    value = xlogy(targets, targets / totals).sum() - np.vdot(targets, log_p)
    G = np.exp(log_p) * totals - targets
    for at, (by_W, by_b) in reversed(list(enumerate(layers_of(gradient, widths)))):
        W = layers[at][0]
        np.matmul(inputs[at].T, G, out=by_W)
        by_W += decay * W
        by_b[:] = G.sum(axis=0)
        value += 0.5 * decay * np.vdot(W, W)
        if at:
            G = (G @ W.T) * (inputs[at] > 0)
    return float(value), gradient


def _halt_when_stalled(share: float) -> Callable[[Any], None]:
    """Return what halts SciPy's descent when its last steps together gained too little."""
    values = [np.inf] * STALL_STEPS

    def halt(intermediate_result: Any) -> None:
        values.append(float(intermediate_result.fun))
        if values.pop(0) - values[-1] <= share * values[-1]:
            raise StopIteration

    return halt


def minimise(
    theta: Array,
    widths: Sequence[int],
    X: Array,
    targets: Array,
    decay: float,
    *,
    tolerance: float,
    stall: float,
    max_iterations: int,
) -> Any:
    """Descend by L-BFGS from θ, and return SciPy's result; a stalled descent is a success.

    Parameters
    ----------
    tolerance : float
        The descent ends when no entry of the gradient is above it, …
    stall : float
        … or when ten steps together lower the objective by less than this share of it, or when no
        step along the descent direction lowers it.
    max_iterations : int
    """
    from scipy.optimize import minimize

    found = minimize(
        value_and_gradient,
        theta,
        (widths, X, targets, decay),
        jac=True,
        method="L-BFGS-B",
        callback=_halt_when_stalled(stall),
        options={
            "maxiter": max_iterations,
            "maxfun": 20 * max_iterations,
            "maxcor": MEMORY,
            "gtol": tolerance,
            "ftol": 0.0,
        },
    )
    out_of_iterations = found.status == 1
    found.success = not out_of_iterations and bool(np.isfinite(found.fun))
    return found
