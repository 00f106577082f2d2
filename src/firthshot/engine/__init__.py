"""Many episodes, all coefficients of each trained at once: the paper's training, fast."""

from firthshot.engine._run import train
from firthshot.engine._trial import Fitted, Trial, fitted_linear
from firthshot.engine.heads import (
    Centroid,
    Cosine,
    Head,
    LeastSquares,
    Linear,
    Mlp,
    TrialShape,
    check_trainable,
    paper_sgd,
    register_head,
    registered_heads,
)
from firthshot.engine.options import Converged, Sgd, Solver
from firthshot.engine.results import Results, Status
from firthshot.objective import Penalty

__all__ = [
    "Centroid",
    "Converged",
    "Cosine",
    "Fitted",
    "Head",
    "LeastSquares",
    "Linear",
    "Mlp",
    "Penalty",
    "Results",
    "Sgd",
    "Solver",
    "Status",
    "Trial",
    "TrialShape",
    "check_trainable",
    "fitted_linear",
    "paper_sgd",
    "register_head",
    "registered_heads",
    "train",
]
