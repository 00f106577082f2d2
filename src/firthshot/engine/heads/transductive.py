"""Heads that see all queries at once: rows of unit length, and prototypes that the queries move.

Queries of one trial help one another, so that such a head is compared with others of its kind.
BD-CSPN (Liu et al. 2020) and LaplacianShot (Ziko et al. 2020) follow the papers with the settings
of easy-few-shot-learning; PT-MAP (Hu et al. 2021) takes the classes to be equally frequent among
the queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import Array, unit_length
from firthshot.engine.heads.base import Head, TrialShape
from firthshot.engine.heads.centroid import class_means
from firthshot.engine.options import Solver

if TYPE_CHECKING:
    from firthshot.engine._trial import Fitted, Trial
    from firthshot.objective import PenaltyTables

_LEAST = 1e-12
_SINKHORN_STEPS, _SINKHORN_CLOSE = 1000, 1e-6


class Transductive(Head):
    """A head without penalty that is told all queries of a trial."""

    penalised = False
    own_solver = "closed-form"
    transductive = True

    def fit(
        self, trial: Trial, _solver: Solver, form: PenaltyTables, _keep_weights: bool
    ) -> dict[int, Fitted]:
        """Classify all queries together."""
        from firthshot.engine._trial import fitted_for_all, scattered

        support, asked = (self.transformed(X) for X in (trial.support, trial.asked))
        logits = self.query_logits(support, trial.labels, asked, trial.n_classes)
        return fitted_for_all(form, scattered(trial, logits[None]), 0.0, {})

    def transformed(self, rows: Array) -> Array:
        """Return the rows as they are compared: of unit length."""
        return unit_length(rows.astype(np.float64))

    def query_logits(self, support: Array, labels: Array, asked: Array, n_classes: int) -> Array:
        """Return logits (Q, K) of the queries."""
        raise NotImplementedError

    def seconds(self, shape: TrialShape, passes: int | None) -> float:
        """Estimate the seconds of a trial: some tens of products of queries and prototypes."""
        del passes
        return 1e-3 + 50 * (shape.Q + shape.N) * (shape.d + shape.Q / 20) * shape.K * 1e-9


def rectified(support: Array, labels: Array, asked: Array, n_classes: int) -> Array:
    """Return prototypes (K, d) of support and queries, weighted by exp(cosine), as BD-CSPN does.

    Queries are moved so that their mean is that of the support, and belong to the class of their
    nearest prototype.
    """
    prototypes = unit_length(class_means(support, labels, n_classes))
    moved = asked + (support.mean(0) - asked.mean(0))
    near_support, near_query = (np.exp(unit_length(X) @ prototypes.T) for X in (support, moved))
    of_support = np.eye(n_classes)[labels] * near_support
    of_query = np.eye(n_classes)[near_query.argmax(1)] * near_query
    total = of_support.sum(0) + of_query.sum(0)
    found: Array = (of_support.T @ support + of_query.T @ moved) / total[:, None]
    return found


@dataclass(frozen=True)
class BdCspn(Transductive):
    """Cosines to prototypes that the queries have rectified (Liu et al. 2020)."""

    scale: float = 10.0  # of the cosines, as the paper has it in training

    name = "bd-cspn"
    words = "BD-CSPN (transductive)"

    def query_logits(self, support: Array, labels: Array, asked: Array, n_classes: int) -> Array:
        """Return scaled cosines of queries and rectified prototypes."""
        prototypes = rectified(support, labels, asked, n_classes)
        return np.asarray(self.scale * (asked @ unit_length(prototypes).T))


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
        """Return logits after bound updates of the assignments."""
        prototypes = rectified(support, labels, asked, n_classes)
        distances = squared_distances(asked, prototypes)
        graph = _nearest(asked, self.neighbours)
        logits, bound = -distances, np.inf
        for step in range(self.steps):
            logits = self.weight * (graph @ _softmax(logits)) - distances
            p = _softmax(logits)
            before, bound = bound, _bound(p, distances, self.weight * (graph @ p))
            if step > 1 and abs(bound - before) <= 1e-6 * abs(before):
                break
        return np.asarray(logits)


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
        wide = rows.astype(np.float64)
        return unit_length(np.sign(wide) * np.sqrt(np.abs(wide)))

    def query_logits(self, support: Array, labels: Array, asked: Array, n_classes: int) -> Array:
        """Return the logarithm of the last transport plan."""
        known = np.eye(n_classes)[labels]
        prototypes = class_means(support, labels, n_classes)
        for _ in range(self.steps):
            plan = self._transport(squared_distances(asked, prototypes))
            means = (known.T @ support + plan.T @ asked) / (known.sum(0) + plan.sum(0))[:, None]
            prototypes = prototypes + self.rate * (means - prototypes)
        plan = self._transport(squared_distances(asked, prototypes))
        return np.asarray(np.log(plan + _LEAST))

    def _transport(self, costs: Array) -> Array:
        """Return the plan (Q, K) that gives every query one class and every class as many."""
        plan = np.exp(-self.sharpness * (costs - costs.min(1, keepdims=True)))
        for _ in range(_SINKHORN_STEPS):
            rows = plan.sum(1)
            plan /= rows[:, None]
            plan *= len(plan) / plan.shape[1] / np.maximum(plan.sum(0), _LEAST)
            if np.abs(rows - plan.sum(1)).max() < _SINKHORN_CLOSE:
                break
        return np.asarray(plan)


def squared_distances(rows: Array, others: Array) -> Array:
    """Return squared distances (n, m) of rows (n, d) and others (m, d)."""
    squares = (rows**2).sum(1)[:, None] + (others**2).sum(1) - 2 * rows @ others.T
    return np.asarray(np.maximum(squares, 0.0))


def _nearest(rows: Array, count: int) -> Array:
    """Return a matrix (n, n) with ones at the nearest others of every row, itself one of them."""
    distances = squared_distances(rows, rows)
    np.fill_diagonal(distances, np.inf)
    graph, near = np.zeros_like(distances), min(count - 1, len(rows) - 1)
    if near:
        which = np.argpartition(distances, near - 1, axis=1)[:, :near]
        np.put_along_axis(graph, which, 1.0, axis=1)
    return graph


def _softmax(logits: Array) -> Array:
    p = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(p / p.sum(1, keepdims=True))


def _bound(p: Array, distances: Array, pull: Array) -> float:
    return float((p * np.log(p + _LEAST) + (distances - pull) * p).sum())
