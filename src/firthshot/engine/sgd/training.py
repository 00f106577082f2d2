"""What the heads share under the published SGD: groups of coefficients, starts, the order of work.

A head keeps the coefficients that it trains together in a state of its own (`SgdState`). Its first
layer never leaves the span of the start and the support rows, W = s W_0 + X'A, so that the state
holds the dual variables A (N, columns) instead of W.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from firthshot.arrays import Array, pad_columns, round_up
from firthshot.engine._queries import side_by_side
from firthshot.engine._trial import Fitted, Trial
from firthshot.engine.sgd.momentum import (
    DECAY_SHARE,
    FACTOR,
    Layer,
    Schedule,
    Task,
    apply_pending_step,
)
from firthshot.kernels.softmax import LossForm
from firthshot.kernels.streams import START, fill_uniform
from firthshot.kernels.vectors import VECTOR_BYTES, lanes_of

if TYPE_CHECKING:
    from firthshot.engine.options import Sgd
    from firthshot.objective import PenaltyTables


# The dual variables and velocities of one group should stay in a core's second-level cache
# (1 MB and more today). Twice as much spills on such a core; results change by rounding alone.
_GROUP_BYTES = 640 * 1024


def coefficient_groups(n_coefficients: int, bytes_each: int) -> list[slice]:
    """Divide the coefficients into groups whose state fits the cache.

    Results depend on it by rounding alone: a BLAS may round a product of fewer columns otherwise.
    """
    return even_groups(n_coefficients, max(1, _GROUP_BYTES // max(1, bytes_each)))


def even_groups(n_coefficients: int, most: int) -> list[slice]:
    """Divide the coefficients evenly into groups of at most so many."""
    edges = np.linspace(0, n_coefficients, -(-n_coefficients // most) + 1).astype(int)
    return [slice(low, high) for low, high in pairwise(edges)]


class SgdState(Protocol):
    """A group of coefficients in the middle of their training."""

    def train(self, first: int, last: int) -> None:
        """Run the passes first … last - 1."""

    def finish(self, keep_weights: bool) -> Fitted:
        """Form logits, norms and weights, and leave a state that may train on."""


State = TypeVar("State", bound=SgdState)


def train_groups(
    groups: list[slice],
    form: PenaltyTables,
    sgd: Sgd,
    keep_weights: bool,
    begin: Callable[[PenaltyTables], State],
) -> dict[int, Fitted]:
    """Train group after group, and return what to score by number of passes.

    ``begin`` makes the state of a group of coefficients from its part of the form.
    """
    parts: dict[int, list[Fitted]] = {}
    for group in groups:
        state, done = begin(form.take(group)), 0
        for passes in sorted({*sgd.score_after, sgd.epochs}):
            state.train(done, passes)
            done = passes
            parts.setdefault(passes, []).append(state.finish(keep_weights))
    return {passes: _join(fitted) for passes, fitted in parts.items()}


def _join(parts: list[Fitted]) -> Fitted:
    """Put the coefficients of several groups side by side."""
    if len(parts) == 1:
        return parts[0]
    names = parts[0].weights
    return Fitted(
        side_by_side([part.outputs for part in parts]),
        np.concatenate([part.norms for part in parts]),
        {name: np.concatenate([part.weights[name] for part in parts]) for name in names},
        np.concatenate([part.status for part in parts if part.status is not None]),
    )


def draw_start(trial: Trial, layer: int, rows: int, columns: int, bound: float) -> Array:
    """Draw the start of a layer, uniform ± bound, from the trial's stream."""
    weights = np.empty((rows, columns), trial.dtype)
    fill_uniform(np.uint64(trial.key), layer, trial.number, START, bound, weights.ravel())
    return weights


def xavier_uniform(trial: Trial, layer: int, rows: int, columns: int) -> Array:
    """Draw the start of a layer, uniform ± √(6 / (rows + columns))."""
    return draw_start(trial, layer, rows, columns, np.sqrt(6 / (rows + columns)))


def must_decay(form: PenaltyTables, sgd: Sgd) -> bool:
    """Say whether each velocity must be updated at every step, or may drift (:mod:`.sweep`).

    Drifting velocities are divided by powers of the momentum, which should not be too small.
    """
    return form.decays or sgd.momentum < 0.5


