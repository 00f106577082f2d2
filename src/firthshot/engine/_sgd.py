"""What the heads share under the published SGD: groups of coefficients, starts, the order of work.

A head keeps the coefficients that it trains together in a state of its own (`SgdState`). Its first
layer never leaves the span of the start and the support rows, W = s W_0 + X'A, so that the state
holds A (N, columns) instead of W.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from firthshot.engine._kernels.momentum import Schedule
from firthshot.engine._queries import round_up
from firthshot.engine._trial import Fitted, Trial, pad_columns
from firthshot.engine.options import Sgd
from firthshot.kernels.streams import START, fill_uniform
from firthshot.kernels.vectors import lanes_of
from firthshot.objective import PenaltyTables

Array = npt.NDArray[Any]

# The coefficients and their velocities of one group should stay in a core's second-level cache.
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


State = TypeVar("State", bound=SgdState)


def train_groups(
    groups: list[slice],
    form: PenaltyTables,
    sgd: Sgd,
    begin: Callable[[PenaltyTables], State],
    finish: Callable[[State], Fitted],
) -> dict[int, Fitted]:
    """Train group after group, and return what to score by number of passes.

    Parameters
    ----------
    groups : of the coefficients of the form
    begin : make the state of a group from its part of the form
    finish : form logits, norms and weights of a state that may train on
    """
    parts: dict[int, list[Fitted]] = {}
    for group in groups:
        state, done = begin(form.take(group)), 0
        for passes in sorted({*sgd.score_after, sgd.epochs}):
            state.train(done, passes)
            done = passes
            parts.setdefault(passes, []).append(finish(state))
    return {passes: _join(fitted) for passes, fitted in parts.items()}


def _join(parts: list[Fitted]) -> Fitted:
    """Put the coefficients of several groups side by side."""
    if len(parts) == 1:
        return parts[0]
    names = parts[0].weights
    return Fitted(
        np.concatenate([part.logits for part in parts], axis=1),
        np.concatenate([part.norms for part in parts]),
        {name: np.concatenate([part.weights[name] for part in parts]) for name in names},
    )


def must_decay(form: PenaltyTables, sgd: Sgd) -> bool:
    """Say whether velocities must be updated one by one, or may drift (:mod:`._kernels.drift`).

    Drifting velocities are divided by powers of the momentum, which should not be too small.
    """
    return form.decays or sgd.momentum < 0.5


def schedule_of(trial: Trial, sgd: Sgd, form: PenaltyTables) -> Schedule:
    """Return the published SGD of a trial as the kernels read it."""
    number = trial.dtype.type
    return Schedule(
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


def draw_start(trial: Trial, layer: int, rows: int, columns: int, bound: float) -> Array:
    """Draw the start of a layer, uniform ± bound, from the trial's stream."""
    weights = np.empty((rows, columns), trial.dtype)
    fill_uniform(np.uint64(trial.key), layer, trial.number, START, bound, weights.ravel())
    return weights


def xavier_uniform(trial: Trial, layer: int, rows: int, columns: int) -> Array:
    """Draw the start of a layer, uniform ± √(6 / (rows + columns))."""
    return draw_start(trial, layer, rows, columns, np.sqrt(6 / (rows + columns)))


class KernelForm(NamedTuple):
    """The numbers of a :class:`PenaltyTables` laid out as the kernels read them."""

    probability: Array
    target: Array
    label: Array
    confidence: Array
    scratch: Array

    @classmethod
    def lay_out(cls, form: PenaltyTables, batch: int, dtype: np.dtype[Any]) -> KernelForm:
        """Tile the per-coefficient numbers over the rows of a batch, padded to whole vectors."""
        lanes = lanes_of(dtype)
        n_classes, n_coefficients = form.target.shape
        tall = round_up(batch * n_coefficients, lanes) + lanes

        def tile(values: Array) -> Array:
            return pad_columns(np.tile(values, batch).astype(dtype), tall)

        used = (n_classes, tall) if form.confidence.any() else (0, 0)
        return cls(
            tile(form.probability),
            tile(form.target),
            form.label.astype(dtype),
            tile(form.confidence),
            np.zeros(used, dtype),
        )


def squared_norms(a: Array, s: Array, gram: Array, z0: Array, start: Array) -> Array:
    """Return ‖w‖² = s²‖w_0‖² + 2 s a'X w_0 + a'K a of every column."""
    each = a.shape[1] // start.shape[1]
    crossed = (a * np.repeat(z0, each, axis=1)).sum(0)
    squares = s**2 * np.repeat((start**2).sum(0), each) + 2 * s * crossed + (a * (gram @ a)).sum(0)
    return np.asarray(squares)


def full_weights(a: Array, s: Array, support: Array, start: Array) -> Array:
    """Return W = s W_0 + X'A of every coefficient and class, shape (L, C, d)."""
    each = a.shape[1] // start.shape[1]
    weights = s * np.repeat(start, each, axis=1) + support.T @ a
    return np.asarray(weights.T.reshape(start.shape[1], each, -1).transpose(1, 0, 2))
