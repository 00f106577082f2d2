"""The penalties there are, each four numbers, and L2 in its three parametrisations.

To add a penalty, add its line to `PENALTIES`. Their order is that of reports: of two penalties the
first is compared with the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from firthshot.errors import FirthshotError
from firthshot.objective._inputs import Array, check_prior
from firthshot.objective._loss import SampleLoss

L2_PARAMETRISATIONS = ("mean-square", "ridge", "weight-decay")


@dataclass(frozen=True)
class PenaltyFamily:
    """A penalty whose coefficient λ changes the loss in proportion to λ.

        (1 + λ label) CE(y‖p) + λ prior CE(u‖p) + λ confidence KL(p‖U) + λ l2 L2(parameters)

    With λ = 0 it is cross-entropy, to which all improvements are relative.

    Attributes
    ----------
    name : str
        As specs and `Penalty` call it.
    label, prior, confidence, l2 : float
        The factors above; see `SampleLoss` for the first three, `l2_curvature` for the last.
    title : str
        What a sentence calls it; the name unless given.
    """

    name: str
    label: float = 0.0
    prior: float = 0.0
    confidence: float = 0.0
    l2: float = 0.0
    title: str = ""

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.name)

    @property
    def takes_prior(self) -> bool:
        """Whether a class prior changes it, so that runs train it once for every prior."""
        return self.prior != 0

    @property
    def below(self) -> float:
        """Return what coefficients must stay below, so that labels keep a positive weight."""
        return math.inf if self.label >= 0 else -1.0 / self.label

    def check(self, coefficients: ArrayLike) -> Array:
        """Return coefficients as float64, or refuse what this penalty does not take."""
        lam = np.array(coefficients, dtype=np.float64)
        bad = lam[~((lam >= 0) & (lam < self.below))]
        if bad.size:
            limit = "finite" if self.below == math.inf else f"below {self.below:g}"
            raise FirthshotError(
                f"coefficient = {bad[0]} must be {limit} and not negative "
                f"with the penalty {self.name!r}."
            )
        if lam.any() and not any((self.label, self.prior, self.confidence, self.l2)):
            raise FirthshotError(f"The penalty {self.name!r} takes no coefficient but 0.")
        return lam

    def loss(self, coefficient: ArrayLike, prior: ArrayLike | None = None) -> SampleLoss:
        """Return the loss of a sample with this penalty; L2, which has no samples, apart.

        A coefficient λ with the leading axes of the logits has matched values side by side. The
        class prior u (..., K) is uniform unless given.
        """
        if prior is not None and not self.takes_prior:
            raise FirthshotError(f"The penalty {self.name!r} takes no prior: leave it out.")
        lam = self.check(coefficient)
        return SampleLoss(
            label=1.0 + self.label * lam,
            prior=self.prior * lam,
            confidence=self.confidence * lam,
            u=None if prior is None else check_prior(prior),
        )


FIRTH = PenaltyFamily("firth", prior=1.0, title="Firth")
"""λ KL(u‖p) = λ Σ_c u_c log(u_c / p_c), the paper's Eq. firth_penalty, part of Eq. klobj.

The gradient by the logits is λ (p − u), the Hessian λ (diag p − p pᵀ). With the uniform u it is
−(λ/K) log det M_i up to a constant (Eq. milogde), so that λ = K/2 is exact Firth for a linear head
on independent samples: see `theory_coefficient`. With the class-frequency prior it is unigram
label smoothing up to scale.
"""

LABEL_SMOOTHING = PenaltyFamily("label-smoothing", label=-1.0, prior=1.0, title="label smoothing")
"""CE((1−ε) y + ε u ‖ p) with ε = λ < 1 (Section firthvsls); the gradient is p − (1−ε) y − ε u.

(1+λ) times this loss with ε = λ/(1+λ) is CE(y‖p) + λ CE(u‖p), Firth's objective up to the constant
λ × entropy of u. The factor 1+λ changes the step size of a gradient method and the balance with L2.
"""

CONFIDENCE = PenaltyFamily("confidence", confidence=1.0, title="the confidence penalty")
"""λ KL(p‖U) = λ (Σ_c p_c log p_c + log K) (Table confpenalty), the negative entropy of predictions.

The gradient by the logits is λ p (log p − Σ p log p). It is not convex in the logits: its curvature
is negative where a prediction is confident.
"""

L2 = PenaltyFamily("l2", l2=1.0, title="L2")
NONE = PenaltyFamily("none", title="no penalty")
PENALTIES = {one.name: one for one in (FIRTH, LABEL_SMOOTHING, CONFIDENCE, L2, NONE)}


def register_penalty(family: PenaltyFamily) -> None:
    """Let `Penalty`, specs and runs name a penalty from outside the package."""
    PENALTIES[family.name] = family


class L2Curvature(NamedTuple):
    """The two second derivatives: ``weights`` for every weight, ``bias`` for every bias."""

    weights: float
    bias: float


def l2_curvature(parametrisation: str, *, n_parameters: int, n_samples: int) -> L2Curvature:
    """Return c_W and c_b of ½ c_W ‖W‖² + ½ c_b ‖b‖², which the literature calls by one name.

    ``"mean-square"``: Σ θ² / P over all P parameters of all layers, biases included (the paper's
    logistic heads), c = 2/P. ``"ridge"``: ½‖W‖²/n without the bias (scikit-learn with C = 1/λ,
    against the mean loss), c_W = 1/n. ``"weight-decay"``: ½‖θ‖² with the biases (the `weight_decay`
    of SGD), c = 1.
    """
    if parametrisation not in L2_PARAMETRISATIONS:
        known = ", ".join(L2_PARAMETRISATIONS)
        raise FirthshotError(f"L2 {parametrisation!r} is unknown; choose from {known}.")
    if n_parameters < 1 or n_samples < 1:
        raise FirthshotError("L2 needs one parameter and one sample or more.")
    if parametrisation == "mean-square":
        return L2Curvature(2.0 / n_parameters, 2.0 / n_parameters)
    if parametrisation == "ridge":
        return L2Curvature(1.0 / n_samples, 0.0)
    return L2Curvature(1.0, 1.0)
