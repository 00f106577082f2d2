"""A calibrated task: thousands of training rows, and the objective of one coefficient on them.

The objective is that of the converged linear head,

    mean_i [ −Σ_c T_ic log p_ic ] + ½ decay ‖W‖²,      T_ic = label [c = y_i] + target_c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.kernels.mean_loss import MeanLoss, cross_entropy, loss_state

F32 = np.float32


@dataclass(frozen=True)
class CalibrationRows:
    """Training rows of one task, as the kernels want them.

    The rows ``x`` are features minus ``centre``, then a column of ones, then zeros; n and width are
    multiples of 16, and rows past ``count`` are zero.
    """

    x: Array  # (n, width) float32
    labels: Array  # (count,)
    count: int
    centre: Array  # (d,)
    moments: Array  # (width, width) float32, about x'x / count; past the features the identity
    class_means: Array  # (C, width) float32, about the mean row of every class

    @property
    def d(self) -> int:
        """Return the number of features."""
        return len(self.centre)

    def weights(self, theta: Array) -> tuple[Array, Array]:
        """Return coef (C, d) and intercept (C,) for rows that are not centred."""
        coef = theta[:, : self.d].astype(np.float64)
        return coef, theta[:, self.d] - coef @ self.centre


@dataclass(frozen=True)
class CalibrationTerms:
    """One coefficient: p's factor, what is subtracted for the label and for each class, L2."""

    probability: float
    label: float
    target: Array  # (C,)
    decay: float

    @property
    def strength(self) -> float:
        """Return how strongly the coefficient holds the weights back."""
        return float(self.target.sum() / self.label + self.decay)


class CalibrationObjective:
    """The objective of one coefficient, and in ``state`` the state of its loss.

    Arrays have classes along the rows: (C, n) by samples, (C, width) by parameters. Losses are
    computed in float32 and added up in float64; ``dtype`` is that of the parameters.
    """

    def __init__(
        self, rows: CalibrationRows, n_classes: int, terms: CalibrationTerms, dtype: Any = F32
    ) -> None:
        self.rows, self.terms = rows, terms
        n, width = rows.x.shape
        weights, targets = np.zeros(n, F32), np.zeros((n_classes, n), F32)
        weights[: rows.count] = 1 / rows.count
        targets[:, : rows.count] = terms.target[:, None]
        targets[rows.labels, np.arange(rows.count)] += F32(terms.label)
        self.loss = MeanLoss(targets, weights, F32(terms.probability), F32(0.0))
        self.state = loss_state(targets.shape, F32)
        self.decay = np.where(np.arange(width) < rows.d, terms.decay, 0.0).astype(dtype)

    def value(self, theta: Array) -> float:
        """Return the objective at θ, whose logits are those of the state, and fill the state."""
        loss = cross_entropy(self.loss, self.state, 0, len(self.rows.x))
        return float(loss) + self.l2(theta)

    def l2(self, theta: Array) -> float:
        """Return the L2 term at θ."""
        return 0.5 * float((self.decay * theta**2).sum(dtype=np.float64))
