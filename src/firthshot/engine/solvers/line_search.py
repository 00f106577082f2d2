"""A line search for the strong Wolfe conditions, by the secant of the slopes in a bracket.

The first step tried is Newton's, 1, and no longer one ever is. A step counts as *lower* if it
satisfies Armijo's condition, as *flat* if it satisfies the curvature condition. Armijo's is enough
for the first step if the objective still falls at its end, and after `PATIENCE` trials.
"""

from __future__ import annotations

from typing import NamedTuple

from firthshot.arrays import Array
from firthshot.kernels import kernel
from firthshot.kernels.mean_loss import objective

# Armijo's and Wolfe's constants: the share of the decrease that the slope promises, and the share
# of the slope that may be left. A Newton step is right at once, so that twice either, or half,
# changes no step on our benches.
DECREASE, FLAT = 1e-4, 0.5
# After PATIENCE trials Armijo's condition is enough: a slope that never gets flat would otherwise
# spend all MOST_TRIALS, whose last are 2⁻³⁰ of the first step.
PATIENCE, MOST_TRIALS = 10, 30
# Two values that agree to this are the same in float64; then the slope alone tells.
ROUNDING = 1e-13
# Steps keep this far from the ends of their bracket, as a share of it.
MARGIN = 0.1


class Line(NamedTuple):
    """The objective along a direction: logits move on a line, the L2 terms on a parabola."""

    z: Array  # (C, n), at the start
    step_z: Array  # (C, n), the direction's
    value: float
    slope: float
    l2: tuple[float, float, float]  # value, slope and curvature


@kernel(fastmath={"reassoc", "contract"})
def dot(left, right):
    """Return Σ left · right over two matrices of the same shape, summed in float64 by rows."""
    value = 0.0
    for c in range(left.shape[0]):
        row = left.dtype.type(0.0)
        for j in range(left.shape[1]):
            row += left[c, j] * right[c, j]
        value += row
    return value


@kernel
def secant_step(low, high, slope_low, slope_high):
    """Return a step between two, by the secant of the slopes where they differ in sign."""
    share = 0.5
    if slope_high > 0.0:
        share = min(1.0 - MARGIN, max(MARGIN, -slope_low / (slope_high - slope_low)))
    return low + share * (high - low)


@kernel
def move_logits(line, step, z):
    """Write the logits after a step along the line."""
    start, step_z = line.z, line.step_z
    for c in range(z.shape[0]):
        for i in range(z.shape[1]):
            z[c, i] = start[c, i] + step * step_z[c, i]


@kernel
def line_search(loss, line, state):
    """Return a step and the value there; ``state`` is then the loss's state at that step.

    No trial costs a product with the rows. A step of zero says that none lowers the value; the
    state is then that of the start.
    """
    low, high, slope_low, slope_high, step = 0.0, -1.0, line.slope, 0.0, 1.0
    value_l2, slope_l2, curvature_l2 = line.l2
    for trial in range(MOST_TRIALS):
        move_logits(line, step, state.z)
        value = objective(loss, state)
        value += value_l2 + step * (slope_l2 + 0.5 * step * curvature_l2)
        slope = dot(state.gradient, line.step_z) + slope_l2 + step * curvature_l2
        lower = value <= line.value + DECREASE * step * line.slope
        flat = abs(slope) <= FLAT * abs(line.slope)
        too_short = slope < 0.0 and high < 0.0  # no step so far was too long: 1 is taken as it is
        if lower and (flat or trial >= PATIENCE or too_short):
            return step, value
        if flat and value <= line.value + ROUNDING * (1.0 + abs(line.value)):
            return step, value
        if lower and slope < 0.0:
            low, slope_low = step, slope
        else:
            high, slope_high = step, slope
        step = secant_step(low, high, slope_low, slope_high)
    move_logits(line, 0.0, state.z)
    objective(loss, state)
    return 0.0, line.value
