"""The nearest class mean, a reference head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import Array
from firthshot.engine.heads.base import Head
from firthshot.engine.options import Solver
from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from firthshot.engine._trial import Fitted, Trial
    from firthshot.objective import PenaltyTables


@dataclass(frozen=True)
class Centroid(Head):
    """Nearest class mean; logits are −½ ‖x − mean‖². No training, no penalty."""

    name = "centroid"
    words = "nearest class mean"
    penalised = False
    reference = True

    def fit(
        self, trial: Trial, _solver: Solver, form: PenaltyTables, keep_weights: bool
    ) -> dict[int, Fitted]:
        """Classify by the nearest class mean m_c: logits ⟨x, m_c⟩ − ½‖m_c‖².

        They are −½‖x − m_c‖² but for ½‖x‖², which all classes of a query share and which would only
        cost digits.
        """
        from firthshot.engine._trial import fitted_for_all, query_logits

        means = class_means(trial.support.astype(np.float64), trial.labels, trial.n_classes)
        intercept = -0.5 * (means**2).sum(1)
        # Logits are the same for means seen from their own centre, and keep more digits there.
        centre = means.mean(0)
        shift = intercept + 0.5 * centre @ centre
        logits = query_logits(trial, (means - centre)[None], shift[None])
        weights = {"coef": means, "intercept": intercept}
        return fitted_for_all(form, logits, (means**2).sum(), weights if keep_weights else {})


def class_means(X: Array, labels: Array, n_classes: int) -> Array:
    """Return the mean row of every class, (…, K, d), of rows (…, N, d) with labels (…, N)."""
    members = np.eye(n_classes, dtype=X.dtype)[labels]
    counts = members.sum(-2)
    if not counts.all():
        empty = int(counts.argmin()) % n_classes
        raise FirthshotError(f"Class {empty} has no support row, so that it has no mean.")
    means: Array = np.swapaxes(members / counts[..., None, :], -1, -2) @ X
    return means
