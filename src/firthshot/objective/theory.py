"""What the theory says of a support set before any training.

Whether the paper's simplification of Firth's penalty is exact for X, by how much it is off when
it is not, the coefficient that needs no tuning, and the optimum in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.objective._checks import check_coefficient, check_labels, check_matrix
from firthshot.objective._softmax import Array, softmax
from firthshot.objective.fisher import amended_log_det_gradient, span_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class TheoryCoefficient:
    """The tuning-free coefficient λ = K · rank(X) / (2N) and whether it is exact.

    Attributes
    ----------
    value : float
        The λ of Eq. klobj; K/2 when ``exact``.
    exact : bool
        Whether rank X = N, so that λ KL(U‖p) is Firth's penalty for all weights, not only where
        all samples share one p.
    rank, n_samples : int
        rank X (intercept column included) and N.
    """

    value: float
    exact: bool
    rank: int
    n_samples: int


def theory_coefficient(
    X: ArrayLike, n_classes: int, *, intercept: bool = True
) -> TheoryCoefficient:
    """Return the coefficient that Firth's theory prescribes for a linear head on X.

    ½ log det(F|r) is -N λ KL(U‖p) up to a constant with λ = K rank(X) / (2N) in two cases:
    everywhere if rank X = N, and wherever all samples share one p (only the bias has moved)
    for any X. Elsewhere it is a rule of thumb. Around zero weights -log det(F|r) has the
    curvature Σ_i h_ii |z_i|² (2/K) + Σ_ij h_ij² z_i·z_j (1 - 2/K), h the hat matrix of X and z the
    centred logits: never above that of a coefficient K max h_ii / 2, and below that of this one
    for more than two classes and equal leverages, unless the samples move together.

    Parameters
    ----------
    X : array of shape (N, d)
    n_classes : int
    intercept : bool
        Whether the head has a bias: X then counts with a column of ones.
    """
    _check_classes(n_classes)
    span = span_of(X, intercept=intercept)
    N = len(span.basis)
    return TheoryCoefficient(n_classes * span.rank / (2 * N), span.independent, span.rank, N)


@dataclass(frozen=True, eq=False)
class Simplification:
    """How exact the simplification ½ log det(F|r) → (K/2) · (-Σ_i KL(U‖p_i)) is.

    Gradients are by the weights (intercept included), of penalties averaged over samples, both for
    λ = K/2 and for the λ of `theory_coefficient`.

    Attributes
    ----------
    exact : bool
        Whether rank X = N. d ≥ N is not enough: duplicate samples break it.
    rank, n_samples : int
    gap, theory_gap : array of shape (...)
        Norm of the difference of the two gradients with λ = K/2 and with λ = K rank(X) / (2N).
    size : array of shape (...)
        Norm of the gradient of -½ log det(F|r) / N, to compare the gaps with.
    """

    exact: bool
    rank: int
    n_samples: int
    gap: Array
    theory_gap: Array
    size: Array


def simplification(X: ArrayLike, logits: ArrayLike, *, intercept: bool = True) -> Simplification:
    """Say whether the paper's simplification is exact for X, and by how much it is off.

    Parameters
    ----------
    X : array of shape (N, d)
    logits : array of shape (..., N, K)
        Where the gradients are compared.
    intercept : bool
        Append a column of ones to X.
    """
    features = check_matrix(X, intercept=intercept)
    p = softmax(np.asarray(logits, dtype=np.float64))
    K = p.shape[-1]
    theory = theory_coefficient(X, K, intercept=intercept)
    true = features.T @ (-0.5 * amended_log_det_gradient(X, logits, intercept=intercept))
    true /= len(features)
    simple = features.T @ (p - 1.0 / K) / len(features)
    return Simplification(
        exact=theory.exact,
        rank=theory.rank,
        n_samples=theory.n_samples,
        gap=_norm(true - K / 2 * simple),
        theory_gap=_norm(true - theory.value * simple),
        size=_norm(true),
    )


@dataclass(frozen=True, eq=False)
class LinearOptimum:
    """The minimum-norm optimum of cross-entropy plus λ KL(U‖p) when rank X = N.

    Attributes
    ----------
    weights : array of shape (d, K)
    bias : array of shape (K,) or None
        None without an intercept.
    logit_gap : float
        log(1 + K/λ), by which the logit of the label exceeds the others on every sample.
    """

    weights: Array
    bias: Array | None
    logit_gap: float


def closed_form_optimum(
    X: ArrayLike,
    labels: ArrayLike,
    n_classes: int,
    coefficient: float,
    *,
    intercept: bool = True,
) -> LinearOptimum:
    """Solve Eq. klobj without ridge in closed form: W = log(1 + K/λ) X⁺ (Y - 1/K).

    Every sample reaches p = (y + λ/K) / (1 + λ) exactly, which needs rank X = N. λ is then only a
    temperature: all λ > 0 give the same predictions, those of least squares on Y. The norm that is
    smallest counts the bias.

    Parameters
    ----------
    X : array of shape (N, d)
    labels : integers of shape (N,)
    n_classes : int
    coefficient : float
        λ > 0; at zero the weights are infinite.
    intercept : bool
        Append a column of ones to X.
    """
    _check_classes(n_classes)
    gap = _logit_gap(coefficient, n_classes)
    features = check_matrix(X, intercept=intercept)
    y = check_labels(labels, n_classes)
    if y.shape != (len(features),):
        raise FirthshotError(f"labels of shape {y.shape} do not fit {len(features)} samples of X.")
    span = span_of(X, intercept=intercept)
    if not span.independent:
        raise FirthshotError(
            f"X has {len(features)} samples of rank {span.rank}; the closed form needs independent "
            "samples, so use a solver."
        )
    solution = gap * (np.linalg.pinv(features) @ (np.eye(n_classes)[y] - 1.0 / n_classes))
    if not intercept:
        return LinearOptimum(solution, None, gap)
    return LinearOptimum(solution[:-1], solution[-1], gap)


def _logit_gap(coefficient: float, n_classes: int) -> float:
    check_coefficient("the coefficient λ", coefficient)
    if coefficient == 0:
        raise FirthshotError("the coefficient λ is 0, where the optimum is infinite; give λ > 0.")
    return float(np.log1p(n_classes / coefficient))


def _check_classes(n_classes: int) -> None:
    if n_classes < 2:
        raise FirthshotError(f"n_classes is {n_classes}; give two classes or more.")


def _norm(gradient: Array) -> Array:
    norm: Array = np.sqrt(np.square(gradient).sum(axis=(-2, -1)))
    return norm
