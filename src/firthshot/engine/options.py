"""How to train: small frozen classes that refuse bad settings in one sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from firthshot.engine.families import FAMILIES
from firthshot.errors import FirthshotError
from firthshot.objective import L2_PARAMETRISATIONS as L2_KINDS


def require(condition: bool, sentence: str) -> None:
    """Refuse a setting with a sentence unless the condition holds."""
    if not condition:
        raise FirthshotError(sentence)


def require_number(name: str, value: float, low: float, *, open_low: bool = False) -> None:
    """Refuse a number that is not finite or lies below ``low`` (or at it, with ``open_low``)."""
    fits = math.isfinite(value) and (value > low if open_low else value >= low)
    require(
        fits,
        f"{name} = {value} must be finite and {'above' if open_low else 'at least'} {low:g}.",
    )


class Solver:
    """How a head is trained."""

    name: ClassVar[str]


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
        require_number("learning_rate", self.learning_rate, 0, open_low=True)
        require(0 <= self.momentum < 1, f"momentum = {self.momentum} must lie in [0, 1).")
        require(0 <= self.dampening <= 1, f"dampening = {self.dampening} must lie in [0, 1].")
        require(self.batch_size >= 1, f"batch_size = {self.batch_size} must be at least 1.")
        require(self.epochs >= 1, f"epochs = {self.epochs} must be at least 1.")
        if self.momentum == 0:
            object.__setattr__(self, "dampening", 0.0)
        late = [number for number in self.score_after if not 1 <= number <= self.epochs]
        require(
            not late, f"score_after = {late} lies outside the {self.epochs} passes of training."
        )


@dataclass(frozen=True)
class Converged(Solver):
    """Minimise the objective until the gradient's largest entry is below the tolerance."""

    tolerance: float = 1e-6
    max_iterations: int = 200
    name = "converged"

    def __post_init__(self) -> None:
        require_number("tolerance", self.tolerance, 0, open_low=True)
        require(
            self.max_iterations >= 1, f"max_iterations = {self.max_iterations} must be at least 1."
        )


L2Kind = Literal["mean-square", "ridge", "weight-decay"]


@dataclass(frozen=True)
class Penalty:
    """A family of penalties and the coefficients to train, all of them on the same trials.

    Attributes
    ----------
    family : str
        A key of `firthshot.engine.families.FAMILIES`: ``firth`` is λ KL(u‖p), ``confidence``
        λ KL(p‖U), ``label-smoothing`` mixes the labels with u by ε = λ < 1, ``l2`` puts the
        coefficient on ``l2_kind``.
    coefficients : tuple of float
    prior : "uniform", "class-frequency", or one probability per class
        The u of ``firth`` and ``label-smoothing``.
    l2 : float
        An L2 coefficient beside the family, the same for every coefficient.
    l2_kind : str
        ``mean-square``: mean of the squares of all parameters, biases included. ``ridge``:
        ½‖W‖²/n, biases free. ``weight-decay``: added to the gradient by the optimiser, biases
        included.
    """

    family: str = "none"
    coefficients: tuple[float, ...] = (0.0,)
    prior: Literal["uniform", "class-frequency"] | tuple[float, ...] = "uniform"
    l2: float = 0.0
    l2_kind: L2Kind = "mean-square"

    def __post_init__(self) -> None:
        require(
            self.family in FAMILIES,
            f"Penalty {self.family!r} is unknown; choose from {', '.join(FAMILIES)}.",
        )
        require(
            self.l2_kind in L2_KINDS,
            f"L2 {self.l2_kind!r} is unknown; choose from {', '.join(L2_KINDS)}.",
        )
        listed = isinstance(self.coefficients, tuple | list)
        require(listed, f"coefficients = {self.coefficients!r} must be a tuple of numbers.")
        require(len(self.coefficients) >= 1, "coefficients is empty; give at least one.")
        for coefficient in self.coefficients:
            require_number("coefficient", coefficient, 0)
            require(
                self.family != "label-smoothing" or coefficient < 1,
                f"Label smoothing {coefficient} must be below 1.",
            )
        require_number("l2", self.l2, 0)
        none = self.family != "none" or set(self.coefficients) == {0.0}
        require(none, "The penalty 'none' takes no coefficient but 0.")
        named = isinstance(self.prior, tuple) or self.prior in ("uniform", "class-frequency")
        require(
            named,
            f"prior = {self.prior!r} must be 'uniform', 'class-frequency' or probabilities.",
        )
