"""A penalty made concrete for one trial: the numbers that the kernels need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine.families import FAMILIES
from firthshot.engine.options import Penalty
from firthshot.errors import FirthshotError
from firthshot.objective import check_prior, class_frequencies, l2_curvature

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class GradientForm:
    """Per coefficient l (and class c), the gradient of the loss with respect to logits.

    dLoss/dz_c = probability_l p_c − target_cl − label_l [c = y]
                 + confidence_l p_c (log p_c − Σ p log p),
    and the L2 parts: ``weight_decay_l W`` and ``bias_decay_l b`` are added to their gradients.
    """

    probability: Array  # (L,)
    target: Array  # (C, L)
    label: Array  # (L,)
    confidence: Array  # (L,)
    weight_decay: Array  # (L,)
    bias_decay: Array  # (L,)
    decay_with_batch: bool
    decays: bool  # whether anything decays, in any coefficient of the trial

    def take(self, part: slice | Array) -> GradientForm:
        """Return the form of some of the coefficients."""
        return GradientForm(
            self.probability[part],
            self.target[:, part],
            self.label[part],
            self.confidence[part],
            self.weight_decay[part],
            self.bias_decay[part],
            self.decay_with_batch,
            self.decays,
        )


def class_prior(penalty: Penalty, labels: Array, n_classes: int) -> Array:
    """Return the prior u over classes, shape (C,)."""
    if penalty.prior == "uniform":
        return np.full(n_classes, 1 / n_classes)
    if penalty.prior == "class-frequency":
        return class_frequencies(labels, n_classes)
    prior = check_prior(penalty.prior)
    if prior.shape != (n_classes,):
        raise FirthshotError(
            f"prior must be {n_classes} probabilities that sum to 1, not {penalty.prior}."
        )
    return prior


def gradient_form(
    penalty: Penalty, labels: Array, n_classes: int, n_parameters: int
) -> GradientForm:
    """Resolve a penalty for a trial with these support labels and this number of parameters."""
    coefficients = np.array(penalty.coefficients, float)
    terms = FAMILIES[penalty.family](coefficients)
    each = np.ones_like(coefficients)
    prior = class_prior(penalty, labels, n_classes)
    l2 = (penalty.l2 + terms.l2) * each
    curvature = l2_curvature(penalty.l2_kind, n_parameters=n_parameters, n_samples=len(labels))
    return GradientForm(
        probability=terms.probability * each,
        target=np.outer(prior, terms.prior * each),
        label=terms.label * each,
        confidence=terms.confidence * each,
        weight_decay=curvature.weights * l2,
        bias_decay=curvature.bias * l2,
        decay_with_batch=penalty.l2_kind != "weight-decay",
        decays=bool(l2.any()),
    )
