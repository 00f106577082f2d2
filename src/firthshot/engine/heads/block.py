"""Trials of one shape side by side, for heads that classify many at once."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import Array
from firthshot.engine._trial import Fitted, Trial, scattered
from firthshot.engine.heads.base import Head
from firthshot.engine.options import Solver

if TYPE_CHECKING:
    from firthshot.engine.rows import UnitRows
    from firthshot.objective import PenaltyTables


@dataclass(frozen=True)
class Block:
    """Rows (T, N + Q, d) as the head compares them, first the support's, its labels (T, N)."""

    n_classes: int
    rows: Array
    labels: Array
    forms: tuple[PenaltyTables, ...]  # T penalties

    @property
    def shots(self) -> int:
        """Return N, the number of support rows."""
        return int(self.labels.shape[1])

    @property
    def support(self) -> Array:
        """Return the support rows (T, N, d)."""
        return self.rows[:, : self.shots]

    @property
    def asked(self) -> Array:
        """Return the queries (T, Q, d)."""
        return self.rows[:, self.shots :]


@dataclass(frozen=True)
class Answers:
    """What a head hands back for a block: logits (T, L, K, Q) and squared norms (T, L)."""

    logits: Array
    norms: Array
    weights: dict[str, Array] = field(default_factory=dict)  # leading axes (T, L)

    @classmethod
    def for_all(cls, block: Block, logits: Array, norms: Array, **weights: Array) -> Answers:
        """Give every coefficient the same logits (T, K, Q), norms (T,) and weights (T, …)."""
        each = len(block.forms[0].label)
        many = {name: np.repeat(w[:, None], each, 1) for name, w in weights.items()}
        return cls(np.repeat(logits[:, None], each, 1), np.repeat(norms[:, None], each, 1), many)


class BlockHead(Head):
    """A head on unit rows, in closed form, that classifies all trials of a block at once.

    Every trial is computed alone: what a block holds beside it changes no bit of its answers.
    """

    own_solver = "closed-form"

    def fit(
        self, trial: Trial, _solver: Solver, form: PenaltyTables, keep_weights: bool
    ) -> dict[int, Fitted]:
        """Classify a block of one trial."""
        features = np.concatenate([trial.support, trial.asked])
        rows = self.compared().gather(features, np.arange(len(features))[None])
        found = self.classify(Block(trial.n_classes, rows, trial.labels[None], (form,)))
        weights = {name: w[0] for name, w in found.weights.items()} if keep_weights else {}
        logits = scattered(trial, found.logits[0].transpose(0, 2, 1))
        return {0: Fitted(logits, found.norms[0], weights)}

    def compared(self) -> UnitRows:
        """Return how rows are compared: by their directions."""
        from firthshot.engine.rows import UnitRows

        return UnitRows()

    @abstractmethod
    def classify(self, block: Block) -> Answers:
        """Classify the queries of every trial."""
