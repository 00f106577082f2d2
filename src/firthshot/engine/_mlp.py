"""The 3-layer head under the published SGD: prepare a trial, run the kernel, form query logits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._kernels.dense import OCTET
from firthshot.engine._kernels.mlp import Small, Work, train_mlp
from firthshot.engine._kernels.momentum import Layer, settle
from firthshot.engine._queries import round_up
from firthshot.engine._sgd import (
    KernelForm,
    even_groups,
    full_weights,
    must_decay,
    schedule_of,
    squared_norms,
    train_groups,
    xavier_uniform,
)
from firthshot.engine._trial import Fitted, Trial
from firthshot.engine.options import Mlp, Sgd
from firthshot.kernels.vectors import VECTOR_BYTES, lanes_of
from firthshot.objective import PenaltyTables

Array = npt.NDArray[Any]


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
    """State of up to eight coefficients of a trial during training."""

    def __init__(
        self, trial: Trial, head: Mlp, sgd: Sgd, form: PenaltyTables, start: Start, decays: bool
    ) -> None:
        self.trial, self.sgd, self.form, self.decays = trial, sgd, form, decays
        self.hidden, self.gram, self.z0 = head.hidden, start.gram, start.z0
        self.n_coefficients, dtype, lanes = len(form.label), trial.dtype, lanes_of(trial.dtype)
        self.used = head.hidden[0] * self.n_coefficients
        columns = round_up(self.used, lanes)
        self.a, self.e = (
            aligned_zeros((columns // lanes, len(self.gram), lanes), dtype) for _ in range(2)
        )
        per_column = (aligned_zeros(columns + lanes, dtype) for _ in range(6))
        self.s, self.s_e, self.bias, self.bias_e, self.weight_decay, self.bias_decay = per_column
        self.s[:] = 1
        self.weight_decay[: self.used] = np.tile(form.weight_decay, head.hidden[0])
        self.bias_decay[: self.used] = np.tile(form.bias_decay, head.hidden[0])
        octet = _pad(form)
        self.kernel_form = KernelForm.lay_out(octet, sgd.batch_size, dtype)
        self.small = _lay_out_small(start, octet)
        self.work = _make_work(self.kernel_form.target.shape, head, sgd, columns, dtype)
        self.clock = np.array([0.0, 1.0, 1.0])

    def train(self, first: int, last: int) -> None:
        """Run the passes first … last - 1."""
        layer = Layer(
            self.a, self.e, self.bias, self.bias_e, self.s, self.s_e,
            self.weight_decay, self.bias_decay,
        )  # fmt: skip
        train_mlp(
            self.gram, self.z0, self.trial.labels, self.n_coefficients, self.kernel_form,
            self.decays, layer, self.small, schedule_of(self.trial, self.sgd, self.form),
            self.clock, self.work, first, last,
        )  # fmt: skip

    def settled(self) -> list[Settled]:
        """Return every coefficient's parameters after the pending step of the first layer."""
        number, (first, second), size = self.trial.dtype.type, self.hidden, self.n_coefficients
        share, eta = number(self.clock[0]), number(self.sgd.learning_rate * self.clock[2])
        a = settle(self.a, self.e, self.weight_decay, self.clock[0], eta)
        bias = self.bias - eta * (self.bias_e + share * self.bias_decay * self.bias)
        s = self.s - eta * (self.s_e + share * self.weight_decay * self.s)
        w2 = self.small.w2.reshape(first + 1, second, OCTET)
        w3 = self.small.w3.reshape(second + 1, -1, OCTET)
        parameters = []
        for l in range(size):
            mine = slice(l, self.used, size)
            arrays = (s[mine], a[:, mine], bias[mine], w2[:-1, :, l], w2[-1, :, l], w3[:-1, :, l],
                      w3[-1, :, l])  # fmt: skip
            # Contiguous, because BLAS would copy them in every product.
            parameters.append(Settled(*[np.ascontiguousarray(values) for values in arrays]))
        return parameters


def _pad(form: PenaltyTables) -> PenaltyTables:
    """Append coefficients of no consequence until there are eight."""
    part: Any = np.arange(OCTET) % len(form.label)
    return form.take(part)


def _lay_out_small(start: Start, octet: PenaltyTables) -> Small:
    """Put eight copies of W_2 and W_3 side by side, each with its bias as the last input."""
    dtype, layers = start.gram.dtype, []
    for weights in start.weights[1:]:
        inputs, outputs = weights.shape
        w, v = (aligned_zeros((inputs + 1, outputs, OCTET), dtype) for _ in range(2))
        w[:-1] = weights[:, :, None]
        decay = aligned_zeros((inputs + 1, OCTET), dtype)
        decay[:-1], decay[-1] = octet.weight_decay, octet.bias_decay
        layers += [w.ravel(), v.ravel(), decay.ravel()]
    return Small(*layers)


def _make_work(
    logits: tuple[int, ...], head: Mlp, sgd: Sgd, columns: int, dtype: np.dtype[Any]
) -> Work:
    shapes = [(sgd.batch_size, width + 1, OCTET) for width in head.hidden]
    hidden_1, hidden_2, gradient_1, gradient_2 = (
        aligned_zeros(shape, dtype) for shape in (*shapes, *shapes)
    )
    hidden_1[:, -1], hidden_2[:, -1] = 1, 1
    return Work(
        aligned_zeros((sgd.batch_size, columns + lanes_of(dtype)), dtype),
        hidden_1.ravel(), hidden_2.ravel(), gradient_2.ravel(), gradient_1.ravel(),
        aligned_zeros(logits, dtype),
    )  # fmt: skip


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
    trial: Trial, head: Mlp, sgd: Sgd, form: PenaltyTables, keep_weights: bool
) -> dict[int, Fitted]:
    """Train the 3-layer head; return what to score by number of passes."""
    start = Start.draw(trial, head, len(form.label))
    # Asked of all coefficients, so that rounding does not depend on how they are grouped.
    decays = must_decay(form, sgd)
    return train_groups(
        even_groups(len(form.label), OCTET),
        form,
        sgd,
        lambda part: MlpSgd(trial, head, sgd, part, start, decays),
        lambda state: _finish(trial, state, start, keep_weights),
    )


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
