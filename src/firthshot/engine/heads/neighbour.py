"""The nearest support row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import unit_length
from firthshot.engine.heads.base import Head
from firthshot.engine.options import Solver

if TYPE_CHECKING:
    from firthshot.engine._trial import Fitted, Trial
    from firthshot.objective import PenaltyTables


@dataclass(frozen=True)
class NearestNeighbour(Head):
    """The class of the nearest support row, all rows of unit length; logits are cosines."""

    name = "nearest-neighbour"
    words = "nearest neighbour"
    penalised = False
    own_solver = "closed-form"

    def fit(
        self, trial: Trial, _solver: Solver, form: PenaltyTables, keep_weights: bool
    ) -> dict[int, Fitted]:
        """Give every class the cosine of its nearest row."""
        from firthshot.engine._trial import fitted_for_all, scattered

        support, asked = (unit_length(X.astype(np.float64)) for X in (trial.support, trial.asked))
        cosines = asked @ support.T
        classes = range(trial.n_classes)
        logits = np.stack([cosines[:, trial.labels == c].max(1, initial=-1) for c in classes], 1)
        weights = {"rows": support} if keep_weights else {}
        return fitted_for_all(form, scattered(trial, logits[None]), 0.0, weights)
