"""A penalty with its coefficients as users give it, and as the numbers that kernels read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from firthshot.errors import FirthshotError
from firthshot.objective._inputs import PRIORS, class_prior
from firthshot.objective._loss import SampleLoss
from firthshot.objective.penalties import PENALTIES, l2_curvature

Array = NDArray[Any]
L2Kind = Literal["mean-square", "ridge", "weight-decay"]


@dataclass(frozen=True)
class PenaltyTables:
    """The objective of every coefficient l as numbers, by class c where it depends on the class.

    With p = softmax(z) and the label y, a sample has the loss

        −Σ_c (label_l [c = y] + target_cl) log p_c + confidence_l Σ_c p_c log p_c

    and, with probability_l = label_l + Σ_c target_cl, the gradient by its logits

        probability_l p_c − target_cl − label_l [c = y]
        + confidence_l p_c (log p_c − Σ_k p_k log p_k).

    L2 adds ``weight_decay_l W`` to the gradient by the weights and ``bias_decay_l b`` to that by
    the biases, of the mean loss. ``decay_with_batch``: L2 is part of the loss, so that a smaller
    last batch scales it too; without it L2 is the optimiser's weight decay.
    """

    probability: Array  # (L,)
    target: Array  # (C, L)
    label: Array  # (L,)
    confidence: Array  # (L,)
    weight_decay: Array  # (L,)
    bias_decay: Array  # (L,)
    decay_with_batch: bool
    decays: bool  # whether anything decays, in any coefficient of the trial

    def take(self, part: slice | Array) -> PenaltyTables:
        """Return the tables of some of the coefficients."""
        arrays = {name: value[..., part] for name, value in vars(self).items() if np.ndim(value)}
        return replace(self, **arrays)


@dataclass(frozen=True)
class Penalty:
    """A family of penalties and the coefficients to train, all of them on the same trials.

    Attributes
    ----------
    family : str
        A key of `firthshot.objective.PENALTIES`: ``firth`` is λ KL(u‖p), ``confidence``
        λ KL(p‖U), ``label-smoothing`` mixes the labels with u by ε = λ < 1, ``l2`` puts the
        coefficient on ``l2_kind``.
    coefficients : tuple of float
    prior : "uniform", "class-frequency", or a tuple with one probability per class
        The u of every family with a ``prior``, such as ``firth`` and ``label-smoothing``.
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
        if self.family not in PENALTIES:
            known = ", ".join(PENALTIES)
            raise FirthshotError(f"Penalty {self.family!r} is unknown; choose from {known}.")
        l2_curvature(self.l2_kind, n_parameters=1, n_samples=1)  # refuses what is none
        if not isinstance(self.coefficients, tuple | list):
            raise FirthshotError(
                f"coefficients = {self.coefficients!r} must be a tuple of numbers."
            )
        if not self.coefficients:
            raise FirthshotError("coefficients is empty; give at least one.")
        PENALTIES[self.family].check(self.coefficients)
        if not 0 <= self.l2 < math.inf:
            raise FirthshotError(f"l2 = {self.l2} must be finite and at least 0.")
        named = isinstance(self.prior, str) and self.prior in PRIORS
        if not (named or isinstance(self.prior, tuple)):
            raise FirthshotError(
                f"prior = {self.prior!r} must be 'uniform', 'class-frequency' or a tuple "
                "of probabilities."
            )

    @cached_property
    def _parts(self) -> tuple[SampleLoss, Array]:
        """Return the loss of a sample and the L2 coefficients: the same for all trials."""
        family, lam = PENALTIES[self.family], np.array(self.coefficients, float)
        return family.loss(lam), self.l2 + family.l2 * lam

    def tables(self, labels: Array, n_classes: int, n_parameters: int) -> PenaltyTables:
        """Resolve for a trial with these support labels and this number of parameters."""
        loss, l2 = self._parts
        u = class_prior(self.prior, labels, n_classes)
        curvature = l2_curvature(self.l2_kind, n_parameters=n_parameters, n_samples=len(labels))
        return PenaltyTables(
            probability=loss.probability,
            target=np.outer(u, np.asarray(loss.prior)),
            label=np.asarray(loss.label),
            confidence=np.asarray(loss.confidence),
            weight_decay=curvature.weights * l2,
            bias_decay=curvature.bias * l2,
            decay_with_batch=self.l2_kind != "weight-decay",
            decays=bool(l2.any()),
        )
