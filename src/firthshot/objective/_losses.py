"""Losses on logits and labels, and the penalised objective that a solver minimises.

The curvature of every loss here is free of the labels (they enter the logits linearly), which is
why `hvp` does not ask for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.objective._checks import check_coefficient, check_leading, match_labels
from firthshot.objective._penalties import PENALTIES, Firth, NoPenalty, Penalty, make_penalty
from firthshot.objective._softmax import Array, covariance_product, log_softmax

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Loss(ABC):
    """A loss of logits and labels, one value per sample."""

    def value(self, logits: ArrayLike, labels: ArrayLike) -> Array:
        """Return the loss of each sample, shape (..., n)."""
        return self._value(log_softmax(logits), labels)

    def gradient(self, logits: ArrayLike, labels: ArrayLike) -> Array:
        """Return the derivative of each sample's loss by its logits, shape (..., n, K)."""
        return self._gradient(log_softmax(logits), labels)

    def value_and_gradient(self, logits: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
        """Return value and gradient at the cost of one softmax."""
        log_p = log_softmax(logits)
        return self._value(log_p, labels), self._gradient(log_p, labels)

    def hvp(self, logits: ArrayLike, direction: ArrayLike) -> Array:
        """Return Hessian by the logits times ``direction``, both of shape (..., n, K)."""
        log_p = log_softmax(logits)
        return self._hvp(log_p, np.asarray(direction, dtype=log_p.dtype))

    @abstractmethod
    def _value(self, log_p: Array, labels: ArrayLike) -> Array: ...

    @abstractmethod
    def _gradient(self, log_p: Array, labels: ArrayLike) -> Array: ...

    @abstractmethod
    def _hvp(self, log_p: Array, direction: Array) -> Array: ...


class CrossEntropy(Loss):
    """The cross-entropy CE(y‖p) = -log p_y (Eq. cekldef), gradient p - y."""

    def _value(self, log_p: Array, labels: ArrayLike) -> Array:
        y = match_labels(labels, log_p)[..., None]
        return -np.take_along_axis(log_p, y, axis=-1)[..., 0]

    def _gradient(self, log_p: Array, labels: ArrayLike) -> Array:
        y = match_labels(labels, log_p)[..., None]
        gradient = np.exp(log_p)
        # expm1 keeps the digits of p_y - 1 where p_y is nearly one
        np.put_along_axis(gradient, y, np.expm1(np.take_along_axis(log_p, y, axis=-1)), axis=-1)
        return gradient

    def _hvp(self, log_p: Array, direction: Array) -> Array:
        return covariance_product(np.exp(log_p), direction)


@dataclass(frozen=True, eq=False)
class LabelSmoothing(Loss):
    """Cross-entropy with smoothed labels: CE((1-ε) y + ε A ‖ p), gradient p - (1-ε) y - ε A.

    (1+λ) times this loss with ε = λ/(1+λ) is CE(y‖p) + λ CE(A‖p): Firth's objective up to the
    constant λ × entropy of A (log K for the uniform A) and up to the factor 1+λ, which changes
    the step size of a gradient method and the balance with an L2 term.

    Parameters
    ----------
    epsilon : float or array with the leading axes of the logits
        Share of the prior in the labels, in [0, 1).
    prior : array of shape (..., K), optional
        The distribution A; uniform unless given.
    """

    epsilon: ArrayLike
    prior: ArrayLike | None = None
    _towards: Firth = field(init=False, repr=False)

    def __post_init__(self) -> None:
        epsilon = check_coefficient("the label smoothing ε", self.epsilon, below=1.0)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "_towards", Firth(self.prior))
        object.__setattr__(self, "prior", self._towards.prior)

    def _epsilon(self, log_p: Array) -> Array:
        epsilon = np.asarray(self.epsilon, dtype=log_p.dtype)
        check_leading("the label smoothing ε", epsilon.shape, log_p)
        return epsilon[..., None]

    def _value(self, log_p: Array, labels: ArrayLike) -> Array:
        epsilon = self._epsilon(log_p)
        hard = CrossEntropy()._value(log_p, labels)
        return (1 - epsilon) * hard + epsilon * self._towards._cross_entropy(log_p)

    def _gradient(self, log_p: Array, labels: ArrayLike) -> Array:
        epsilon = self._epsilon(log_p)[..., None]
        hard = CrossEntropy()._gradient(log_p, labels)
        return (1 - epsilon) * hard + epsilon * self._towards._gradient(log_p)

    def _hvp(self, log_p: Array, direction: Array) -> Array:
        return covariance_product(np.exp(log_p), direction)


@dataclass(frozen=True, eq=False)
class Objective(Loss):
    """A loss plus a penalty: CE(y‖p) + λ · penalty(p), the paper's Eq. klobj before its mean.

    Parameters
    ----------
    loss : Loss
    penalty : Penalty
    coefficient : float or array with the leading axes of the logits
        The λ of Eq. klobj, finite and not negative; an array trains matched coefficients together.
    """

    loss: Loss = field(default_factory=CrossEntropy)
    penalty: Penalty = field(default_factory=NoPenalty)
    coefficient: ArrayLike = 0.0

    def __post_init__(self) -> None:
        coefficient = check_coefficient("the coefficient λ", self.coefficient)
        object.__setattr__(self, "coefficient", coefficient)

    def _coefficient(self, log_p: Array) -> Array:
        coefficient = np.asarray(self.coefficient, dtype=log_p.dtype)
        check_leading("the coefficient λ", coefficient.shape, log_p)
        return coefficient[..., None]

    def _value(self, log_p: Array, labels: ArrayLike) -> Array:
        weight = self._coefficient(log_p)
        return self.loss._value(log_p, labels) + weight * self.penalty._value(log_p)

    def _gradient(self, log_p: Array, labels: ArrayLike) -> Array:
        weight = self._coefficient(log_p)[..., None]
        return self.loss._gradient(log_p, labels) + weight * self.penalty._gradient(log_p)

    def _hvp(self, log_p: Array, direction: Array) -> Array:
        weight = self._coefficient(log_p)[..., None]
        return self.loss._hvp(log_p, direction) + weight * self.penalty._hvp(log_p, direction)


def make_objective(name: str, coefficient: ArrayLike = 0.0, prior: ArrayLike | None = None) -> Loss:
    """Return the objective that the penalty called ``name`` makes of cross-entropy.

    Parameters
    ----------
    name : str
        ``"none"``, ``"firth"``, ``"confidence"`` (any key of `PENALTIES`) or
        ``"label-smoothing"``. L2 acts on parameters, not on logits: see `L2`.
    coefficient : float or array with the leading axes of the logits
        λ; for ``"label-smoothing"`` it is ε.
    prior : array of shape (..., K), optional
        Class prior of ``"firth"`` and ``"label-smoothing"``; uniform unless given.
    """
    if name == "label-smoothing":
        return LabelSmoothing(coefficient, prior)
    if name not in PENALTIES:
        known = ", ".join([*PENALTIES, "label-smoothing"])
        raise FirthshotError(f"there is no objective called {name!r}; choose from {known}.")
    return Objective(CrossEntropy(), make_penalty(name, prior), coefficient)
