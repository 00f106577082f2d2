"""SimpleShot: the nearest class mean after a transformation of the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import Array, unit_length
from firthshot.engine.heads.base import Head
from firthshot.engine.heads.base_classes import BaseFacts
from firthshot.engine.heads.centroid import class_means
from firthshot.engine.options import Solver

if TYPE_CHECKING:
    from firthshot.engine._trial import Fitted, Trial
    from firthshot.objective import PenaltyTables


@dataclass(frozen=True)
class SimpleShotL2N(Head):
    """Rows of unit length, then the nearest class mean (Wang et al. 2019, "L2N").

    The reference for the cosine head, which also sees directions alone. "UN", the features as they
    are, is the head ``centroid``.
    """

    name = "simpleshot-l2n"
    words = "SimpleShot (L2N)"
    penalised = False
    own_solver = "closed-form"

    def fit(
        self, trial: Trial, _solver: Solver, form: PenaltyTables, keep_weights: bool
    ) -> dict[int, Fitted]:
        """Classify by the nearest class mean m_c of transformed rows: ⟨x, m_c⟩ − ½‖m_c‖²."""
        from firthshot.engine._trial import fitted_for_all, scattered

        means = class_means(self.transformed(trial.support), trial.labels, trial.n_classes)
        logits = self.transformed(trial.asked) @ means.T - 0.5 * (means**2).sum(1)
        weights = {"means": means} if keep_weights else {}
        return fitted_for_all(
            form, scattered(trial, logits[None]), float((means**2).sum()), weights
        )

    def transformed(self, rows: Array) -> Array:
        """Return the rows as they are compared."""
        return unit_length(rows.astype(np.float64))


@dataclass(frozen=True)
class SimpleShot(SimpleShotL2N):
    """The mean of the base classes taken off, unit length, nearest class mean ("CL2N")."""

    base: BaseFacts | None = None

    name = "simpleshot"
    words = "SimpleShot (CL2N)"
    needs_base = True

    def transformed(self, rows: Array) -> Array:
        """Return the rows seen from the mean of the base classes, of unit length."""
        centre = self.base.mean if self.base is not None else np.zeros(rows.shape[1])
        return unit_length(rows.astype(np.float64) - centre)
