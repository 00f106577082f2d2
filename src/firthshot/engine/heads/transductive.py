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

from firthshot.arrays import Array, products, unit_length
from firthshot.engine.heads.base import TrialShape
from firthshot.engine.heads.block import Answers, Block, BlockHead
from firthshot.engine.heads.centroid import class_means

if TYPE_CHECKING:
    from firthshot.engine.rows import UnitRows

_LEAST = 1e-12
_SINKHORN_STEPS, _SINKHORN_CLOSE = 1000, 1e-6


class Transductive(BlockHead):
    """A head without penalty that is told all queries of a trial."""

    penalised = False
    transductive = True

    def classify(self, block: Block) -> Answers:
        """Classify all queries together."""
        return Answers.for_all(block, self.query_logits(block), np.zeros(len(block.rows)))

    @abstractmethod
    def query_logits(self, block: Block) -> Array:
        """Return logits (T, K, Q)."""

    def seconds(self, shape: TrialShape, passes: int | None) -> float:
        """Estimate the seconds of a trial: some tens of products of queries and prototypes."""
        del passes
        return 1e-4 + 50 * (shape.Q + shape.N) * (shape.d + shape.Q / 20) * shape.K * 1e-10


def rectified(block: Block) -> Array:
    """Return prototypes (T, K, d) of support and queries, weighted by exp(cosine), as in BD-CSPN.

    Queries are moved so that their mean is that of the support, and belong to the class of their
    nearest prototype. ⟨w, x + s⟩ = ⟨w, x⟩ + ⟨w, s⟩, so that no row is copied for it.
    """
    shots, rows = block.shots, block.rows
    prototypes = unit_length(class_means(block.support, block.labels, block.n_classes))
    shift = (block.support.mean(1) - block.asked.mean(1))[:, None]
    found = products(np.concatenate([prototypes, shift], axis=1), rows)
    cosines, along = found[:, :-1], found[:, -1, shots:]
    cosines[..., shots:] += prototypes @ shift.transpose(0, 2, 1)
    squares = 1 + 2 * along + np.einsum("tkj,tkj->t", shift, shift)[:, None]
    cosines[..., shots:] /= np.sqrt(np.maximum(squares, _LEAST))[:, None]
    guessed = cosines[..., shots:].argmax(1)
    belongs = _one_hot(np.concatenate([block.labels, guessed], axis=1), prototypes)
    weights = np.exp(cosines) * belongs
    weights /= weights.sum(2, keepdims=True)
    moved: Array = weights @ rows
    moved += weights[..., shots:].sum(2)[..., None] * shift
    return moved


def _one_hot(labels: Array, prototypes: Array) -> Array:
    """Return (T, K, n) ones where a row has the class."""
    classes = np.arange(prototypes.shape[1])[:, None]
    return np.asarray(labels[:, None] == classes, prototypes.dtype)


@dataclass(frozen=True)
class BdCspn(Transductive):
    """Cosines to prototypes that the queries have rectified (Liu et al. 2020)."""

    scale: float = 10.0  # of the cosines, as the paper has it in training

    name = "bd-cspn"
    words = "BD-CSPN (transductive)"

    def query_logits(self, block: Block) -> Array:
        """Return scaled cosines of queries and rectified prototypes."""
        prototypes = self.scale * unit_length(rectified(block))
        return products(prototypes, block.asked)


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

    def query_logits(self, block: Block) -> Array:
        """Return logits after bound updates of the assignments, until the bound stands still."""
        asked, prototypes = block.asked, rectified(block)
        distances = products(-2 * prototypes, asked)
        distances += 1 + np.einsum("tij,tij->ti", prototypes, prototypes)[..., None]
        near = _nearest(asked, self.neighbours)
        logits, bound, going = -distances, np.full(len(asked), np.inf), np.full(len(asked), True)
        pull = self.weight * _gathered(np.exp(_log_softmax(logits)), near)
        for step in range(self.steps):
            logits = np.where(going[:, None, None], pull - distances, logits)
            log_p = _log_softmax(logits)
            p = np.exp(log_p)
            pull = self.weight * _gathered(p, near)
            before, bound = bound, (p * (log_p + distances - pull)).sum((1, 2))
            if step > 1:
                going &= np.abs(bound - before) > 1e-6 * np.abs(before)
            if not going.any():
                break
        return logits


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

    def query_logits(self, block: Block) -> Array:
        """Return the logarithm of the last transport plan."""
        asked = block.asked
        prototypes = class_means(block.support, block.labels, block.n_classes)
        shots = _one_hot(block.labels, prototypes).sum(2)
        fixed = shots[..., None] * prototypes
        for _ in range(self.steps):
            plan = self._transport(prototypes, asked).astype(asked.dtype)
            means = (fixed + plan @ asked) / (shots + plan.sum(2))[..., None]
            prototypes = prototypes + self.rate * (means - prototypes)
        return np.log(self._transport(prototypes, asked) + _LEAST).astype(asked.dtype)

    def _transport(self, prototypes: Array, asked: Array) -> Array:
        """Return the plan (T, K, Q) that gives every query one class and every class as many.

        Costs are ‖w − x‖², but for ‖x‖², which all classes of a query share.
        """
        from firthshot.engine.transport import balance

        near = products(2 * self.sharpness * prototypes, asked)
        near -= self.sharpness * (prototypes**2).sum(2, keepdims=True)
        near -= near.max(1, keepdims=True)
        plan = np.exp(near).astype(np.float64)
        balance(plan, _SINKHORN_STEPS, _SINKHORN_CLOSE)
        return plan


def _nearest(rows: Array, count: int) -> Array:
    """Return the nearest others (T, n, count − 1) of every unit row, as numbers in the flat block.

    They have the largest cosines.
    """
    from firthshot.engine.rows import largest_others

    cosines = rows @ rows.transpose(0, 2, 1)
    found = np.empty((*rows.shape[:2], min(count, rows.shape[1]) - 1), np.int64)
    for t, here in enumerate(cosines):
        largest_others(here, found[t])
    found += rows.shape[1] * np.arange(len(rows))[:, None, None]
    return found


def _gathered(p: Array, near: Array) -> Array:
    """Return the sum of the predictions (T, K, n) of every row's neighbours."""
    flat = p.transpose(0, 2, 1).reshape(-1, p.shape[1])
    return np.ascontiguousarray(flat.take(near, axis=0).sum(2).transpose(0, 2, 1))


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))
