"""The 3-layer head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from firthshot.engine.heads.base import PRODUCT_SECONDS, Head, TrialShape
from firthshot.engine.options import Sgd, Solver, require

if TYPE_CHECKING:
    from firthshot.engine._trial import Fitted, Trial
    from firthshot.objective import PenaltyTables


@dataclass(frozen=True)
class Mlp(Head):
    """Three layers: features → ``hidden[0]`` → ReLU → ``hidden[1]`` → ReLU → classes."""

    hidden: tuple[int, int] = (100, 50)

    name = "mlp"
    words = "3-layer"
    solvers = (Sgd,)
    spec_fields = ("hidden",)
    estimator = "FirthMLPClassifier"

    def __post_init__(self) -> None:
        require(
            len(self.hidden) == 2 and min(self.hidden) >= 1,
            f"hidden = {self.hidden} must be two positive widths.",
        )

    def fit(
        self, trial: Trial, solver: Solver, form: PenaltyTables, keep_weights: bool
    ) -> dict[int, Fitted]:
        """Train by SGD, the first layer in the span of the support rows."""
        from firthshot.engine.sgd.mlp import fit_mlp

        return fit_mlp(trial, self, solver, form, keep_weights)  # type: ignore[arg-type]

    def published_sgd(self, shots: int | None = None) -> Sgd:
        """Return the published settings."""
        del shots
        return Sgd(epochs=100)

    def parameter_count(self, d: int, n_classes: int) -> int:
        """Return the number of weights and biases of the three layers."""
        first, second = self.hidden
        return d * first + first + first * second + second + second * n_classes + n_classes

    def widest_layer(self, n_classes: int) -> int:
        """Return the wider of the first layer and the classes."""
        return max(self.hidden[0], n_classes)

    def seconds(self, shape: TrialShape, passes: int | None) -> float:
        """Estimate the seconds of a trial: the first layer's product, then the dense layers."""
        N, _, _, K, L = shape
        first, second = self.hidden
        dense = 3 * (first * second + second * K) * 1.5e-10
        return (passes or 0) * L * N * (first * N * PRODUCT_SECONDS + dense + first * 2e-9)
