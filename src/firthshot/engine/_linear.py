"""The linear head under the published SGD: prepare a trial, run the kernel, form query logits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._form import GradientForm
from firthshot.engine._kernels.linear import settle, train_linear
from firthshot.engine._kernels.simd import lanes_of
from firthshot.engine._queries import Projector, round_up
from firthshot.engine._trial import Fitted, Trial, pad_columns
from firthshot.engine.options import Linear, Sgd
from firthshot.streams import START, fill_uniform

Array = npt.NDArray[Any]

# The coefficients and their velocities of one group should stay in a core's second-level cache.
_GROUP_BYTES = 640 * 1024


def coefficient_groups(n_coefficients: int, bytes_each: int) -> list[slice]:
    """Divide the coefficients into groups whose state fits the cache; no result depends on it."""
    size = max(1, min(n_coefficients, _GROUP_BYTES // max(1, bytes_each)))
    groups = -(-n_coefficients // size)
    edges = np.linspace(0, n_coefficients, groups + 1).astype(int)
    return [slice(low, high) for low, high in pairwise(edges)]


def must_decay(form: GradientForm, sgd: Sgd) -> bool:
    """Say whether velocities must be updated one by one, or may drift (:mod:`._kernels.drift`).

    Drifting velocities are divided by powers of the momentum, which should not be too small.
    """
    return form.decays or sgd.momentum < 0.5


def xavier_uniform(trial: Trial, layer: int, rows: int, columns: int) -> Array:
    """Draw the start of a layer, uniform ± √(6 / (rows + columns)), from the trial's stream."""
    weights = np.empty((rows, columns), trial.dtype)
    bound = np.sqrt(6 / (rows + columns))
    fill_uniform(np.uint64(trial.key), layer, trial.number, START, bound, weights.ravel())
    return weights


@dataclass(frozen=True)
class KernelForm:
    """The numbers of a :class:`GradientForm` laid out as the kernels read them."""

    probability: Array
    target: Array
    label: Array
    confidence: Array
    scratch: Array

    @classmethod
    def lay_out(cls, form: GradientForm, batch: int, dtype: np.dtype[Any]) -> KernelForm:
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


class LinearSgd:
    """State of all coefficients of one group during training."""

    def __init__(self, trial: Trial, sgd: Sgd, form: GradientForm, gram: Array, z0: Array) -> None:
        self.trial, self.sgd, self.form = trial, sgd, form
        self.n_coefficients = len(form.label)
        self.decays = must_decay(form, sgd)
        dtype, lanes = trial.dtype, lanes_of(trial.dtype)
        self.used = trial.n_classes * self.n_coefficients
        columns = round_up(self.used, lanes)
        self.gram, self.z0 = gram, pad_columns(np.repeat(z0, self.n_coefficients, axis=1), columns)
        self.kernel_form = KernelForm.lay_out(form, sgd.batch_size, dtype)
        self.weight_decay = self._per_column(form.weight_decay, columns)
        self.bias_decay = self._per_column(form.bias_decay, columns)
        self.a, self.e = (np.zeros((columns // lanes, len(gram), lanes), dtype) for _ in range(2))
        self.bias, self.bias_e, self.s_e = (np.zeros(columns, dtype) for _ in range(3))
        self.s, self.clock = np.ones(columns, dtype), np.array([0.0, 1.0, 1.0])

    def _per_column(self, values: Array, columns: int) -> Array:
        return pad_columns(np.tile(values, self.trial.n_classes).astype(self.trial.dtype), columns)

    def train(self, first: int, last: int) -> None:
        """Run the passes first … last - 1."""
        trial, sgd, form, number = self.trial, self.sgd, self.kernel_form, self.trial.dtype.type
        train_linear(
            self.gram, self.z0, trial.labels, trial.n_classes, self.n_coefficients,
            form.probability, form.target, form.label, form.confidence, form.scratch,
            self.decays, self.weight_decay, self.bias_decay,
            self.form.decay_with_batch and sgd.scale_partial,
            np.uint64(trial.key), trial.number, sgd.shuffle, sgd.batch_size, first, last,
            number(sgd.learning_rate), number(sgd.momentum), sgd.dampening, sgd.scale_partial,
            self.a, self.e, self.bias, self.bias_e, self.s, self.s_e, self.clock,
        )  # fmt: skip

    def settled(self) -> tuple[Array, Array, Array]:
        """Return coefficients (N, C·L), bias (C·L,) and s (C·L,) after the pending step."""
        share, factor = self.clock[0], self.clock[2]  # the factor is 1 where anything decays
        eta, used = self.trial.dtype.type(factor * self.sgd.learning_rate), self.used
        a = settle(self.a, self.e, self.weight_decay, share, eta)[:, :used]
        bias = self.bias - eta * (self.bias_e + share * self.bias_decay * self.bias)
        s = self.s - eta * (self.s_e + share * self.weight_decay * self.s)
        return a, bias[:used].astype(a.dtype), s[:used].astype(a.dtype)


def fit_linear(
    trial: Trial, head: Linear, sgd: Sgd, form: GradientForm, keep_weights: bool
) -> dict[int, Fitted]:
    """Train the linear head; return what to score by number of passes."""
    n, d = trial.support.shape
    if head.start == "zero":
        start = np.zeros((d, trial.n_classes), trial.dtype)
    else:
        start = xavier_uniform(trial, 0, d, trial.n_classes)
    projector = Projector(trial.query, trial.support, start, len(form.label))
    gram, z0 = trial.support @ trial.support.T, trial.support @ start
    parts: dict[int, list[Fitted]] = {}
    state_bytes = 2 * n * trial.n_classes * trial.dtype.itemsize
    for group in coefficient_groups(len(form.label), state_bytes):
        state, done = LinearSgd(trial, sgd, form.take(group), gram, z0), 0
        for passes in sorted({*sgd.score_after, sgd.epochs}):
            state.train(done, passes)
            done = passes
            fitted = _finish(trial, state, z0, start, projector, keep_weights)
            parts.setdefault(passes, []).append(fitted)
    return {passes: join(fitted) for passes, fitted in parts.items()}


def _finish(
    trial: Trial,
    state: LinearSgd,
    z0: Array,
    start: Array,
    projector: Projector,
    keep_weights: bool,
) -> Fitted:
    """Form query logits, the squared norms and, if asked for, the weights."""
    a, bias, s = state.settled()
    shape = (trial.n_classes, state.n_coefficients)
    squares = squared_norms(a, s, state.gram, z0, start) + bias**2
    weights = {}
    if keep_weights:
        coef = full_weights(a, s, trial.support, start)
        weights = {"coef": coef, "intercept": bias.reshape(shape).T}
    logits = projector.logits(a, s, bias).reshape(*shape, -1)
    return Fitted(logits, squares.reshape(shape).sum(0), weights)


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


def join(parts: list[Fitted]) -> Fitted:
    """Put the coefficients of several groups side by side."""
    if len(parts) == 1:
        return parts[0]
    names = parts[0].weights
    return Fitted(
        np.concatenate([part.logits for part in parts], axis=1),
        np.concatenate([part.norms for part in parts]),
        {name: np.concatenate([part.weights[name] for part in parts]) for name in names},
    )
