"""Many episodes, all coefficients of each trained at once: the paper's training, fast.

`train` trains and scores trials, `solve` brings one linear head to its optimum. The names below are
imported when they are first used: who solves needs no kernel of SGD.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firthshot.engine._heads import fit_function, register_head, registered_heads
    from firthshot.engine._run import FeatureSource, record_trial, train
    from firthshot.engine._trial import Fitted, Trial, fitted_linear
    from firthshot.engine.options import (
        Centroid,
        Converged,
        Cosine,
        Head,
        LeastSquares,
        Linear,
        Mlp,
        Penalty,
        Sgd,
        Solver,
        paper_sgd,
    )
    from firthshot.engine.results import Results, Status
    from firthshot.engine.solvers.optimum import solve
    from firthshot.engine.solvers.problem import Solution

_HOME = {
    "_heads": ("fit_function", "register_head", "registered_heads"),
    "_run": ("FeatureSource", "record_trial", "train"),
    "_trial": ("Fitted", "Trial", "fitted_linear"),
    "options": (
        "Centroid", "Converged", "Cosine", "Head", "LeastSquares", "Linear", "Mlp", "Penalty",
        "Sgd", "Solver", "paper_sgd",
    ),
    "results": ("Results", "Status"),
    "solvers.optimum": ("solve",),
    "solvers.problem": ("Solution",),
}  # fmt: skip

__all__ = [
    "Centroid",
    "Converged",
    "Cosine",
    "FeatureSource",
    "Fitted",
    "Head",
    "LeastSquares",
    "Linear",
    "Mlp",
    "Penalty",
    "Results",
    "Sgd",
    "Solution",
    "Solver",
    "Status",
    "Trial",
    "fit_function",
    "fitted_linear",
    "paper_sgd",
    "record_trial",
    "register_head",
    "registered_heads",
    "solve",
    "train",
]


def __getattr__(name: str) -> object:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"firthshot.engine.{module}"), name)
    raise AttributeError(f"module 'firthshot.engine' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