def make_task(
    trial: Trial, sgd: Sgd, form: PenaltyTables, gram: Array, start: Array, decays: bool = True
) -> Task:
    """Lay out what the kernels read; ``start`` is X W_0 with as many columns as they need."""
    number = trial.dtype.type
    schedule = Schedule(
        np.uint64(trial.key),
        trial.number,
        sgd.shuffle,
        sgd.batch_size,
        number(sgd.learning_rate),
        number(sgd.momentum),
        sgd.dampening,
        sgd.scale_partial,
        form.decay_with_batch and sgd.scale_partial,
    )
    loss = loss_form(form, sgd.batch_size, trial.dtype)
    return Task(gram, start, trial.labels, len(form.label), loss, schedule, decays)


def loss_form(form: PenaltyTables, batch: int, dtype: np.dtype[Any]) -> LossForm:
    """Tile the per-coefficient numbers over the rows of a batch, padded to whole vectors."""
    lanes = lanes_of(dtype)
    n_classes, n_coefficients = form.target.shape
    tall = round_up(batch * n_coefficients, lanes) + lanes

    def tile(values: Array) -> Array:
        return pad_columns(np.tile(values, batch).astype(dtype), tall)

    return LossForm(
        tile(form.probability),
        tile(form.target),
        form.label.astype(dtype),
        tile(form.confidence),
        np.zeros((n_classes, tall) if form.confidence.any() else (0, 0), dtype),
    )


def aligned_zeros(shape: tuple[int, ...] | int, dtype: np.dtype[Any]) -> Array:
    """Return zeros that begin at a cache line: a vector across two of them costs double."""
    size = prod(shape if isinstance(shape, tuple) else (shape,)) * dtype.itemsize
    memory = np.zeros(size + VECTOR_BYTES, np.uint8)
    first = -memory.__array_interface__["data"][0] % VECTOR_BYTES
    return memory[first : first + size].view(dtype).reshape(shape)


def make_layer(trial: Trial, form: PenaltyTables, width: int, padding: int = 0) -> Layer:
    """Return a layer at its start: ``width`` outputs, each for all coefficients.

    What has one entry per column ends in so many columns of ``padding`` beyond whole vectors.
    """
    lanes, used = lanes_of(trial.dtype), width * len(form.label)
    columns = round_up(used, lanes)
    blocks = (columns // lanes, len(trial.support), lanes)
    a, velocity = (aligned_zeros(blocks, trial.dtype) for _ in range(2))
    bias, bias_velocity, s, s_velocity, weight_decay, bias_decay = (
        aligned_zeros(columns + padding, trial.dtype) for _ in range(6)
    )
    s[:] = 1
    weight_decay[:used] = np.tile(form.weight_decay, width)
    bias_decay[:used] = np.tile(form.bias_decay, width)
    per_column = (bias, bias_velocity, s, s_velocity, weight_decay, bias_decay)
    return Layer(a, velocity, *per_column, clock=np.array([0.0, 1.0, 1.0]))


def settled(layer: Layer, sgd: Sgd, share: Any) -> tuple[Array, Array, Array]:
    """Return dual variables (N, columns), bias and s (columns,) after the pending step.

    ``share`` is the clock's share of the decay, in the precision in which bias and s move.
    """
    # The factor is 1 where anything decays.
    eta = layer.a.dtype.type(layer.clock[FACTOR] * sgd.learning_rate)
    a = apply_pending_step(
        layer.a, layer.velocity, layer.weight_decay, layer.clock[DECAY_SHARE], eta
    )
    bias = layer.bias - eta * (layer.bias_velocity + share * layer.bias_decay * layer.bias)
    s = layer.s - eta * (layer.s_velocity + share * layer.weight_decay * layer.s)
    return a, bias.astype(a.dtype), s.astype(a.dtype)


def squared_norms(a: Array, s: Array, gram: Array, z0: Array, start: Array) -> Array:
    """Return ‖w‖² = s²‖w_0‖² + 2 s a'X w_0 + a'G a of every column."""
    each = a.shape[1] // start.shape[1]
    crossed = (a * np.repeat(z0, each, axis=1)).sum(0)
    squares = s**2 * np.repeat((start**2).sum(0), each) + 2 * s * crossed + (a * (gram @ a)).sum(0)
    return np.asarray(squares)


def full_weights(a: Array, s: Array, support: Array, start: Array) -> Array:
    """Return W = s W_0 + X'A of every coefficient and class, shape (L, C, d)."""
    each = a.shape[1] // start.shape[1]
    weights = s * np.repeat(start, each, axis=1) + support.T @ a
    return np.asarray(weights.T.reshape(start.shape[1], each, -1).transpose(1, 0, 2))
