"""L2 in its three parametrisations, which the literature calls by one name.

All three are ½ c_W ‖W‖² + ½ c_b ‖b‖² and differ in c_W and c_b alone, so that one small table
holds them and a solver may fold the two numbers into its update.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from firthshot.objective._softmax import Array

L2_PARAMETRISATIONS = ("mean-square", "ridge", "weight-decay")


@dataclass(frozen=True)
class L2Curvature:
    """The two second derivatives: ``weights`` for every weight, ``bias`` for every bias."""

    weights: float
    bias: float


def l2_curvature(parametrisation: str, *, n_parameters: int, n_samples: int) -> L2Curvature:
    """Return c_W and c_b of a parametrisation of L2, for coefficient one.

    Parameters
    ----------
    parametrisation : str
        ``"mean-square"``: Σ θ² / P over all P parameters, biases included (the paper's logistic
        heads), c = 2/P. ``"ridge"``: ½‖W‖²/n without the bias (scikit-learn with C = 1/λ, against
        the mean loss), c_W = 1/n. ``"weight-decay"``: ½‖θ‖² with the biases (the `weight_decay`
        of SGD), c = 1.
    n_parameters : int
        Number of all trained parameters, of all layers, biases included.
    n_samples : int
        Number of training samples.
    """
    if parametrisation not in L2_PARAMETRISATIONS:
        known = ", ".join(L2_PARAMETRISATIONS)
        raise FirthshotError(
            f"there is no L2 parametrisation called {parametrisation!r}; choose from {known}."
        )
    if n_parameters < 1 or n_samples < 1:
        raise FirthshotError("L2 needs one parameter and one sample or more.")
    if parametrisation == "mean-square":
        return L2Curvature(2.0 / n_parameters, 2.0 / n_parameters)
    if parametrisation == "ridge":
        return L2Curvature(1.0 / n_samples, 0.0)
    return L2Curvature(1.0, 1.0)


@dataclass(frozen=True)
class L2:
    """The L2 penalty of a linear head: ½ c_W ‖W‖² + ½ c_b ‖b‖².

    Parameters
    ----------
    parametrisation : str
        One of `L2_PARAMETRISATIONS`; see `l2_curvature`.
    n_samples : int
        Number of training samples, which ``"ridge"`` divides by.
    """

    parametrisation: str
    n_samples: int

    def __post_init__(self) -> None:
        l2_curvature(self.parametrisation, n_parameters=1, n_samples=self.n_samples)

    def value(self, weights: ArrayLike, bias: ArrayLike | None = None) -> Array:
        """Return the penalty, shape (...), of weights (..., d, K) and bias (..., K)."""
        W, b = _parameters(weights, bias)
        c = self._curvature(W, b)
        total: Array = 0.5 * c.weights * np.square(W).sum(axis=(-2, -1))
        if b is not None:
            total = total + 0.5 * c.bias * np.square(b).sum(axis=-1)
        return total

    def gradient(
        self, weights: ArrayLike, bias: ArrayLike | None = None
    ) -> tuple[Array, Array | None]:
        """Return the derivatives by weights and bias, in their shapes: c_W W and c_b b."""
        W, b = _parameters(weights, bias)
        c = self._curvature(W, b)
        return c.weights * W, None if b is None else c.bias * b

    def hvp(
        self, direction: ArrayLike, bias_direction: ArrayLike | None = None
    ) -> tuple[Array, Array | None]:
        """Return Hessian times direction; the gradient is linear, so it is the same map."""
        return self.gradient(direction, bias_direction)

    def _curvature(self, W: Array, b: Array | None) -> L2Curvature:
        size = W.shape[-2] * W.shape[-1] + (0 if b is None else b.shape[-1])
        return l2_curvature(self.parametrisation, n_parameters=size, n_samples=self.n_samples)


def _parameters(weights: ArrayLike, bias: ArrayLike | None) -> tuple[Array, Array | None]:
    W = np.asarray(weights)
    b = None if bias is None else np.asarray(bias)
    if W.ndim < 2 or (b is not None and (b.ndim < 1 or b.shape[-1] != W.shape[-1])):
        raise FirthshotError(
            f"weights {W.shape} and bias {None if b is None else b.shape} do not fit; give "
            "(..., features, classes) and (..., classes)."
        )
    return W, b
