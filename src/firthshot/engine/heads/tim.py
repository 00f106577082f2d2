"""Transductive information maximisation (Boudiaf et al. 2020), with and without Firth.

Prototypes w on rows of unit length have logits −τ/2 ‖w − x‖². They minimise

    ce · loss of the support − H(mean prediction of the queries) + α · mean H(predictions),

and the support's loss is the head's own penalised loss: with Firth, CE(y‖p) + λ KL(U‖p). All
coefficients of a trial are trained side by side, and all trials of a block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array, lengths, unit_length
from firthshot.engine.heads.base import TrialShape
from firthshot.engine.heads.block import Answers, Block, BlockHead
from firthshot.engine.heads.centroid import class_means

_CLOSE = 1e-5  # prototypes of unit rows that move by less have settled


@dataclass(frozen=True)
class _Task:
    """Unit rows (T, N + Q, d), first the support's; its targets (T, L, K, N), which weigh (T, L).

    The rows are kept both ways round, because products with columns in order are twice as fast.
    """

    rows: Array
    columns: Array
    targets: Array
    weight: Array

    @classmethod
    def of(cls, block: Block) -> _Task:
        """Take what is asked of a block."""
        rows = unit_length(np.concatenate([block.support, block.asked], axis=1))
        known = np.eye(block.n_classes, dtype=rows.dtype)[block.labels].transpose(0, 2, 1)[:, None]
        label = np.stack([form.label for form in block.forms])[..., None, None]
        prior = np.stack([form.target.T for form in block.forms])[..., None]
        targets = (label * known + prior).astype(rows.dtype)
        weight = np.stack([form.probability for form in block.forms]).astype(rows.dtype)
        return cls(rows, np.ascontiguousarray(rows.transpose(0, 2, 1)), targets, weight)

    @property
    def shots(self) -> int:
        """Return N, the number of support rows."""
        return int(self.targets.shape[3])


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
        means = class_means(task.rows[:, : task.shots], block.labels, block.n_classes)
        w = self.moved(task, np.repeat(means[:, None], task.weight.shape[1], 1))
        logits = self.logits(task, w)[..., task.shots :]
        return Answers(logits, (w**2).sum((2, 3)), {"prototypes": w})

    def logits(self, task: _Task, w: Array) -> Array:
        """Return −τ/2 ‖w − x‖² (T, L, K, N + Q), but for what all classes share."""
        found = _by_prototype(w, task.columns) - 0.5 * (w**2).sum(3)[..., None]
        return np.asarray(self.temperature * found)

    def moved(self, task: _Task, w: Array) -> Array:
        """Return the prototypes (T, L, K, d) after all steps, or as soon as a trial's settle."""
        share, shots = self.ce / (1 + self.alpha), task.shots
        per_query = shots / (task.rows.shape[1] - shots)
        weight, going = share * task.weight[..., None, None], np.full(len(w), True)
        for _ in range(self.steps):
            log_p = _log_softmax(self.logits(task, w))
            p = np.exp(log_p)
            p[..., :shots] *= weight
            p[..., shots:] *= per_query
            wanted = np.empty_like(p)
            wanted[..., :shots] = share * task.targets
            wanted[..., shots:] = per_query * self._assigned(log_p[..., shots:])
            pulled = _by_prototype(wanted - p, task.rows)
            after = (pulled + p.sum(3)[..., None] * w) / wanted.sum(3)[..., None]
            step = np.abs(after - w).max((1, 2, 3))
            w = np.where(going[:, None, None, None], after, w)
            going &= step >= _CLOSE
            if not going.any():
                break
        return w

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

    def logits(self, task: _Task, w: Array) -> Array:
        """Return the logits (T, L, K, N + Q), by distance or by cosine."""
        if not self.cosine:
            return super().logits(task, w)
        return np.asarray(self.temperature * _by_prototype(unit_length(w), task.columns))

    def moved(self, task: _Task, w: Array) -> Array:
        """Return the prototypes (T, L, K, d) after all steps of Adam."""
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
        by_logits = self._by_logits(task, _log_softmax(self.logits(task, w)))
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
