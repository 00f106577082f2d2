"""The 3-layer head under the published SGD: prepare a trial, run the kernel, form query logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._form import GradientForm
from firthshot.engine._kernels.linear import settle
from firthshot.engine._kernels.mlp import train_mlp
from firthshot.engine._kernels.simd import lanes_of
from firthshot.engine._linear import (
    KernelForm,
    coefficient_groups,
    full_weights,
    join,
    squared_norms,
    xavier_uniform,
)
from firthshot.engine._queries import Projector, round_up
from firthshot.engine._trial import Fitted, Trial, pad_columns
from firthshot.engine.options import Mlp, Sgd

Array = npt.NDArray[Any]

# Drifting velocities share a factor that momentum multiplies: it must not vanish in a few steps.
_LEAST_DRIFT = 0.5


@dataclass(frozen=True)
class Start:
    """The start of a trial, shared by its coefficients, and the products that training needs."""

    weights: tuple[Array, Array, Array]  # (d, h0), (h0, h1), (h1, C)
    gram: Array  # (N, N)
    z0: Array  # (N, h0), support rows times the first layer
    projector: Projector

    @classmethod
    def draw(cls, trial: Trial, head: Mlp, n_coefficients: int) -> Start:
        """Draw the weights from the trial's stream, one substream per layer."""
        support = trial.support
        widths = (support.shape[1], *head.hidden, trial.n_classes)
        shapes = enumerate(zip(widths[:-1], widths[1:], strict=True))
        first, second, third = (xavier_uniform(trial, layer, *shape) for layer, shape in shapes)
        projector = Projector(trial.query, support, first, n_coefficients)
        return cls((first, second, third), support @ support.T, support @ first, projector)


