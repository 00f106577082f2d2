"""How to train: small frozen classes that refuse bad settings in one sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from firthshot.errors import FirthshotError


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
