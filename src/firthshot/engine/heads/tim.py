"""Transductive information maximisation (Boudiaf et al. 2020), with and without Firth.

Prototypes w on rows of unit length have logits −τ/2 ‖w − x‖². They minimise

    ce · loss of the support − H(mean prediction of the queries) + α · mean H(predictions),

and the support's loss is the head's own penalised loss: with Firth, CE(y‖p) + λ KL(U‖p). All
coefficients of a trial are trained side by side, and all trials of a block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array, lengths
from firthshot.engine.heads.base import TrialShape
from firthshot.engine.heads.block import Answers, Block, BlockHead
from firthshot.errors import FirthshotError

_CLOSE = 1e-5  # prototypes of unit rows that move by less have settled


@dataclass(frozen=True)
class _Task:
    """Unit rows (T, N + Q, d), first the support's; its targets (T, L, K, N), which weigh (T, L).

    ``known`` (T, K, N) has a one where a support row is of a class.

    The rows are kept both ways round, because products with columns in order are twice as fast.
    """

    rows: Array
    columns: Array
    known: Array
    targets: Array
    weight: Array

    @classmethod
    def of(cls, block: Block) -> _Task:
        """Take what is asked of a block."""
        rows = block.rows
        known = np.eye(block.n_classes, dtype=rows.dtype)[block.labels].transpose(0, 2, 1)
        if not known.any(2).all():
            raise FirthshotError("A class has no support row, so that it has no mean.")
        label = np.stack([form.label for form in block.forms])[..., None, None]
        prior = np.stack([form.target.T for form in block.forms])[..., None]
        targets = (label * known[:, None] + prior).astype(rows.dtype)
        weight = np.stack([form.probability for form in block.forms]).astype(rows.dtype)
        columns = np.ascontiguousarray(rows.transpose(0, 2, 1))
        return cls(rows, columns, known, targets, weight)

    @property
    def shots(self) -> int:
        """Return N, the number of support rows."""
        return int(self.targets.shape[3])

    def means(self) -> Array:
        """Return the weights c (T, L, K, N + Q) of rows that make the means of the classes."""
        trials, many, n_classes, shots = self.targets.shape
        c = np.zeros((trials, many, n_classes, self.rows.shape[1]), self.rows.dtype)
        c[..., :shots] = (self.known / self.known.sum(2, keepdims=True))[:, None]
        return c


class _Mixture:
    """Prototypes c X of all trials, and their products with the rows, c X X'.

    These come from the Gram matrix where the rows are less than twice as many as the features.
    """

    def __init__(self, task: _Task, c: Array) -> None:
        self.task, self.c = task, c
        _, rows, d = task.rows.shape
        self.gram = task.rows @ task.columns if rows < 2 * d else None
        self.products = self._products(c)

    @property
    def squares(self) -> Array:
        """Return the squared lengths of the prototypes (T, L, K)."""
        return np.asarray(np.einsum("tlkn,tlkn->tlk", self.c, self.products))

    def prototypes(self) -> Array:
        """Return c X."""
        return _by_prototype(self.c, self.task.rows)

    def step(self, kept: Array, pulled: Array, going: Array) -> Array:
        """Move to kept c + pulled in trials that are going; return how far products moved (T,)."""
        pulled += kept * self.c
        products = self._products(pulled)
        moved = np.abs(products - self.products).max((1, 2, 3))
        if going.all():
            self.c, self.products = pulled, products
        else:
            self.c[going], self.products[going] = pulled[going], products[going]
        return np.asarray(moved)

    def _products(self, c: Array) -> Array:
        if self.gram is not None:
            return _by_prototype(c, self.gram)
        return _by_prototype(_by_prototype(c, self.task.rows), self.task.columns)


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
        task = _Task.of(block)
        w = self.moved(task, task.means())
        logits = self.logits(_by_prototype(w, task.columns), w)[..., task.shots :]
        return Answers(logits, (w**2).sum((2, 3)), {"prototypes": w})

    def logits(self, products: Array, w: Array) -> Array:
        """Return −τ/2 ‖w − x‖² but for what all classes share, given ⟨w, x⟩ (T, L, K, N + Q)."""
        return self.by_distance(products, (w**2).sum(3))

    def by_distance(self, products: Array, squares: Array) -> Array:
        """Return the same, given ‖w‖² (T, L, K)."""
        return np.asarray(self.temperature * (products - 0.5 * squares[..., None]))

    def moved(self, task: _Task, c: Array) -> Array:
        """Return the prototypes (T, L, K, d) after all steps, or as soon as a trial's settle.

        They start at ``c`` X and stay combinations of the rows.
        """
        share, shots = self.ce / (1 + self.alpha), task.shots
        per_query = shots / (task.rows.shape[1] - shots)
        weight, going = share * task.weight[..., None, None], np.full(len(c), True)
        mix = _Mixture(task, c)
        for _ in range(self.steps):
            log_p = _log_softmax(self.by_distance(mix.products, mix.squares))
            p = np.exp(log_p)
            p[..., :shots] *= weight
            p[..., shots:] *= per_query
            wanted = np.empty_like(p)
            wanted[..., :shots] = share * task.targets
            wanted[..., shots:] = per_query * self._assigned(log_p[..., shots:])
            total = wanted.sum(3, keepdims=True)
            kept = p.sum(3, keepdims=True) / total
            wanted -= p
            wanted /= total
            going &= mix.step(kept, wanted, going) >= _CLOSE
            if not going.any():
                break
        return mix.prototypes()

    def _assigned(self, log_p: Array) -> Array:
        """Return the assignments that maximise the information, given predictions (T, L, K, Q)."""
        powered = np.exp((1 + self.alpha) * log_p)
        powered /= np.sqrt(powered.sum(3, keepdims=True))
        powered /= powered.sum(2, keepdims=True)
        return powered

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

    def logits(self, products: Array, w: Array) -> Array:
        """Return the logits (T, L, K, N + Q), by distance or by cosine."""
        if not self.cosine:
            return super().logits(products, w)
        return np.asarray(products * (self.temperature / lengths(w))[..., None])

    def moved(self, task: _Task, c: Array) -> Array:
        """Return the prototypes (T, L, K, d) after all steps of Adam, which needs features."""
        w = _by_prototype(c, task.rows)
        first, second = np.zeros_like(w), np.zeros_like(w)
        for step in range(1, self.steps + 1):
            gradient = self.gradient(task, w)
            first += 0.1 * (gradient - first)
            gradient *= gradient
            gradient -= second
            second += 0.001 * gradient
            unbiased = float(np.sqrt(1 - 0.999**step))
            size = np.sqrt(second)
            size += 1e-8 * unbiased
            w = w - self.rate * unbiased / (1 - 0.9**step) * (first / size)
        return w

    def gradient(self, task: _Task, w: Array) -> Array:
        """Return the derivative of the objective by the prototypes."""
        logits = self.logits(_by_prototype(w, task.columns), w)
        by_logits = self._by_logits(task, _log_softmax(logits))
        by_logits *= self.temperature
        found = _by_prototype(by_logits, task.rows)
        if not self.cosine:
            return np.asarray(found - by_logits.sum(3)[..., None] * w)
        size = lengths(w)[..., None]
        found -= (found * w).sum(3, keepdims=True) / size**2 * w
        return np.asarray(found / size)

    def _by_logits(self, task: _Task, log_p: Array) -> Array:
        """Return the derivative of the objective by the logits (T, L, K, N + Q)."""
        shots, p = task.shots, np.exp(log_p)
        queries = p.shape[3] - shots
        held, asked = p[..., :shots], p[..., shots:]
        slope = np.log(asked.mean(3, keepdims=True)) - self.alpha * log_p[..., shots:]
        slope -= (asked * slope).sum(2, keepdims=True)
        asked *= slope / queries
        held *= task.weight[..., None, None]
        held -= task.targets
        held *= self.ce / shots
        return p


def _by_prototype(left: Array, right: Array) -> Array:
    """Return (T, L, K, m): left (T, L, K, n) of all prototypes of a trial times right (T, n, m)."""
    trials, many, n_classes, n = left.shape
    product = left.reshape(trials, many * n_classes, n) @ right
    return np.asarray(product.reshape(trials, many, n_classes, -1))


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(2, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(2, keepdims=True)))
