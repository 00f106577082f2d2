"""The cosine head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from firthshot.engine.heads.base import PRODUCT_SECONDS, TERM_SECONDS, Head, TrialShape
from firthshot.engine.options import Sgd, Solver, require_number

if TYPE_CHECKING:
    from firthshot.engine._trial import Fitted, Trial
    from firthshot.objective import PenaltyTables


@dataclass(frozen=True)
class Cosine(Head):
    """Logits scale · g_c ⟨v_c/‖v_c‖, x/(‖x‖ + 1e-5)⟩ with v and the class norms g trained.

    ``scale=None`` is the published rule: 2, and 10 above 200 classes. The start is the default of a
    linear layer (uniform ± 1/√d), g the norms of its rows.
    """

    scale: float | None = None

    name = "cosine"
    solvers = (Sgd,)
    published_l2 = (1e-3, "weight-decay")
    spec_fields = ("scale",)
    estimator = "FirthCosineClassifier"

    def __post_init__(self) -> None:
        if self.scale is not None:
            require_number("scale", self.scale, 0, open_low=True)

    def scale_for(self, n_classes: int) -> float:
        """Return the factor of the cosines: the head's own, or the published one."""
        from firthshot.objective import cosine_scale

        return self.scale if self.scale is not None else cosine_scale(n_classes)

    def fit(
        self, trial: Trial, solver: Solver, form: PenaltyTables, keep_weights: bool
    ) -> dict[int, Fitted]:
        """Train by SGD in the span of the support rows."""
        from firthshot.engine.sgd.cosine import fit_cosine

        return fit_cosine(trial, self, solver, form, keep_weights)  # type: ignore[arg-type]

    def published_sgd(self, shots: int | None = None) -> Sgd:
        """Return the published settings: more passes for 1 shot."""
        epochs = 301 if shots == 1 else 101
        return Sgd(0.01, 0.9, 0.9, batch_size=4, epochs=epochs, scale_partial=False)

    def seconds(self, shape: TrialShape, passes: int | None) -> float:
        """Estimate the seconds of a trial, in which no step depends on the features' size."""
        N, _, _, K, L = shape
        return (passes or 0) * N * K * L * (TERM_SECONDS + N * PRODUCT_SECONDS)
