"""What a penalty is: four numbers that say what its coefficient adds to cross-entropy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.objective._loss import SampleLoss
from firthshot.objective._prior import check_prior

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from firthshot.objective._softmax import Array


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
