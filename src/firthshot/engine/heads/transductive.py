"""Heads that see all queries at once: rows of unit length, and prototypes that the queries move.

Queries of one trial help one another, so that such a head is compared with others of its kind.
BD-CSPN (Liu et al. 2020) and LaplacianShot (Ziko et al. 2020) follow the papers with the settings
of easy-few-shot-learning; PT-MAP (Hu et al. 2021) takes the classes to be equally frequent among
the queries.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array, lengths, products, unit_length
from firthshot.engine.heads.base import TrialShape
from firthshot.engine.heads.block import Answers, Block, BlockHead
from firthshot.engine.heads.centroid import class_means

_LEAST = 1e-12
_SINKHORN_STEPS, _SINKHORN_CLOSE = 1000, 1e-6


class Transductive(BlockHead):
    """A head without penalty that is told all queries of a trial."""

    penalised = False
    transductive = True

    def classify(self, block: Block) -> Answers:
        """Classify all queries together."""
        support, asked = self.transformed(block.support), self.transformed(block.asked)
        logits = self.query_logits(support, block.labels, asked, block.n_classes)
        return Answers.for_all(block, logits, np.zeros(len(support)))

    def transformed(self, rows: Array) -> Array:
        """Return the rows as they are compared: of unit length."""
        return unit_length(rows)

    @abstractmethod
    def query_logits(self, support: Array, labels: Array, asked: Array, n_classes: int) -> Array:
        """Return logits (T, K, Q) of queries (T, Q, d)."""

    def seconds(self, shape: TrialShape, passes: int | None) -> float:
        """Estimate the seconds of a trial: some tens of products of queries and prototypes."""
        del passes
        return 1e-4 + 50 * (shape.Q + shape.N) * (shape.d + shape.Q / 20) * shape.K * 1e-10


def rectified(support: Array, labels: Array, asked: Array, n_classes: int) -> Array:
    """Return prototypes (T, K, d) of support and queries, weighted by exp(cosine), as in BD-CSPN.

    Queries are moved so that their mean is that of the support, and belong to the class of their
    nearest prototype.
    """
    prototypes = unit_length(class_means(support, labels, n_classes))
    moved = asked + (support.mean(1) - asked.mean(1))[:, None]
    of_support = _nearness(prototypes, support) * _one_hot(labels, prototypes)
    near = _nearness(prototypes, moved)
    of_query = near * _one_hot(near.argmax(1), prototypes)
    total = of_support.sum(2) + of_query.sum(2)
    found: Array = (of_support @ support + of_query @ moved) / total[..., None]
    return found


def _nearness(prototypes: Array, rows: Array) -> Array:
    """Return exp(cosine) (T, K, n) of unit prototypes and rows."""
    cosines = products(prototypes, rows)
    return np.asarray(np.exp(cosines / np.maximum(lengths(rows), _LEAST)[:, None]))


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

    def query_logits(self, support: Array, labels: Array, asked: Array, n_classes: int) -> Array:
        """Return scaled cosines of queries and rectified prototypes."""
        prototypes = unit_length(rectified(support, labels, asked, n_classes))
        return np.asarray(self.scale * products(prototypes, asked))


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

    def query_logits(self, support: Array, labels: Array, asked: Array, n_classes: int) -> Array:
        """Return logits after bound updates of the assignments, until the bound stands still."""
        distances = squared_distances(rectified(support, labels, asked, n_classes), asked)
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

    def transformed(self, rows: Array) -> Array:
        """Return roots of the features, of unit length."""
        return unit_length(np.copysign(np.sqrt(np.abs(rows)), rows))

    def query_logits(self, support: Array, labels: Array, asked: Array, n_classes: int) -> Array:
        """Return the logarithm of the last transport plan."""
        prototypes = class_means(support, labels, n_classes)
        known = _one_hot(labels, prototypes)
        fixed, shots = known @ support, known.sum(2)
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

        near = 2 * products(prototypes, asked).astype(np.float64)
        near -= (prototypes**2).sum(2, keepdims=True)
        near -= near.max(1, keepdims=True)
        near *= self.sharpness
        plan = np.exp(near)
        balance(plan, _SINKHORN_STEPS, _SINKHORN_CLOSE)
        return plan


def squared_distances(rows: Array, others: Array) -> Array:
    """Return squared distances (T, n, m) of rows (T, n, d) and others (T, m, d)."""
    found = products(rows, others)
    found *= -2
    found += np.einsum("tij,tij->ti", rows, rows)[..., None]
    found += np.einsum("tij,tij->ti", others, others)[:, None]
    return np.asarray(np.maximum(found, 0, out=found))


def _nearest(rows: Array, count: int) -> Array:
    """Return the nearest others (T, n, count − 1) of every row, as numbers in the flat block."""
    trials, n, _ = rows.shape
    distances = squared_distances(rows, rows)
    distances[:, np.arange(n), np.arange(n)] = np.inf
    first = n * np.arange(trials)[:, None]
    found = np.empty((trials, n, min(count, n) - 1), np.int64)
    for at in range(found.shape[2]):
        nearest = distances.argmin(2)
        np.put_along_axis(distances, nearest[..., None], np.inf, axis=2)
        found[..., at] = first + nearest
    return found


def _gathered(p: Array, near: Array) -> Array:
    """Return the sum of the predictions (T, K, n) of every row's neighbours."""
    flat = p.transpose(0, 2, 1).reshape(-1, p.shape[1])
    return np.ascontiguousarray(flat.take(near, axis=0).sum(2).transpose(0, 2, 1))


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))
