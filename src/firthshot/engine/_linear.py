"""The linear head under the published SGD: prepare a trial, run the kernel, form query logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._form import GradientForm
from firthshot.engine._kernels.linear import settle, train_linear
from firthshot.engine._kernels.simd import lanes_of
from firthshot.engine._trial import Fitted, Trial, pad_columns, products, round_up
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
    return [slice(low, high) for low, high in zip(edges[:-1], edges[1:], strict=True)]


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
        dtype, lanes = trial.dtype, lanes_of(trial.dtype)
        self.used = trial.n_classes * self.n_coefficients
        columns = round_up(self.used, lanes)
        self.gram, self.z0 = gram, pad_columns(np.repeat(z0, self.n_coefficients, axis=1), columns)
        self.kernel_form = KernelForm.lay_out(form, sgd.batch_size, dtype)
        self.weight_decay = self._per_column(form.weight_decay, columns)
        self.bias_decay = self._per_column(form.bias_decay, columns)
        self.a, self.e = (np.zeros((columns // lanes, len(gram), lanes), dtype) for _ in range(2))
        self.bias, self.bias_e, self.s_e = (np.zeros(columns, dtype) for _ in range(3))
        self.s, self.clock = np.ones(columns, dtype), np.array([0.0, 1.0])

    def _per_column(self, values: Array, columns: int) -> Array:
        return pad_columns(np.tile(values, self.trial.n_classes).astype(self.trial.dtype), columns)

    def train(self, first: int, last: int) -> None:
        """Run the passes first … last - 1."""
        trial, sgd, form, number = self.trial, self.sgd, self.kernel_form, self.trial.dtype.type
        train_linear(
            self.gram, self.z0, trial.labels, trial.n_classes, self.n_coefficients,
            form.probability, form.target, form.label, form.confidence, form.scratch,
            self.weight_decay, self.bias_decay, self.form.decay_with_batch and sgd.scale_partial,
            np.uint64(trial.key), trial.number, sgd.shuffle, sgd.batch_size, first, last,
            number(sgd.learning_rate), number(sgd.momentum), sgd.dampening, sgd.scale_partial,
            self.a, self.e, self.bias, self.bias_e, self.s, self.s_e, self.clock,
        )  # fmt: skip

    def settled(self) -> tuple[Array, Array, Array]:
        """Return coefficients (N, C·L), bias (C·L,) and s (C·L,) after the pending step."""
        eta, share, used = self.trial.dtype.type(self.sgd.learning_rate), self.clock[0], self.used
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
    near, far = products(trial, np.concatenate([trial.support.T, start], axis=1))
    gram, z0 = np.ascontiguousarray(near[:, :n]), near[:, n:]
    query_gram, query_z0 = far[:, :n], far[:, n:]
    parts: dict[int, list[Fitted]] = {}
    state_bytes = 2 * n * trial.n_classes * trial.dtype.itemsize
    for group in coefficient_groups(len(form.label), state_bytes):
        state, done = LinearSgd(trial, sgd, form.take(group), gram, z0), 0
        for passes in sorted({*sgd.score_after, sgd.epochs}):
            state.train(done, passes)
            done = passes
            fitted = _finish(trial, state, gram, z0, start, query_gram, query_z0, keep_weights)
            parts.setdefault(passes, []).append(fitted)
    return {passes: join(fitted) for passes, fitted in parts.items()}


def _finish(
    trial: Trial,
    state: LinearSgd,
    gram: Array,
    z0: Array,
    start: Array,
    query_gram: Array,
    query_z0: Array,
    keep_weights: bool,
) -> Fitted:
    """Form query logits s Z_0 + K_q A + b, the squared norms and, if asked for, the weights."""
    a, bias, s = state.settled()
    shape = (trial.n_classes, state.n_coefficients)
    logits = (a.T @ query_gram.T).reshape(*shape, -1)
    logits += s.reshape(*shape, 1) * query_z0.T[:, None, :]
    logits += bias.reshape(*shape, 1)
    # ‖W‖² = s²‖W_0‖² + 2 s tr(A'Z_0) + tr(A'KA), class by class because s may differ.
    repeated = np.repeat(z0, state.n_coefficients, axis=1)
    per_column = s**2 * np.repeat((start**2).sum(0), state.n_coefficients)
    per_column += 2 * s * (a * repeated).sum(0) + (a * (gram @ a)).sum(0) + bias**2
    weights = {}
    if keep_weights:
        full = s.reshape(*shape)[:, :, None] * start.T[:, None, :] + (a.T @ trial.support).reshape(
            *shape, -1
        )
        weights = {"coef": full.transpose(1, 0, 2), "intercept": bias.reshape(shape).T}
    return Fitted(logits, per_column.reshape(shape).sum(0), weights)


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
