"""Transductive information maximisation (Boudiaf et al. 2020), with and without Firth.

Prototypes w on rows of unit length have logits −τ/2 ‖w − x‖². They minimise

    ce · loss of the support − H(mean prediction of the queries) + α · mean H(predictions),

and the support's loss is the head's own penalised loss: with Firth, CE(y‖p) + λ KL(U‖p). All
coefficients of a trial are trained side by side, and all trials of a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import Array
from firthshot.engine.heads.base import TrialShape
from firthshot.engine.heads.block import Answers, Block, BlockHead

if TYPE_CHECKING:
    from firthshot.engine.information import TimOptions

_CLOSE = 1e-5  # prototypes of unit rows that move by less have settled


@dataclass(frozen=True)
class Tim(BlockHead):
    """TIM by alternating steps in closed form (ADM), at most so many; ``temperature`` is τ."""

    temperature: float = 15.0
    ce: float = 0.1
    alpha: float = 0.1
    steps: int = 150

    name = "tim"
    words = "TIM (transductive)"
    transductive = True

    def classify(self, block: Block) -> Answers:
        """Move the prototypes of all trials and coefficients together."""
        label = np.stack([form.label for form in block.forms])[..., None, None]
        prior = np.stack([form.target.T for form in block.forms])[..., None]
        members = block.members()
        targets = label * members[:, None] + prior
        shape = targets.shape[:3]
        w, logits = (each.reshape(*shape, -1) for each in block.room(shape[1]))
        facts = (
            members / members.sum(2, keepdims=True),
            targets,
            np.stack([form.probability for form in block.forms]),
        )
        self.move(block, tuple(each.astype(w.dtype) for each in facts), w, logits)
        w = w[..., : block.d]
        return Answers(logits[..., block.asked], (w**2).sum((2, 3)), {"prototypes": w})

    def move(self, block: Block, facts: tuple[Array, ...], w: Array, logits: Array) -> None:
        """Write prototypes (T, L, K, d) and logits after all steps, or once a trial's settle.

        ``facts`` are the shares (T, K, N) of support rows in the class means, where all start, the
        support's targets (T, L, K, N), and what weighs its predictions beside them (T, L).
        """
        from firthshot.engine.information import alternate

        block.run(alternate, *facts, self._options(), w, logits)

    def _options(self, rate: float = 0.0, cosine: bool = False) -> TimOptions:
        from firthshot.engine.information import TimOptions

        loss = (float(self.temperature), float(self.ce), float(self.alpha))
        return TimOptions(*loss, self.steps, float(rate), cosine, _CLOSE)

    def seconds(self, shape: TrialShape, passes: int | None) -> float:
        """Estimate the seconds of a trial: products of all rows and prototypes in every step."""
        del passes
        return self.steps * shape.L * (shape.N + shape.Q) * shape.d * shape.K * 6e-11 + 1e-3


@dataclass(frozen=True)
class TimGd(Tim):
    """TIM by gradient descent: Adam on the prototypes.

    The paper takes 1,000 steps of 1e-4; a tenth of them, ten times as long, end as well.
    ``cosine`` makes the logits τ · cosine, as easy-few-shot-learning has them. Its other settings
    are ``temperature=10``, ``ce=1``, ``steps=50`` and ``rate=1e-4``.
    """

    steps: int = 100
    rate: float = 1e-3
    cosine: bool = False

    name = "tim-gd"
    words = "TIM-GD (transductive)"

    def move(self, block: Block, facts: tuple[Array, ...], w: Array, logits: Array) -> None:
        """Write prototypes and logits after all steps of Adam, which needs features."""
        from firthshot.engine.information import descend

        block.run(descend, *facts, self._options(self.rate, self.cosine), w, logits)
