"""The loss of a sample: one form for cross-entropy and every penalty on probabilities.

With p = softmax(z), one-hot label y, class prior u and targets T = label y + prior u, a sample has

    loss      −Σ_c T_c log p_c + confidence (Σ_c p_c log p_c + log K),
    gradient  (label + prior) p − T + confidence p (log p − Σ p log p),

and a curvature without y, which enters linearly. This is the reference in plain NumPy: kernels
and `firthshot.torch` are tested against it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from firthshot.errors import FirthshotError
from firthshot.objective._inputs import Array, log_softmax, match_labels, match_leading


@dataclass(frozen=True, eq=False)
class SampleLoss:
    """The factors of the form above; plain cross-entropy as it is.

    Attributes
    ----------
    label, prior, confidence : float or array with the leading axes of the logits
        Factors of CE(y‖p), of CE(u‖p) and of KL(p‖U), U uniform. CE(u‖p) is KL(u‖p) plus the
        entropy of u, which no weight changes.
    u : array of shape (..., K), optional
        The class prior; uniform unless given.
    """

    label: ArrayLike = 1.0
    prior: ArrayLike = 0.0
    confidence: ArrayLike = 0.0
    u: ArrayLike | None = None

    @property
    def probability(self) -> Array:
        """Return the factor of p in the gradient, which sums to zero over the classes."""
        return np.add(self.label, self.prior, dtype=np.float64)

    def value(self, logits: ArrayLike, labels: ArrayLike) -> Array:
        """Return the loss of each sample, shape (..., n)."""
        log_p = log_softmax(logits)
        label, prior, confidence = (f[..., 0] for f in self._factors(log_p))
        y = match_labels(labels, log_p)[..., None]
        hard = -np.take_along_axis(log_p, y, axis=-1)[..., 0]
        soft = -(self._u(log_p) * log_p).sum(axis=-1)
        peaked = (np.exp(log_p) * log_p).sum(axis=-1) + np.log(log_p.dtype.type(log_p.shape[-1]))
        loss: Array = label * hard + prior * soft + confidence * peaked
        return loss

    def gradient(self, logits: ArrayLike, labels: ArrayLike) -> Array:
        """Return the derivative of each sample's loss by its logits, shape (..., n, K)."""
        log_p = log_softmax(logits)
        label, prior, confidence = self._factors(log_p)
        y = match_labels(labels, log_p)[..., None]
        p = np.exp(log_p)
        residual = p.copy()
        # expm1 keeps the digits of p_y - 1 where p_y is nearly one
        np.put_along_axis(residual, y, np.expm1(np.take_along_axis(log_p, y, axis=-1)), axis=-1)
        peaked = _covariance_product(p, log_p)
        gradient: Array = label * residual + prior * (p - self._u(log_p)) + confidence * peaked
        return gradient

    def hessian_product(self, logits: ArrayLike, direction: ArrayLike) -> Array:
        """Return Hessian by the logits times ``direction``, both of shape (..., n, K)."""
        log_p = log_softmax(logits)
        label, prior, confidence = self._factors(log_p)
        p = np.exp(log_p)
        step = _covariance_product(p, np.asarray(direction, dtype=log_p.dtype))
        excess = log_p - (p * log_p).sum(axis=-1, keepdims=True) + 1.0
        peaked = step * excess - p * (step * log_p).sum(axis=-1, keepdims=True)
        product: Array = (label + prior) * step + confidence * peaked
        return product

    def _factors(self, log_p: Array) -> list[Array]:
        """Return label, prior and confidence, each of shape (..., 1, 1)."""
        named = {"label": self.label, "prior": self.prior, "confidence": self.confidence}
        return [
            match_leading(f"the factor {name}", factor, log_p, own=0)[..., None]
            for name, factor in named.items()
        ]

    def _u(self, log_p: Array) -> Array:
        """Return the class prior, of a shape that broadcasts with log p."""
        K = log_p.shape[-1]
        if self.u is None:
            return np.full(K, 1.0 / K, dtype=log_p.dtype)
        u = match_leading("the prior", self.u, log_p, own=1)
        if u.shape[-1] != K:
            raise FirthshotError(
                f"the prior has {u.shape[-1]} entries but the logits have {K} classes; give one "
                "probability per class."
            )
        return u


def _covariance_product(p: Array, direction: Array) -> Array:
    """Multiply by the covariance of a one-hot draw: (diag p - p pᵀ) v, shape (..., n, K)."""
    centred: Array = p * (direction - (p * direction).sum(axis=-1, keepdims=True))
    return centred
