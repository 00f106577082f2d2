"""The nearest support row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.engine.heads.block import Answers, Block, BlockHead


@dataclass(frozen=True)
class NearestNeighbour(BlockHead):
    """The class of the nearest support row, all rows of unit length; logits are cosines."""

    name = "nearest-neighbour"
    words = "nearest neighbour"
    penalised = False

    def classify(self, block: Block) -> Answers:
        """Give every class the cosine of its nearest row."""
        from firthshot.engine.prototypes import nearest_row

        _, logits = block.room()
        support = np.empty((*block.labels.shape, block.rows.here.shape[1]), logits.dtype)
        block.run(nearest_row, block.labels, support, logits)
        return Answers.for_all(block, logits, np.zeros(len(logits)), rows=support)
