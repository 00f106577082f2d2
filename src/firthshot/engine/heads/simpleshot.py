"""SimpleShot: the nearest class mean after a transformation of the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.engine.heads.base_classes import BaseFacts
from firthshot.engine.heads.block import Answers, Block, BlockHead

if TYPE_CHECKING:
    from firthshot.engine.rows import UnitRows


@dataclass(frozen=True)
class SimpleShotL2N(BlockHead):
    """Rows of unit length, then the nearest class mean (Wang et al. 2019, "L2N").

    The reference for the cosine head, which also sees directions alone. "UN", the features as they
    are, is the head ``centroid``.
    """

    name = "simpleshot-l2n"
    words = "SimpleShot (L2N)"
    penalised = False

    def classify(self, block: Block) -> Answers:
        """Classify by the nearest class mean m_c of transformed rows: ⟨x, m_c⟩ − ½‖m_c‖²."""
        from firthshot.engine.prototypes import nearest_mean

        block.members()
        means, logits = block.room()
        squares = np.empty(means.shape[:2], means.dtype)
        block.run(nearest_mean, block.labels, means, squares, logits)
        return Answers.for_all(block, logits, squares.sum(1), means=means)


@dataclass(frozen=True)
class SimpleShot(SimpleShotL2N):
    """The mean of the base classes taken off, unit length, nearest class mean ("CL2N")."""

    base: BaseFacts | None = None

    name = "simpleshot"
    words = "SimpleShot (CL2N)"
    needs_base = True

    def compared(self) -> UnitRows:
        """Return that rows are seen from the mean of the base classes."""
        from firthshot.engine.rows import UnitRows

        return UnitRows(None if self.base is None else self.base.mean)
