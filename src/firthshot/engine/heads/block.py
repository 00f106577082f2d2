"""Trials of one shape side by side, for heads that classify many at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import Array, round_up
from firthshot.engine._trial import Fitted, Trial, scattered
from firthshot.engine.heads.base import Head
from firthshot.engine.options import Solver
from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from firthshot.engine.rows import TrialRows, UnitRows
    from firthshot.objective import PenaltyTables


@dataclass(frozen=True)
class Block:
    """The N + Q rows of T trials as the head compares them, first the support's with labels (T, N).

    ``d`` is the width of a row without its padding to whole vectors.
    """

    n_classes: int
    d: int
    rows: TrialRows
    labels: Array
    forms: tuple[PenaltyTables, ...]  # T penalties

    @property
    def shots(self) -> int:
        """Return N, the number of support rows."""
        return int(self.labels.shape[1])

    @property
    def asked(self) -> slice:
        """Return the queries among the rows."""
        return slice(self.shots, len(self.rows.here))

    def run(self, loop: Callable[..., bool], *arguments: object) -> None:
        """Call a compiled loop on the rows; refuse what is not finite."""
        if not loop(self.rows, *arguments):
            raise FirthshotError("A trial has features that are not finite.")

    def room(self, many: int = 1) -> tuple[Array, Array]:
        """Return room for prototypes (T, many · K, d) and logits (T, many · K, N + Q), padded."""
        from firthshot.kernels.vectors import lanes_of

        (n, d), dtype = self.rows.here.shape, self.rows.here.dtype
        shape = (len(self.labels), many * self.n_classes)
        columns = round_up(n, lanes_of(dtype))
        return np.empty((*shape, d), dtype), np.zeros((*shape, columns), dtype)

    def members(self) -> Array:
        """Return (T, K, N) ones where a support row is of a class; every class must have one."""
        found: Array = self.labels[:, None] == np.arange(self.n_classes)[:, None]
        if not found.any(2).all():
            empty = int(np.argwhere(~found.any(2))[0, 1])
            raise FirthshotError(f"Class {empty} has no support row, so that it has no mean.")
        return found


@dataclass(frozen=True)
class Answers:
    """What a head hands back for a block: logits (T, L, K, Q) and squared norms (T, L)."""

    logits: Array
    norms: Array
    weights: dict[str, Array] = field(default_factory=dict)  # leading axes (T, L)

    @classmethod
    def for_all(cls, block: Block, logits: Array, norms: Array, **weights: Array) -> Answers:
        """Give every coefficient the logits (T, K, N + Q), norms (T,) and weights (T, …, d)."""
        each = len(block.forms[0].label)
        many = {n: np.repeat(w[:, None, ..., : block.d], each, 1) for n, w in weights.items()}
        wide = np.repeat(logits[:, None, :, block.asked], each, 1)
        return cls(wide, np.repeat(norms[:, None], each, 1), many)


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
        rows = self.compared().of(features, np.arange(len(features))[None])
        d = features.shape[1]
        found = self.classify(Block(trial.n_classes, d, rows, trial.labels[None], (form,)))
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
