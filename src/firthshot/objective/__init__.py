"""The mathematics, on logits alone: losses, penalties, L2 and Fisher information.

Nothing here knows of features' origin, of heads or of solvers.
"""

from __future__ import annotations

from firthshot.objective._checks import check_prior, class_frequencies
from firthshot.objective._l2 import L2, L2_PARAMETRISATIONS, L2Curvature, l2_curvature
from firthshot.objective._losses import (
    CrossEntropy,
    LabelSmoothing,
    Loss,
    Objective,
    make_objective,
)
from firthshot.objective._penalties import (
    PENALTIES,
    Confidence,
    Firth,
    NoPenalty,
    Penalty,
    make_penalty,
)
from firthshot.objective._softmax import log_softmax, softmax
from firthshot.objective.cosine import (
    AdditiveFormulaGap,
    additive_formula_gap,
    cosine_scale,
    normalisation_jacobian,
    normalisation_log_det,
)
from firthshot.objective.fisher import (
    Span,
    amended_log_det,
    amended_log_det_gradient,
    fisher_blocks,
    fisher_information,
    log_det_blocks,
    span_of,
)
from firthshot.objective.theory import (
    LinearOptimum,
    Simplification,
    TheoryCoefficient,
    closed_form_optimum,
    simplification,
    theory_coefficient,
)

__all__ = [
    "L2",
    "L2_PARAMETRISATIONS",
    "PENALTIES",
    "AdditiveFormulaGap",
    "Confidence",
    "CrossEntropy",
    "Firth",
    "L2Curvature",
    "LabelSmoothing",
    "LinearOptimum",
    "Loss",
    "NoPenalty",
    "Objective",
    "Penalty",
    "Simplification",
    "Span",
    "TheoryCoefficient",
    "additive_formula_gap",
    "amended_log_det",
    "amended_log_det_gradient",
    "check_prior",
    "class_frequencies",
    "closed_form_optimum",
    "cosine_scale",
    "fisher_blocks",
    "fisher_information",
    "l2_curvature",
    "log_det_blocks",
    "log_softmax",
    "make_objective",
    "make_penalty",
    "normalisation_jacobian",
    "normalisation_log_det",
    "simplification",
    "softmax",
    "span_of",
    "theory_coefficient",
]
