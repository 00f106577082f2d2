"""The mathematics, on logits alone: the loss, its penalties, L2 and Fisher information.

Nothing here knows of features' origin, of heads or of solvers.
"""

from __future__ import annotations

from firthshot.objective._inputs import check_prior, class_prior, log_softmax, softmax
from firthshot.objective._loss import SampleLoss
from firthshot.objective._penalty import L2Kind, Penalty, PenaltyTables
from firthshot.objective.penalties import (
    L2_PARAMETRISATIONS,
    PENALTIES,
    L2Curvature,
    PenaltyFamily,
    l2_curvature,
    register_penalty,
)
from firthshot.objective.theory import (
    TheoryCoefficient,
    cosine_scale,
    fisher_blocks,
    fisher_information,
    sample_rank,
    theory_coefficient,
    theory_lambda,
)

__all__ = [
    "L2_PARAMETRISATIONS", "PENALTIES", "L2Curvature", "L2Kind", "Penalty", "PenaltyFamily",
    "PenaltyTables", "SampleLoss", "TheoryCoefficient", "check_prior", "class_prior",
    "cosine_scale", "fisher_blocks", "fisher_information", "l2_curvature", "log_softmax",
    "register_penalty", "sample_rank", "softmax", "theory_coefficient", "theory_lambda",
]  # fmt: skip
