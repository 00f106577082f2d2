"""The 3-layer head under the published SGD: prepare a trial, run the kernel, form query logits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._form import GradientForm
from firthshot.engine._kernels.linear import settle
from firthshot.engine._kernels.mlp import Sizes, Small, Work, train_mlp
from firthshot.engine._kernels.simd import VECTOR_BYTES, lanes_of
from firthshot.engine._linear import (
    KernelForm,
    coefficient_groups,
    full_weights,
    join,
    squared_norms,
    xavier_uniform,
)
from firthshot.engine._queries import round_up
from firthshot.engine._trial import Fitted, Trial
from firthshot.engine.options import Mlp, Sgd

Array = npt.NDArray[Any]

# Drifting velocities share a factor that momentum multiplies: it must not vanish in a few steps.
_LEAST_DRIFT = 0.5


@dataclass(frozen=True)
class Start:
    """The start of a trial, shared by its coefficients, and the products that all of them need."""

    weights: tuple[Array, Array, Array]  # (d, h0), (h0, h1), (h1, C)
    gram: Array  # (N, N)
    z0: Array  # (N, h0), support rows times the first layer
    query_gram: Array | None  # (Q + padding, N), None where the way through weights is shorter
    query_z0: Array | None  # (Q + padding, h0)

    @classmethod
    def draw(cls, trial: Trial, head: Mlp, n_coefficients: int) -> Start:
        """Draw the weights from the trial's stream, one substream per layer."""
        (n, d), q, support = trial.support.shape, len(trial.query), trial.support
        widths = (d, *head.hidden, trial.n_classes)
        shapes = enumerate(pairwise(widths))
        first, second, third = (xavier_uniform(trial, layer, *shape) for layer, shape in shapes)
        weights, gram, z0 = (first, second, third), support @ support.T, support @ first
        columns = head.hidden[0] * n_coefficients
        if q * (n * (d + columns) + d * head.hidden[0]) > columns * d * (n + q):
            return cls(weights, gram, z0, None, None)
        both = trial.query.times(np.concatenate([support.T, first], axis=1))
        query_gram, query_z0 = np.ascontiguousarray(both[:, :n]), np.ascontiguousarray(both[:, n:])
        return cls(weights, gram, z0, query_gram, query_z0)


def aligned_zeros(shape: tuple[int, ...] | int, dtype: np.dtype[Any]) -> Array:
    """Return zeros that begin at a cache line: a vector across two of them costs double."""
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.zeros(size + VECTOR_BYTES, np.uint8)
    first = -memory.ctypes.data % VECTOR_BYTES
    return memory[first : first + size].view(dtype).reshape(shape)


