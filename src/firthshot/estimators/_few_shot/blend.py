"""How much each head and each kind of columns counts: rules first, left-out rows as they come.

Within a kind of columns the logits are Σ_h a_h z_h. Each head's z is divided by its own margin: how
much more it gives a class at its own mean than the other classes there. A rule sets a_h, and log
a_h has a Gaussian prior around it, which left-out rows correct. The kinds of columns, and a kind
that knows nothing, are then mixed by what left-out rows say of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array
from firthshot.objective import log_softmax

# Settled by studies/few_shot on base and validation classes and on public tables.
# The share of the Firth head is for classes of as many rows each, and smaller otherwise.
SHARES = {"firth": 2.0, "gaussian": 1.0, "means": 1.0, "neighbours": 0.15}
SHARPEST = 8.0  # a head whose own margin is larger counts as if it were this
SHARPNESS, CLASSES_APART, POWER = 7.0, 16.0, 0.7  # Σ a for classes so far apart, and how it grows
LEAST_SHARP, MOST_SHARP = 0.3, 20.0
TOGETHER, APART = 0.7, 1.0  # spread of log a, of all heads together and of one against the others
USUAL = 1.0  # head start of scaled columns among the kinds of a table, in log-odds
NOTHING = {"table": 0.0, "embedding": -3.0}  # the same of a kind that knows nothing
EVIDENCE = 0.5  # share of the left-out log-likelihood that speaks for a kind of columns
LEAST = 0.02  # weight below which a kind is left away
DOUBT = 0.25  # rows: the share of N rows that no head foresees, kept for every class alike
STEPS, CLOSE = 30, 1e-2


@dataclass(frozen=True)
class Blend:
    """What was settled for S kinds of columns and H heads.

    Attributes
    ----------
    sharpness : (S, H), the a_h
    weights : (S,), of the kinds; what they lack to 1 is for all classes alike
    """

    sharpness: Array
    weights: Array


def rule(shares: Array, margins: Array, apart: Array, *, fixed: bool) -> Array:
    """Return the a_h before any row is left out, (S, H).

    The farther apart the classes are, the sharper the blend. A head's own margin says how much it
    has to say beside the others.

    Parameters
    ----------
    shares : (H,), of the heads; margins : (S, H), theirs; apart : (S,), as in `FittedHeads`
    fixed : whether the proportions of the heads are the shares
    """
    a = shares * (1.0 if fixed else np.clip(margins, 1e-3, SHARPEST))
    sharpness = SHARPNESS * (apart / CLASSES_APART) ** POWER
    total = np.clip(sharpness, LEAST_SHARP, MOST_SHARP)[:, None]
    return np.asarray(np.broadcast_to(a / a.sum(axis=-1, keepdims=True), margins.shape) * total)


def blend(
    left_out: Array,
    labels: Array,
    evidence: Array,
    start: Array,
    head_start: Array,
    *,
    fixed: bool,
    log_prior: Array | None = None,
) -> Blend:
    """Return what rule and left-out rows settle together.

    Parameters
    ----------
    left_out : (S, H, R, K), logits of left-out rows on the margin scale
    labels, evidence : (R,), with weights
    start : (S, H), what the rule says
    head_start : (S + 1,), log-odds of the kinds before, the last of which knows nothing
    fixed : whether the proportions of the heads stay
    log_prior : (K,), of the classes among the rows that the evidence stands for; alike if None
    """
    if log_prior is None:
        log_prior = np.full(left_out.shape[-1], -np.log(left_out.shape[-1]))
    sharpness, loss = settle(
        left_out, labels, evidence, start, 0.0 if fixed else APART, log_prior=log_prior
    )
    nothing = -float(evidence @ log_prior[labels])
    odds = head_start - EVIDENCE * np.append(loss, nothing)
    weights = np.exp(odds - odds.max())
    weights[:-1] *= weights[:-1] > LEAST * weights[:-1].sum()
    return Blend(sharpness, weights[:-1] / weights.sum())


def settle(
    logits: Array,
    labels: Array,
    weights: Array,
    start: Array,
    apart: float = APART,
    log_prior: Array | float = 0.0,
) -> tuple[Array, Array]:
    """Return the most likely a_h (S, H) after some left-out rows, and the loss there (S,).

    Parameters
    ----------
    logits : (S, H, R, K), of left-out rows by heads without them
    labels, weights : (R,)
    start : (S, H), the a_h before
    apart : spread of log a_h against the other heads'; 0 keeps their proportions
    log_prior : (K,), added to the blend's logits
    """
    n, first = start.shape[1], np.log(np.maximum(start, 1e-6))
    common = np.full((n, n), 1 / n)
    precision = common / (n * TOGETHER**2) + ((np.eye(n) - common) / apart**2 if apart else 0.0)
    ways = np.eye(n) if apart else np.ones((n, 1))
    u, value = first, np.full(len(start), np.inf)
    step = np.zeros_like(u)
    if not weights.sum():
        return np.exp(u), np.zeros(len(start))
    for _ in range(STEPS):
        for _ in range(20):
            tried = u + step
            loss, gradient, hessian = _likelihood(logits, labels, weights, np.exp(tried), log_prior)
            away = tried - first
            loss += 0.5 * np.vecdot(away, away @ precision)
            worse = loss > value + 1e-12
            if not worse.any():
                break
            step[worse] /= 2
        u, value = tried, loss
        slope = (gradient + away @ precision) @ ways
        step = -np.linalg.solve(ways.T @ (hessian + precision) @ ways, slope[..., None])[..., 0]
        step = step @ ways.T
        largest = np.abs(step).max(axis=1, keepdims=True)
        if largest.max() < CLOSE:
            break
        step *= np.minimum(1.0, 2.0 / np.maximum(largest, 1e-300))
    return np.exp(u), value


def _likelihood(
    logits: Array, labels: Array, weights: Array, a: Array, log_prior: Array | float = 0.0
) -> tuple[Array, Array, Array]:
    """Return −log likelihood, its gradient by log a, and a positive part of its Hessian."""
    at = np.arange(len(labels))
    n_kinds, n_heads, n_rows, n_classes = logits.shape
    mixed = a[:, None] @ logits.reshape(n_kinds, n_heads, -1)
    log_p = mixed.reshape(n_kinds, n_rows, n_classes) + log_prior
    log_p -= log_p.max(axis=-1, keepdims=True)
    p = np.exp(log_p)
    total = p.sum(axis=-1, keepdims=True)
    log_p -= np.log(total)
    p = (p / total)[:, None]
    expected = np.vecdot(p, logits)
    gradient = a * ((expected - logits[:, :, at, labels]) @ weights)
    centred = (logits - expected[..., None]) * np.sqrt(p * weights[:, None])
    flat = centred.reshape(n_kinds, n_heads, -1)
    hessian = a[:, :, None] * a[:, None] * (flat @ flat.mT)
    return -log_p[:, at, labels] @ weights, gradient, hessian


def mixed(log_p: list[Array], weights: Array, log_prior: Array, n_rows: float) -> Array:
    """Return log probabilities (n, K) by those of the kinds, corrected for the classes' prior."""
    doubt = DOUBT / n_rows
    p = sum(w * np.exp(one) for w, one in zip(weights, log_p, strict=True))
    nothing = left_to_nothing(weights, n_rows) / len(log_prior)
    return log_softmax(np.log((1 - doubt) * p + nothing) + log_prior)


def left_to_nothing(weights: Array, n_rows: float) -> float:
    """Return the share of all classes alike, by the weights of the kinds and a little doubt."""
    doubt = DOUBT / n_rows
    return doubt + (1 - doubt) * (1 - float(weights.sum()))
