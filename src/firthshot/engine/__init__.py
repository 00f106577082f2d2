"""Many episodes, all coefficients of each trained at once: the paper's training, fast."""

from firthshot.engine._heads import fit_function, register_head, registered_heads
from firthshot.engine._run import train
from firthshot.engine._trial import Fitted, Trial
from firthshot.engine.options import (
    Centroid,
    Converged,
    Cosine,
    Head,
    LeastSquares,
    Linear,
    Mlp,
    Sgd,
    Solver,
    paper_sgd,
)
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
    "fit_function",
    "paper_sgd",
    "register_head",
    "registered_heads",
    "train",
]
