"""What to train and how: small frozen classes that refuse bad settings in one sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from firthshot.errors import FirthshotError


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise FirthshotError(sentence)


def _require_number(name: str, value: float, low: float, *, open_low: bool = False) -> None:
    fits = math.isfinite(value) and (value > low if open_low else value >= low)
    _require(
        fits,
        f"{name} = {value} must be finite and {'above' if open_low else 'at least'} {low:g}.",
    )


class Head:
    """What is trained on the support rows; derive from it and `register_head` to add one."""

    name: ClassVar[str]

    def parameter_count(self, d: int, n_classes: int) -> int:
        """Return the number of trained parameters: weights and biases, or directions and norms."""
        return d * n_classes + n_classes

    def widest_layer(self, n_classes: int) -> int:
        """Return the widest layer that is trained: it decides the memory of a trial."""
        return n_classes


class Solver:
    """How a head is trained."""

    name: ClassVar[str]


@dataclass(frozen=True)
class Linear(Head):
    """Logits X W + b; weights start Xavier-uniform (or at zero), the bias at zero.

    A random start leaves noise in the directions that no support row spans: training never moves
    them. ``start="zero"`` removes it.
    """

    start: Literal["xavier", "zero"] = "xavier"
    name = "linear"

    def __post_init__(self) -> None:
        _require(
            self.start in ("xavier", "zero"), f"start = {self.start!r} must be 'xavier' or 'zero'."
        )


@dataclass(frozen=True)
class Cosine(Head):
    """Logits scale · g_c ⟨v_c/‖v_c‖, x/(‖x‖ + 1e-5)⟩ with v and the class norms g trained.

    ``scale=None`` is the published rule: 2, and 10 above 200 classes. The start is the default of a
    linear layer (uniform ± 1/√d), g the norms of its rows.
    """

    scale: float | None = None
    name = "cosine"

    def __post_init__(self) -> None:
        if self.scale is not None:
            _require_number("scale", self.scale, 0, open_low=True)


@dataclass(frozen=True)
class Mlp(Head):
    """Three layers: features → ``hidden[0]`` → ReLU → ``hidden[1]`` → ReLU → classes."""

    hidden: tuple[int, int] = (100, 50)
    name = "mlp"

    def __post_init__(self) -> None:
        _require(
            len(self.hidden) == 2 and min(self.hidden) >= 1,
            f"hidden = {self.hidden} must be two positive widths.",
        )

    def parameter_count(self, d: int, n_classes: int) -> int:
        """Return the number of weights and biases of the three layers."""
        first, second = self.hidden
        return d * first + first + first * second + second + second * n_classes + n_classes

    def widest_layer(self, n_classes: int) -> int:
        """Return the wider of the first layer and the classes."""
        return max(self.hidden[0], n_classes)


@dataclass(frozen=True)
class Centroid(Head):
    """Nearest class mean; logits are −½ ‖x − mean‖². No training, no penalty."""

    name = "centroid"


@dataclass(frozen=True)
class LeastSquares(Head):
    """Ridge regression on centred one-hot labels, closed form; ``ridge`` multiplies ‖W‖².

    Scores become logits by the factor log 3: without ridge and with independent rows this is the
    exact Firth estimate (λ = K/2), whose optimum is closed-form.
    """

    ridge: float = 1.0
    name = "least-squares"

    def __post_init__(self) -> None:
        _require_number("ridge", self.ridge, 0)


@dataclass(frozen=True)
class Sgd(Solver):
    """Mini-batch SGD as published.

    Attributes
    ----------
    epochs : int
        Passes over the support set.
    dampening : float
        Share of a gradient that does not enter the velocity; the first gradient enters whole, and
        without momentum there is no dampening, as in torch.
    scale_partial : bool
        Scale the whole loss of the last, smaller batch by its share (logistic family) instead of
        taking its plain mean (cosine family).
    score_after : tuple of int
        Passes after which the query set is scored as well; the last pass always is.
    """

    learning_rate: float = 0.005
    momentum: float = 0.9
    dampening: float = 0.0
    batch_size: int = 10
    epochs: int = 400
    shuffle: bool = True
    scale_partial: bool = True
    score_after: tuple[int, ...] = ()
    name = "sgd"

    def __post_init__(self) -> None:
        _require_number("learning_rate", self.learning_rate, 0, open_low=True)
        _require(0 <= self.momentum < 1, f"momentum = {self.momentum} must lie in [0, 1).")
        _require(0 <= self.dampening <= 1, f"dampening = {self.dampening} must lie in [0, 1].")
        _require(self.batch_size >= 1, f"batch_size = {self.batch_size} must be at least 1.")
        _require(self.epochs >= 1, f"epochs = {self.epochs} must be at least 1.")
        if self.momentum == 0:
            object.__setattr__(self, "dampening", 0.0)
        late = [number for number in self.score_after if not 1 <= number <= self.epochs]
        _require(
            not late, f"score_after = {late} lies outside the {self.epochs} passes of training."
        )


def paper_sgd(head: Head, shots: int | None = None) -> Sgd:
    """Return the published settings of a head (the cosine head's passes depend on the shots)."""
    if isinstance(head, Cosine):
        epochs = 301 if shots == 1 else 101
        return Sgd(0.01, 0.9, 0.9, batch_size=4, epochs=epochs, scale_partial=False)
    return Sgd(epochs=100 if isinstance(head, Mlp) else 400)


@dataclass(frozen=True)
class Converged(Solver):
    """Minimise the objective until the gradient's largest entry is below the tolerance."""

    tolerance: float = 1e-6
    max_iterations: int = 200
    name = "converged"

    def __post_init__(self) -> None:
        _require_number("tolerance", self.tolerance, 0, open_low=True)
        _require(
            self.max_iterations >= 1, f"max_iterations = {self.max_iterations} must be at least 1."
        )
