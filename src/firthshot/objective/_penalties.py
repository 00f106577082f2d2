"""Penalties on logits: value, gradient and curvature, and nothing about any solver.

To add a penalty, derive from `Penalty`, write its three methods on log-probabilities and enter it
in `PENALTIES`. The tests run over that table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.objective._checks import check_prior, match_prior
from firthshot.objective._softmax import Array, covariance_product, log_softmax

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike


class Penalty(ABC):
    """A penalty of the predicted probabilities, one value per sample.

    The public methods take logits; subclasses write the underscored ones on log p, so that a
    caller who needs several of them computes the softmax once.
    """

    def value(self, logits: ArrayLike) -> Array:
        """Return the penalty of each sample, shape (..., n)."""
        return self._value(log_softmax(logits))

    def gradient(self, logits: ArrayLike) -> Array:
        """Return the derivative of each sample's penalty by its logits, shape (..., n, K)."""
        return self._gradient(log_softmax(logits))

    def hvp(self, logits: ArrayLike, direction: ArrayLike) -> Array:
        """Return Hessian by the logits times ``direction``, both of shape (..., n, K)."""
        log_p = log_softmax(logits)
        return self._hvp(log_p, np.asarray(direction, dtype=log_p.dtype))

    @abstractmethod
    def _value(self, log_p: Array) -> Array: ...

    @abstractmethod
    def _gradient(self, log_p: Array) -> Array: ...

    @abstractmethod
    def _hvp(self, log_p: Array, direction: Array) -> Array: ...


class NoPenalty(Penalty):
    """No penalty: zero everywhere."""

    def _value(self, log_p: Array) -> Array:
        return np.zeros_like(log_p[..., 0])

    def _gradient(self, log_p: Array) -> Array:
        return np.zeros_like(log_p)

    def _hvp(self, log_p: Array, direction: Array) -> Array:
        return np.zeros_like(log_p + direction)


@dataclass(frozen=True, eq=False)
class Firth(Penalty):
    """Firth's penalty KL(A‖p) = Σ_j A_j log(A_j / p_j), the paper's Eq. firth_penalty.

    The gradient by the logits is p - A and the Hessian diag p - p pᵀ. With the uniform prior it is
    -(1/K) Σ_j log p_j - log K, that is, -1/K times log det M_i (Eq. milogde) up to a constant.

    Parameters
    ----------
    prior : array of shape (..., K), optional
        The distribution A; uniform unless given. Zero entries are allowed (0 log 0 = 0). Leading
        axes go with those of the logits, so that each trial may have its own.
    """

    prior: ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.prior is not None:
            object.__setattr__(self, "prior", check_prior(self.prior))

    def _prior(self, log_p: Array) -> Array:
        if self.prior is None:
            return np.full(log_p.shape[-1], 1.0 / log_p.shape[-1], dtype=log_p.dtype)
        return match_prior(np.asarray(self.prior), log_p)

    def _cross_entropy(self, log_p: Array) -> Array:
        a = self._prior(log_p)
        cross_entropy: Array = -(a * log_p).sum(axis=-1)
        return cross_entropy

    def _value(self, log_p: Array) -> Array:
        a = self._prior(log_p)
        log_a = np.log(a, where=a > 0, out=np.zeros_like(a))
        divergence: Array = (a * (log_a - log_p)).sum(axis=-1)
        return divergence

    def _gradient(self, log_p: Array) -> Array:
        return np.exp(log_p) - self._prior(log_p)

    def _hvp(self, log_p: Array, direction: Array) -> Array:
        return covariance_product(np.exp(log_p), direction)


class Confidence(Penalty):
    """The confidence penalty KL(p‖U) = Σ_j p_j log p_j + log K.

    The negative entropy of the predictions, shifted to be zero at the uniform distribution. It is
    not convex in the logits: its curvature is negative where a prediction is confident.
    """

    def _value(self, log_p: Array) -> Array:
        uniform = np.log(log_p.shape[-1]).astype(log_p.dtype)
        divergence: Array = (np.exp(log_p) * log_p).sum(axis=-1) + uniform
        return divergence

    def _gradient(self, log_p: Array) -> Array:
        return covariance_product(np.exp(log_p), log_p)

    def _hvp(self, log_p: Array, direction: Array) -> Array:
        p = np.exp(log_p)
        step = covariance_product(p, direction)
        excess = log_p - (p * log_p).sum(axis=-1, keepdims=True) + 1.0
        product: Array = step * excess - p * (step * log_p).sum(axis=-1, keepdims=True)
        return product


def _without_prior(
    build: Callable[[], Penalty], name: str
) -> Callable[[ArrayLike | None], Penalty]:
    def checked(prior: ArrayLike | None) -> Penalty:
        if prior is not None:
            raise FirthshotError(f"the penalty {name!r} takes no prior; leave it out.")
        return build()

    return checked


PENALTIES: dict[str, Callable[[ArrayLike | None], Penalty]] = {
    "none": _without_prior(NoPenalty, "none"),
    "firth": Firth,
    "confidence": _without_prior(Confidence, "confidence"),
}


def make_penalty(name: str, prior: ArrayLike | None = None) -> Penalty:
    """Return the penalty on logits called ``name``: a key of `PENALTIES`.

    Parameters
    ----------
    name : str
        ``"none"``, ``"firth"`` or ``"confidence"``.
    prior : array of shape (..., K), optional
        Class prior, for ``"firth"`` alone.
    """
    if name not in PENALTIES:
        known = ", ".join(PENALTIES)
        raise FirthshotError(f"there is no penalty on logits called {name!r}; choose from {known}.")
    return PENALTIES[name](prior)
