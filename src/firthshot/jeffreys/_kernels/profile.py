"""Where the profile of a linear form of the parameters falls to a level."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firthshot.jeffreys._kernels.evaluate import gradient, value
from firthshot.jeffreys._kernels.maximise import (
    CONVERGED,
    NO_ASCENT,
    SINGULAR,
    TOO_MANY_STEPS,
    backtrack,
    newton_parts,
)
from firthshot.jeffreys._kernels.memory import Data, FloatArray, Work
from firthshot.kernels import kernel
from firthshot.kernels.elementary import add, apply, dot


@kernel(error_model="numpy")
def profile_bound(
    data: Data,
    work: Work,
    theta: FloatArray,
    A: FloatArray,
    C: FloatArray,
    target: float,
    depth: float,
    side: float,
    tol: float,
    max_iter: int,
) -> tuple[float, int, int]:
    """Find where the profile of ``C[0]'θ`` falls to ``target``, from a first guess ``theta``.

    Venzon and Moolgavkar's method in the metric of B: with t = B⁻¹c / c'B⁻¹c the path of the
    profile, d the nuisance step and g = U't, κ = t'Bt, the model of the profile is
    l + ½ U'd + g Δ - ½ κ Δ² and Δ is its root on the wanted side.

    Returns
    -------
    bound, iterations, status
    """
    q = theta.size
    c = C[0]
    B, S, step = np.empty((q, q)), np.empty((2, q)), np.empty(q)
    width = 0.0
    lp = value(data, work, theta)
    if lp == -np.inf:
        return np.nan, 0, SINGULAR
    gradient(data, work)
    for iteration in range(max_iter):
        newton_parts(work, A, B, C, S, step)
        kappa = 1.0 / dot(c, S[1])
        slope = kappa * dot(c, S[0])
        gain = 0.5 * dot(work.score[0], step)
        room = slope * slope + 2.0 * kappa * (lp + gain - target)
        move = side * 2.0 / np.sqrt(kappa)
        if room >= 0.0:
            move = (slope + side * np.sqrt(room)) / kappa
        elif slope * side < 0.0:
            move = (lp + gain - target) / -slope * 0.5 if slope != 0.0 else move
        # The move is good to second order in the gap, and the gain is allowed for.
        if abs(lp - target) <= 0.1 * tol**0.25 and gain <= 100.0 * tol and room >= 0.0:
            return dot(c, theta) + move, iteration + 1, CONVERGED
        width = max(width, 2.0 / np.sqrt(kappa))
        move = min(max(move, -3.0 * width), 3.0 * width)
        add(step, move * kappa, S[1], step)
        # How far the step goes in standard errors is not known: its length in θ decides.
        reached = backtrack(data, work, theta, step, A, target - 4.0 * depth, 0.0)
        if reached == -np.inf:
            return dot(c, theta), iteration, NO_ASCENT
        lp = reached
    return dot(c, theta), max_iter, TOO_MANY_STEPS


@kernel(error_model="numpy")
def profile_each(
    data: Data,
    work: Work,
    top: FloatArray,
    inverse: FloatArray,
    A: FloatArray,
    forms: FloatArray,
    highest: float,
    drop: float,
    tol: float,
    max_iter: int,
) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Find both profile bounds of each form, starting from its Wald bounds.

    Returns
    -------
    bounds, iterations, status
        Arrays of shape (m, 2).
    """
    m = forms.shape[0]
    bounds = np.empty((m, 2))
    iterations, status = np.empty((m, 2), dtype=np.int64), np.empty((m, 2), dtype=np.int64)
    path, theta = np.empty(top.size), np.empty(top.size)
    for k in range(m):
        apply(inverse, forms[k], path)
        reach = np.sqrt(2.0 * drop / dot(forms[k], path))
        for end in range(2):
            side = 2.0 * end - 1.0
            add(top, side * reach, path, theta)
            bounds[k, end], iterations[k, end], status[k, end] = profile_bound(
                data,
                work,
                theta,
                A.copy(),
                forms[k : k + 1],
                highest - drop,
                drop,
                side,
                tol,
                max_iter,
            )
    return bounds, iterations, status
