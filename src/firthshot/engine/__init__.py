"""Many episodes, all coefficients of each trained at once: the paper's training, fast."""

from firthshot.engine._run import train
from firthshot.engine.options import (
    Centroid,
    Converged,
    Cosine,
    LeastSquares,
    Linear,
    Mlp,
    Penalty,
    Sgd,
    paper_sgd,
)
from firthshot.engine.results import Results, Status

__all__ = [
    "Centroid",
    "Converged",
    "Cosine",
    "LeastSquares",
    "Linear",
    "Mlp",
    "Penalty",
    "Results",
    "Sgd",
    "Status",
    "paper_sgd",
    "train",
]