class MlpSgd:
    """State of all coefficients of one group during training."""

    def __init__(
        self, trial: Trial, head: Mlp, sgd: Sgd, form: GradientForm, start: Start, decays: bool
    ) -> None:
        self.trial, self.sgd, self.form, self.gram = trial, sgd, form, start.gram
        self.decays, self.sizes = decays, _sizes(trial, head, sgd.batch_size)
        self.n_coefficients, dtype, lanes = len(form.label), trial.dtype, lanes_of(trial.dtype)
        columns = round_up(self.n_coefficients * self.sizes.width, lanes)
        self.z0 = aligned_zeros((len(self.gram), self.sizes.span), dtype)
        self.z0[:, : self.sizes.hidden_1] = start.z0
        self.a, self.e = (
            aligned_zeros((columns // lanes, len(self.gram), lanes), dtype) for _ in range(2)
        )
        per_column = (aligned_zeros(columns + lanes, dtype) for _ in range(6))
        self.s, self.s_e, self.bias, self.bias_e, self.weight_decay, self.bias_decay = per_column
        self.s[:] = 1
        for l in range(self.n_coefficients):
            self.weight_decay[self._columns(l)] = form.weight_decay[l]
            self.bias_decay[self._columns(l)] = form.bias_decay[l]
        self.kernel_form = _forms(form, sgd.batch_size, dtype)
        self.small = _lay_out_small(start, form, self.sizes)
        self.work = _make_work(self.sizes, columns, dtype)
        self.clock = np.array([0.0, 1.0, 1.0])

    def _columns(self, l: int) -> slice:
        """Return the columns of a coefficient's units in the first layer."""
        return slice(l * self.sizes.width, l * self.sizes.width + self.sizes.hidden_1)

    def train(self, first: int, last: int) -> None:
        """Run the passes first … last - 1."""
        trial, sgd, form, number = self.trial, self.sgd, self.kernel_form, self.trial.dtype.type
        train_mlp(
            self.gram, self.z0, trial.labels, self.sizes,
            form.probability, form.target, form.label, form.confidence, form.scratch,
            self.decays, self.weight_decay, self.bias_decay,
            self.form.decay_with_batch and sgd.scale_partial,
            np.uint64(trial.key), trial.number, sgd.shuffle, sgd.batch_size, first, last,
            number(sgd.learning_rate), number(sgd.momentum),
            sgd.dampening if sgd.momentum else 0.0, sgd.scale_partial,
            self.a, self.e, self.bias, self.bias_e, self.s, self.s_e,
            self.small, self.clock, self.work,
        )  # fmt: skip

    def settled(self) -> list[Settled]:
        """Return every coefficient's parameters after the pending step of the first layer."""
        share, number = self.clock[0], self.trial.dtype.type
        eta = number(self.sgd.learning_rate * self.clock[2])
        a = settle(self.a, self.e, self.weight_decay, share, eta)
        bias = self.bias - eta * (self.bias_e + number(share) * self.bias_decay * self.bias)
        s = self.s - eta * (self.s_e + number(share) * self.weight_decay * self.s)
        sizes, parameters = self.sizes, []
        w2 = self.small.w2.reshape(-1, sizes.hidden_2, sizes.span)[..., : sizes.hidden_1 + 1]
        w3 = self.small.w3.reshape(-1, sizes.hidden_2 + 1, sizes.classes)[..., : sizes.n_classes]
        for l, (second, third) in enumerate(zip(w2, w3, strict=True)):
            mine = self._columns(l)
            above = (second[:, :-1].T, second[:, -1], third[:-1], third[-1])
            parameters.append(Settled(s[mine], a[:, mine], bias[mine], *above))
        return parameters


def _sizes(trial: Trial, head: Mlp, batch: int) -> Sizes:
    (first, second), lanes = head.hidden, lanes_of(trial.dtype)
    # One more input than units: the constant one, whose weights are the biases above.
    width, span = round_up(first + 1, lanes // 2), round_up(first + 1, lanes)
    classes, tall = round_up(trial.n_classes, lanes), round_up(batch, lanes)
    return Sizes(first, second, trial.n_classes, width, span, classes, tall)


def _lay_out_small(start: Start, form: GradientForm, sizes: Sizes) -> Small:
    """Lay out W_2 as (L, out, in) and W_3 as (L, in, out), the last input of each its bias."""
    (_, second, third), dtype, size = start.weights, start.gram.dtype, len(form.label)
    w2, v2 = (aligned_zeros((size, sizes.hidden_2, sizes.span), dtype) for _ in range(2))
    w2[:, :, : sizes.hidden_1] = second.T
    decay_2 = aligned_zeros((size, sizes.span), dtype)
    decay_2[:, : sizes.hidden_1] = form.weight_decay[:, None]
    decay_2[:, sizes.hidden_1] = form.bias_decay
    shape = (size, sizes.hidden_2 + 1, sizes.classes)
    w3, v3, decay_3 = (aligned_zeros(shape, dtype) for _ in range(3))
    w3[:, :-1, : sizes.n_classes] = third
    decay_3[:, :-1] = form.weight_decay[:, None, None]
    decay_3[:, -1] = form.bias_decay[:, None]
    return Small(*(values.ravel() for values in (w2, v2, decay_2, w3, v3, decay_3)))


def _make_work(sizes: Sizes, columns: int, dtype: np.dtype[Any]) -> Work:
    tall, lanes = sizes.tall, lanes_of(dtype)
    z, hidden = (aligned_zeros((tall, columns + lanes), dtype) for _ in range(2))
    hidden_2 = aligned_zeros((sizes.hidden_2 + 1, tall), dtype)
    hidden_2[-1] = 1
    logits = aligned_zeros((sizes.classes, tall + lanes), dtype)
    lengths = (tall * sizes.classes, sizes.hidden_2 * tall, tall * sizes.span)
    return Work(
        z, hidden, aligned_zeros(sizes.span * tall, dtype), hidden_2.ravel(),
        logits[: sizes.n_classes], logits.ravel(),
        *(aligned_zeros(length, dtype) for length in lengths),
    )  # fmt: skip


def _forms(form: GradientForm, batch: int, dtype: np.dtype[Any]) -> KernelForm:
    """Lay out the form of each coefficient by itself, stacked on a leading axis."""
    parts = [
        KernelForm.lay_out(form.take(slice(l, l + 1)), batch, dtype) for l in range(len(form.label))
    ]
    largest = max((part.scratch for part in parts), key=np.size)
    stacked = [
        np.stack([getattr(part, name) for part in parts])
        for name in ("probability", "target", "label", "confidence")
    ]
    return KernelForm(stacked[0], stacked[1], stacked[2], stacked[3], largest)


@dataclass(frozen=True)
class Settled:
    """Parameters of one coefficient; the first layer's weights are W_0 s + X' a."""

    s: Array  # (h0,), all alike
    a: Array  # (N, h0)
    bias_1: Array
    weights_2: Array  # (h0, h1)
    bias_2: Array
    weights_3: Array  # (h1, C)
    bias_3: Array

    def query_logits(self, trial: Trial, start: Start) -> Array:
        """Return the logits of the query set, (Q + padding, C)."""
        if start.query_gram is None or start.query_z0 is None:
            hidden = trial.query.times(start.weights[0] * self.s + trial.support.T @ self.a)
            hidden += self.bias_1
        else:
            hidden = start.query_gram @ self.a
            hidden += start.query_z0 * self.s + self.bias_1
        hidden = np.maximum(hidden, 0, out=hidden) @ self.weights_2
        hidden += self.bias_2
        return np.asarray(np.maximum(hidden, 0, out=hidden) @ self.weights_3 + self.bias_3)

    def squared_norm(self, start: Start) -> Any:
        """Return the sum of squares of all parameters."""
        first = squared_norms(self.a, self.s, start.gram, start.z0, start.weights[0]).sum()
        others = (self.bias_1, self.weights_2, self.bias_2, self.weights_3, self.bias_3)
        return first + sum((values**2).sum() for values in others)

    def full(self, trial: Trial, start: Start) -> dict[str, Array]:
        """Return weights as (out, in) and biases of the three layers."""
        first = full_weights(self.a, self.s, trial.support, start.weights[0])[0]
        return {
            "coef_1": first, "intercept_1": self.bias_1,
            "coef_2": self.weights_2.T, "intercept_2": self.bias_2,
            "coef_3": self.weights_3.T, "intercept_3": self.bias_3,
        }  # fmt: skip


def fit_mlp(
    trial: Trial, head: Mlp, sgd: Sgd, form: GradientForm, keep_weights: bool
) -> dict[int, Fitted]:
    """Train the 3-layer head; return what to score by number of passes."""
    start = Start.draw(trial, head, len(form.label))
    # Asked of all coefficients, so that rounding does not depend on how they are grouped.
    decays = bool(form.weight_decay.any() or form.bias_decay.any() or sgd.momentum < _LEAST_DRIFT)
    parts: dict[int, list[Fitted]] = {}
    for group in coefficient_groups(len(form.label), _state_bytes(trial, head)):
        state, done = MlpSgd(trial, head, sgd, form.take(group), start, decays), 0
        for passes in sorted({*sgd.score_after, sgd.epochs}):
            state.train(done, passes)
            done = passes
            parts.setdefault(passes, []).append(_finish(trial, state, start, keep_weights))
    return {passes: join(fitted) for passes, fitted in parts.items()}


def _state_bytes(trial: Trial, head: Mlp) -> int:
    """Return half the bytes that a step of one coefficient goes through.

    Half, because a few coefficients side by side are worth more than a state that wholly fits the
    second-level cache: their columns share vectors, and the sweep reads memory in order.
    """
    first, second = head.hidden
    parameters = len(trial.support) * first + first * second + second * trial.n_classes
    return parameters * trial.dtype.itemsize


def _finish(trial: Trial, state: MlpSgd, start: Start, keep_weights: bool) -> Fitted:
    """Form query logits, squared norms and, if asked for, the weights."""
    # A coefficient that diverged overflows here; its status will say so.
    with np.errstate(over="ignore", invalid="ignore"):
        settled = state.settled()
        logits = np.stack([each.query_logits(trial, start) for each in settled])
        norms = np.array([each.squared_norm(start) for each in settled])
        weights: dict[str, Array] = {}
        if keep_weights:
            full = [each.full(trial, start) for each in settled]
            weights = {name: np.stack([each[name] for each in full]) for name in full[0]}
    return Fitted(np.ascontiguousarray(logits.transpose(2, 0, 1)), norms, weights)
