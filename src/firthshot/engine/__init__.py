"""Many episodes, all coefficients of each trained at once: the paper's training, fast.

`train` trains and scores trials, `solve` brings one linear head to its optimum. The names below are
imported when they are first used: who solves needs no kernel of SGD.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firthshot.lazy import lazy_names
from firthshot.objective import Penalty

if TYPE_CHECKING:
    from firthshot.engine._record import record_trial
    from firthshot.engine._run import TrialSource, train
    from firthshot.engine._trial import Fitted, Trial, fitted_linear
    from firthshot.engine.heads import (
        BaseFacts,
        BaseGaussian,
        BdCspn,
        Centroid,
        ClassWeights,
        Cosine,
        LaplacianShot,
        LeastSquares,
        Linear,
        LogitAdjustment,
        Mlp,
        NearestNeighbour,
        PtMap,
        RidgeLogistic,
        SharedGaussian,
        SimpleShot,
        SimpleShotL2N,
        Tim,
        TimGd,
    )
    from firthshot.engine.heads.base import (
        Head,
        TrialShape,
        check_trainable,
        paper_sgd,
        register_head,
        registered_heads,
    )
    from firthshot.engine.options import Converged, Sgd, Solver
    from firthshot.engine.results import Results, Status
    from firthshot.engine.solvers.metric import Metric, shared_rows
    from firthshot.engine.solvers.optimum import solve
    from firthshot.engine.solvers.problem import Solution
    from firthshot.engine.solvers.separable import has_recession_direction
    from firthshot.engine.solvers.span import independent_span
    from firthshot.engine.solvers.together import Optima, Problems, minimise_together

__all__ = [
    "BaseFacts",
    "BaseGaussian",
    "BdCspn",
    "Centroid",
    "ClassWeights",
    "Converged",
    "Cosine",
    "Fitted",
    "Head",
    "LaplacianShot",
    "LeastSquares",
    "Linear",
    "LogitAdjustment",
    "Metric",
    "Mlp",
    "NearestNeighbour",
    "Optima",
    "Penalty",
    "Problems",
    "PtMap",
    "Results",
    "RidgeLogistic",
    "Sgd",
    "SharedGaussian",
    "SimpleShot",
    "SimpleShotL2N",
    "Solution",
    "Solver",
    "Status",
    "Tim",
    "TimGd",
    "Trial",
    "TrialShape",
    "TrialSource",
    "check_trainable",
    "fitted_linear",
    "has_recession_direction",
    "independent_span",
    "minimise_together",
    "paper_sgd",
    "record_trial",
    "register_head",
    "registered_heads",
    "shared_rows",
    "solve",
    "train",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_record": "record_trial",
        "_run": "TrialSource train",
        "_trial": "Fitted Trial fitted_linear",
        "heads": "BaseFacts BdCspn Centroid ClassWeights Cosine SharedGaussian BaseGaussian "
        "LaplacianShot LeastSquares Linear LogitAdjustment Mlp NearestNeighbour PtMap "
        "RidgeLogistic SimpleShot SimpleShotL2N Tim TimGd",
        "heads.base": "Head TrialShape check_trainable paper_sgd register_head registered_heads",
        "options": "Converged Sgd Solver",
        "results": "Results Status",
        "solvers.optimum": "solve",
        "solvers.problem": "Solution",
        "solvers.metric": "Metric shared_rows",
        "solvers.separable": "has_recession_direction",
        "solvers.span": "independent_span",
        "solvers.together": "Optima Problems minimise_together",
    },
)
