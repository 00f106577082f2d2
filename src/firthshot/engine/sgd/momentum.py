"""What the heads' training loops share: constant data, state, and steps of momentum.

A layer holds values and velocities. A velocity here is already multiplied by the momentum and has
the gradients since the last step in it: its step is *pending* until the next sweep
(:mod:`.sweep`). What of a step depends on its batch alone, and not on the column, is in the layer's
*clock*, which `tick` sets for each batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from firthshot.arrays import Array
from firthshot.engine.sgd.sweep import drift, sweep
from firthshot.kernels import kernel
from firthshot.kernels.softmax import LossForm
from firthshot.kernels.streams import SHUFFLE, random_words, shuffle_first
from firthshot.kernels.vectors import lanes_in, vadd, vfill, vfma, vload, vmul, vstore

# Drifting velocities are brought back to scale when their common factor has fallen below this:
# every 88 steps at momentum 0.9, which costs nothing and is far from overflow. Twice the value
# makes that 81 steps, and other roundings.
SMALLEST_FACTOR = 1e-4

# The three numbers of a clock. GRADIENT_SHARE multiplies the next gradient: 1 at first, then
# 1 − dampening. DECAY_SHARE multiplies the decay in the pending step: the share of the gradient
# there, less for a smaller last batch if L2 is part of the loss. FACTOR is the common factor m of
# drifting velocities (:mod:`.sweep`), else 1.
DECAY_SHARE, GRADIENT_SHARE, FACTOR = range(3)


class Schedule(NamedTuple):
    """The published SGD of one trial; numbers that enter vectors have the features' type."""

    key: np.uint64
    trial: int
    shuffle: bool
    batch_size: int
    learning_rate: Any
    momentum: Any
    dampening: float
    scale_partial: bool
    decay_with_batch: bool  # a partial batch scales the decay too: it is part of the loss


class Task(NamedTuple):
    """What stays the same while a group of coefficients is trained."""

    gram: Array  # (N, N), G = X X'
    start: Array  # (N, columns), X W_0
    labels: Array  # (N,)
    n_coefficients: int
    loss: LossForm
    schedule: Schedule
    decays: bool  # whether anything decays; where nothing does, velocities drift (:mod:`.sweep`)


class Layer(NamedTuple):
    """A layer W = s W_0 + X'A with a bias, A dual variables: what training changes, its decays."""

    a: Array  # (blocks, N, lanes)
    velocity: Array
    bias: Array  # (columns,), as all that follow
    bias_velocity: Array
    s: Array
    s_velocity: Array
    weight_decay: Array  # factor of the weights in their own gradient
    bias_decay: Array
    clock: Array  # (3,), see `DECAY_SHARE`


@kernel(allocates=False)
def draw_order(key, trial, epoch, shuffle, order, words):
    """Write the order in which an epoch visits the support rows."""
    n = order.size
    for i in range(n):
        order[i] = i
    if shuffle:
        random_words(key, epoch * ((n + 3) // 4), n, 0, trial, SHUFFLE, words)
        shuffle_first(order, n, n, words)


@kernel(allocates=False)
def take_step(task, layer, swept, rows, step):
    """Take the pending step of a layer and multiply the batch's rows of G by the dual variables.

    ``step`` is the learning rate times the factor of drifting velocities.
    """
    clock, momentum, decay = layer.clock, task.schedule.momentum, swept.decay
    if task.decays:
        for at in range(0, decay.size, lanes_in(decay)):
            vstore(decay, at, vmul(vfill(decay, clock[DECAY_SHARE]), vload(layer.weight_decay, at)))
        sweep(swept, rows, step, momentum)
        share = clock[DECAY_SHARE]
        advance(layer.s, layer.s_velocity, layer.weight_decay, share, step, momentum)
        advance(layer.bias, layer.bias_velocity, layer.bias_decay, share, step, momentum)
    else:
        drift(swept, rows, step)
        step_without_decay(layer.bias, layer.bias_velocity, step)
        clock[FACTOR] *= momentum


@kernel(allocates=False)
def tick(schedule, clock, n_rows):
    """Set the clock for a batch; return the factor of its gradient, summed over rows."""
    share, partial = clock[GRADIENT_SHARE], n_rows / schedule.batch_size
    clock[DECAY_SHARE] = share * (partial if schedule.decay_with_batch else 1.0)
    # torch's first gradient enters the velocity undampened.
    clock[GRADIENT_SHARE] = 1.0 - schedule.dampening
    divisor = schedule.batch_size if schedule.scale_partial else n_rows
    return share / (clock[FACTOR] * divisor)


@kernel(allocates=False)
def advance(value, velocity, decay, share, learning_rate, momentum):
    """Move a vector of parameters (one per column) by the momentum step that is pending."""
    back, mu, part = vfill(value, -learning_rate), vfill(value, momentum), vfill(value, share)
    for at in range(0, value.size, lanes_in(value)):
        speed = vfma(vmul(part, vload(decay, at)), vload(value, at), vload(velocity, at))
        vstore(value, at, vfma(back, speed, vload(value, at)))
        vstore(velocity, at, vmul(mu, speed))


@kernel(allocates=False)
def step_without_decay(value, velocity, step):
    """Move a vector of parameters against their velocities, which stay as they are."""
    back = vfill(value, -step)
    for at in range(0, value.size, lanes_in(value)):
        vstore(value, at, vfma(back, vload(velocity, at), vload(value, at)))


@kernel(allocates=False)
def add_gradient(gradient, rows, layer):
    """Add the batch's gradient, in row layout, to the velocities of its rows and of the bias."""
    velocity, total = layer.velocity, layer.bias_velocity
    lanes, wide, n = lanes_in(total), gradient.shape[1], velocity.shape[1]
    for i in range(rows.size):
        for block in range(velocity.shape[0]):
            at, mine = (block * n + rows[i]) * lanes, vload(gradient, i * wide + block * lanes)
            vstore(velocity, at, vadd(vload(velocity, at), mine))
    for at in range(0, total.size, lanes):
        value = vload(total, at)
        for i in range(rows.size):
            value = vadd(value, vload(gradient, i * wide + at))
        vstore(total, at, value)


@kernel(allocates=False)
def rescale(values, factor):
    """Multiply a flat array of any size by ``factor``."""
    all_lanes, lanes = vfill(values, factor), lanes_in(values)
    whole = values.size // lanes * lanes
    for at in range(0, whole, lanes):
        vstore(values, at, vmul(all_lanes, vload(values, at)))
    for at in range(whole, values.size):
        values[at] *= factor


@kernel
def restore_scale(layer):
    """Multiply velocities by the factor that they have drifted to; return it."""
    factor = layer.clock[FACTOR]
    rescale(layer.velocity.ravel(), factor)
    rescale(layer.bias_velocity, factor)
    layer.clock[FACTOR] = 1.0
    return factor


@kernel
def apply_pending_step(a, velocity, decay, share, learning_rate):
    """Return the dual variables (N, columns) after the pending step, and leave the state alone."""
    blocks, n, lanes = a.shape
    settled = np.empty((n, blocks * lanes), a.dtype)
    for block in range(blocks):
        for j in range(n):
            for lane in range(lanes):
                column = block * lanes + lane
                speed = velocity[block, j, lane] + share * decay[column] * a[block, j, lane]
                settled[j, column] = a[block, j, lane] - learning_rate * speed
    return settled
