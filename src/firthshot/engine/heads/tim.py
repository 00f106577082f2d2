"""Transductive information maximisation (Boudiaf et al. 2020), with and without Firth.

Prototypes w on rows of unit length have logits −τ/2 ‖w − x‖². They minimise

    ce · loss of the support − H(mean prediction of the queries) + α · mean H(predictions),

and the support's loss is the head's own penalised loss: with Firth, CE(y‖p) + λ KL(U‖p). All
coefficients of a trial are trained side by side.
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
_CLOSE = 1e-5  # prototypes of unit rows that move by less have settled


@dataclass(frozen=True)
class _Episode:
    """Unit rows of support (N, d) and queries (Q, d), and the targets of the support (L, N, K)."""

    support: Array
    asked: Array
    targets: Array
    weight: Array  # (L,), what the targets of a row sum to


@dataclass(frozen=True)
class Tim(Head):
    """TIM by alternating steps in closed form (ADM), at most so many; ``temperature`` is τ."""

    temperature: float = 15.0
    ce: float = 0.1
    alpha: float = 0.1
    steps: int = 150

    name = "tim"
    words = "TIM (transductive)"
    own_solver = "closed-form"
    transductive = True

    def fit(
        self, trial: Trial, _solver: Solver, form: PenaltyTables, keep_weights: bool
    ) -> dict[int, Fitted]:
        """Move the prototypes of all coefficients together."""
        from firthshot.engine._trial import Fitted, scattered

        episode = _episode(trial, form)
        means = class_means(episode.support, trial.labels, trial.n_classes)
        start = np.repeat(means[None].astype(trial.dtype), len(form.label), 0)
        prototypes = self.moved(episode, start)
        logits = self.logits(episode.asked, prototypes)
        weights = {"prototypes": prototypes.astype(trial.dtype)} if keep_weights else {}
        norms = (prototypes**2).sum((1, 2))
        return {0: Fitted(scattered(trial, logits), norms, weights)}

    def logits(self, rows: Array, prototypes: Array) -> Array:
        """Return −τ/2 ‖w − x‖² (L, n, K), but for what all classes share."""
        products = rows @ prototypes.transpose(0, 2, 1)
        return np.asarray(self.temperature * (products - 0.5 * (prototypes**2).sum(2)[:, None]))

    def moved(self, episode: _Episode, w: Array) -> Array:
        """Return the prototypes (L, K, d) after all steps."""
        share = self.ce / (1 + self.alpha)
        per_query = len(episode.support) / len(episode.asked)
        for _ in range(self.steps):
            p_support, p_query = (
                _softmax(self.logits(X, w)) for X in (episode.support, episode.asked)
            )
            q = self._assigned(p_query)
            held = share * (episode.targets - episode.weight[:, None, None] * p_support)
            pulled = per_query * (q - p_query)
            kept = share * episode.weight[:, None] * p_support.sum(1) + per_query * p_query.sum(1)
            total = share * episode.targets.sum(1) + per_query * q.sum(1)
            moved = held.transpose(0, 2, 1) @ episode.support
            moved += pulled.transpose(0, 2, 1) @ episode.asked
            before, w = w, (moved + kept[..., None] * w) / total[..., None]
            if np.abs(w - before).max() < _CLOSE:
                break
        return w

    def _assigned(self, p: Array) -> Array:
        """Return the assignments that maximise the information, given predictions (L, Q, K)."""
        powered = p ** (1 + self.alpha)
        q = powered / np.sqrt(powered.sum(1, keepdims=True))
        return np.asarray(q / q.sum(2, keepdims=True))

    def seconds(self, shape: TrialShape, passes: int | None) -> float:
        """Estimate the seconds of a trial: products of all rows and prototypes in every step."""
        del passes
        return self.steps * shape.L * (shape.N + shape.Q) * shape.d * shape.K * 4e-10 + 1e-3


@dataclass(frozen=True)
class TimGd(Tim):
    """TIM by gradient descent: Adam on the prototypes, as easy-few-shot-learning has it.

    The paper takes 1,000 steps of 1e-4; a tenth of them, ten times as long, end as well.
    """

    steps: int = 100
    rate: float = 1e-3

    name = "tim-gd"
    words = "TIM-GD (transductive)"

    def moved(self, episode: _Episode, w: Array) -> Array:
        """Return the prototypes (L, K, d) after all steps of Adam."""
        first, second = np.zeros_like(w), np.zeros_like(w)
        for step in range(1, self.steps + 1):
            gradient = self.gradient(episode, w)
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient**2 - second)
            size = self.rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            w = w - size * first / (np.sqrt(second) + 1e-8 * np.sqrt(1 - 0.999**step))
        return w

    def gradient(self, episode: _Episode, w: Array) -> Array:
        """Return the derivative of the objective by the prototypes."""
        p_support, p_query = (_softmax(self.logits(X, w)) for X in (episode.support, episode.asked))
        wanted = episode.weight[:, None, None] * p_support - episode.targets
        by_support = self.ce * wanted / len(episode.support)
        by_query = self._information(p_query) / len(episode.asked)
        found = by_support.transpose(0, 2, 1) @ episode.support
        found += by_query.transpose(0, 2, 1) @ episode.asked
        found -= (by_support.sum(1) + by_query.sum(1))[..., None] * w
        return np.asarray(self.temperature * found)

    def _information(self, p: Array) -> Array:
        """Return Q times the derivative of −H(mean p) + α mean H(p) by the logits."""
        log_p, log_mean = np.log(p + _LEAST), np.log(p.mean(1, keepdims=True))
        slope = log_mean - self.alpha * log_p
        return np.asarray(p * (slope - (p * slope).sum(2, keepdims=True)))


def _episode(trial: Trial, form: PenaltyTables) -> _Episode:
    support, asked = (unit_length(X) for X in (trial.support, trial.asked))
    known = np.eye(trial.n_classes)[trial.labels]
    targets = form.label[:, None, None] * known + form.target.T[:, None, :]
    weight = np.asarray(form.probability, trial.dtype)
    return _Episode(support, asked, targets.astype(trial.dtype), weight)


def _softmax(logits: Array) -> Array:
    p = np.exp(logits - logits.max(2, keepdims=True))
    return np.asarray(p / p.sum(2, keepdims=True))
