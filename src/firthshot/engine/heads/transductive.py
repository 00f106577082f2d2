"""Heads that see all queries at once: rows of unit length, and prototypes that the queries move.

Queries of one trial help one another, so that such a head is compared with others of its kind.
BD-CSPN (Liu et al. 2020) and LaplacianShot (Ziko et al. 2020) follow the papers with the settings
of easy-few-shot-learning; PT-MAP (Hu et al. 2021) takes the classes to be equally frequent among
the queries.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import Array
from firthshot.engine.heads.base import TrialShape
from firthshot.engine.heads.block import Answers, Block, BlockHead

if TYPE_CHECKING:
    from firthshot.engine.rows import UnitRows

_SINKHORN = (1000, 1e-6)  # at most so many steps, or until nothing moves by so much


class Transductive(BlockHead):
    """A head without penalty that is told all queries of a trial."""

    penalised = False
    transductive = True

    def classify(self, block: Block) -> Answers:
        """Classify all queries together."""
        block.members()
        means, logits = block.room()
        self.write(block, means, logits)
        return Answers.for_all(block, logits, np.zeros(len(logits)))

    @abstractmethod
    def write(self, block: Block, means: Array, logits: Array) -> None:
        """Write logits (T, K, N + Q) of the queries; ``means`` (T, K, d) is room."""

    def seconds(self, shape: TrialShape, passes: int | None) -> float:
        """Estimate the seconds of a trial: some tens of products of queries and prototypes."""
        del passes
        return 1e-4 + 50 * (shape.Q + shape.N) * (shape.d + shape.Q / 20) * shape.K * 1e-10


@dataclass(frozen=True)
class BdCspn(Transductive):
    """Cosines to prototypes that the queries have rectified (Liu et al. 2020)."""

    scale: float = 10.0  # of the cosines, as the paper has it in training

    name = "bd-cspn"
    words = "BD-CSPN (transductive)"

    def write(self, block: Block, means: Array, logits: Array) -> None:
        """Write scaled cosines of queries and rectified prototypes."""
        from firthshot.engine.prototypes import rectified_cosines

        block.run(rectified_cosines, block.labels, self.scale, means, logits)


@dataclass(frozen=True)
class LaplacianShot(Transductive):
    """Distances to rectified prototypes, smoothed over neighbouring queries (Ziko et al. 2020).

    ``neighbours`` counts the query itself, ``weight`` is λ of the paper.
    """

    neighbours: int = 3
    weight: float = 0.7
    steps: int = 20

    name = "laplacian-shot"
    words = "LaplacianShot (transductive)"

    def write(self, block: Block, means: Array, logits: Array) -> None:
        """Write logits after bound updates of the assignments, until the bound stands still."""
        from firthshot.engine.prototypes import smoothed_distances

        others = min(self.neighbours, len(block.rows.here) - block.shots) - 1
        options = (others, self.steps, self.weight)
        block.run(smoothed_distances, block.labels, options, means, logits)


@dataclass(frozen=True)
class PtMap(Transductive):
    """Power transform, then optimal transport between queries and classes (Hu et al. 2021).

    The paper's features are not negative; of negative ones the root is −√−x.
    """

    steps: int = 10
    rate: float = 0.2
    sharpness: float = 10.0

    name = "pt-map"
    words = "PT-MAP (transductive)"

    def compared(self) -> UnitRows:
        """Return that roots of the features are compared."""
        from firthshot.engine.rows import UnitRows

        return UnitRows(root=True)

    def write(self, block: Block, means: Array, logits: Array) -> None:
        """Write the logarithm of the last transport plan."""
        from firthshot.engine.transport import TransportOptions, transported

        options = TransportOptions(self.steps, self.rate, self.sharpness, *_SINKHORN)
        block.run(transported, block.members(), options, means, logits)