class MlpSgd:
    """State of all coefficients of one group during training."""

    def __init__(
        self, trial: Trial, head: Mlp, sgd: Sgd, form: GradientForm, start: Start, decays: bool
    ) -> None:
        self.trial, self.sgd, self.form, self.decays = trial, sgd, form, decays
        self.hidden, self.gram = head.hidden, start.gram
        self.n_coefficients = size = len(form.label)
        self.kernel_form = _forms(form, sgd.batch_size, trial.dtype)
        dtype, lanes = trial.dtype, lanes_of(trial.dtype)
        # One more input than units: the constant one, whose weights are the biases above.
        self.width, span = (round_up(head.hidden[0] + 1, unit) for unit in (lanes // 2, lanes))
        self.z0 = pad_columns(start.z0, span)
        columns = round_up(size * self.width, lanes)
        self.a, self.e = (np.zeros((columns // lanes, len(self.gram), lanes), dtype) for _ in "ae")
        self.bias, self.bias_e, self.s_e = (np.zeros(columns + lanes, dtype) for _ in range(3))
        self.s, self.clock = np.ones(columns + lanes, dtype), np.array([0.0, 1.0, 1.0])
        self.w2, self.w3 = _lay_out_small(start, size, span, lanes)
        self.v2, self.v3 = np.zeros_like(self.w2), np.zeros_like(self.w3)
        self._lay_out_decay()

    def _lay_out_decay(self) -> None:
        """Give every parameter its decay, laid out like the parameters."""
        weight, bias = (
            values.astype(self.trial.dtype)[:, None]
            for values in (self.form.weight_decay, self.form.bias_decay)
        )
        self.weight_decay, self.bias_decay = (self._per_column(values) for values in (weight, bias))
        self.decay_2, self.decay_3 = np.zeros_like(self.w2[:, 0]), np.zeros_like(self.w3)
        self.decay_2[:], self.decay_2[:, self.hidden[0]] = weight, bias[:, 0]
        self.decay_3[:, :-1], self.decay_3[:, -1] = weight[:, None], bias

    def _per_column(self, values: Array) -> Array:
        """Repeat a number per coefficient over the columns of the first layer."""
        return pad_columns(np.repeat(values, self.width, axis=1).ravel(), self.bias.size)

    def train(self, first: int, last: int) -> None:
        """Run the passes first … last - 1."""
        trial, sgd, form, number = self.trial, self.sgd, self.kernel_form, self.trial.dtype.type
        train_mlp(
            self.gram, self.z0, trial.labels, self.hidden, self.width,
            form.probability, form.target, form.label, form.confidence, form.scratch,
            self.decays, self.weight_decay, self.bias_decay, self.decay_2, self.decay_3,
            self.form.decay_with_batch and sgd.scale_partial,
            np.uint64(trial.key), trial.number, sgd.shuffle, sgd.batch_size, first, last,
            number(sgd.learning_rate), number(sgd.momentum),
            sgd.dampening if sgd.momentum else 0.0, sgd.scale_partial,
            self.a, self.e, self.bias, self.bias_e, self.s, self.s_e,
            self.w2, self.v2, self.w3, self.v3, self.clock,
        )  # fmt: skip

    def settled(self) -> list[Settled]:
        """Return every coefficient's parameters after the pending step of the first layer."""
        share, (first, _) = self.clock[0], self.hidden
        eta = self.trial.dtype.type(self.sgd.learning_rate * self.clock[2])
        a = settle(self.a, self.e, self.weight_decay, share, eta)
        bias = self.bias - eta * (self.bias_e + share * self.bias_decay * self.bias)
        s = self.s - eta * (self.s_e + share * self.weight_decay * self.s)
        parameters = []
        for l, (w2, w3) in enumerate(
            zip(self.w2, self.w3[..., : self.trial.n_classes], strict=True)
        ):
            mine = slice(l * self.width, l * self.width + first)
            parameters.append(
                Settled(s[mine].astype(a.dtype), a[:, mine], bias[mine].astype(a.dtype),
                        w2[:, :first].T, w2[:, first], w3[:-1], w3[-1])
            )  # fmt: skip
        return parameters


def _lay_out_small(start: Start, size: int, span: int, lanes: int) -> tuple[Array, Array]:
    """Return W_2 as (L, out, in) and W_3 as (L, in, out), the last input of each its bias."""
    (_, second, third), dtype = start.weights, start.gram.dtype
    w2 = np.zeros((size, second.shape[1], span), dtype)
    w2[:, :, : len(second)] = second.T
    w3 = np.zeros((size, len(third) + 1, round_up(third.shape[1], lanes)), dtype)
    w3[:, :-1, : third.shape[1]] = third
    return w2, w3


def _forms(form: GradientForm, batch: int, dtype: np.dtype[Any]) -> KernelForm:
    """Lay out the form of each coefficient by itself, stacked on a leading axis."""
    parts = [
        KernelForm.lay_out(form.take(slice(l, l + 1)), batch, dtype) for l in range(len(form.label))
    ]
    largest = max((part.scratch for part in parts), key=np.size)
    stacked = (
        np.stack([getattr(part, name) for part in parts])
        for name in ("probability", "target", "label", "confidence")
    )
    return KernelForm(*stacked, largest)


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

    def query_logits(self, start: Start) -> Array:
        """Return the logits of the query set, (C, Q + padding)."""
        hidden = start.projector.logits(self.a, self.s, self.bias_1)
        hidden = self.weights_2.T @ np.maximum(hidden, 0) + self.bias_2[:, None]
        return np.asarray(self.weights_3.T @ np.maximum(hidden, 0) + self.bias_3[:, None])

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
    """Return the bytes that training one coefficient goes through at every step."""
    first, second = head.hidden
    inputs = len(trial.support) * first + first * second + second * trial.n_classes
    return 2 * inputs * trial.dtype.itemsize


def _finish(trial: Trial, state: MlpSgd, start: Start, keep_weights: bool) -> Fitted:
    """Form query logits, squared norms and, if asked for, the weights (a diverged one overflows)."""
    with np.errstate(over="ignore", invalid="ignore"):
        settled = state.settled()
        logits = np.stack([each.query_logits(start) for each in settled], axis=1)
        norms = np.array([each.squared_norm(start) for each in settled])
        weights: dict[str, Array] = {}
        if keep_weights:
            full = [each.full(trial, start) for each in settled]
            weights = {name: np.stack([each[name] for each in full]) for name in full[0]}
    return Fitted(np.ascontiguousarray(logits), norms, weights)
