"""How sharply each head speaks in the blend: rules first, left-out rows as they come.

The blend's logits are Σ_h a_h z_h. Each head's z is divided by its own margin: how much more it
gives a class at its own mean than the other classes there. On that scale the best Σ a depends on
the features and hardly on the numbers of classes and rows (`studies/few_shot`), so that one number
serves as a rule. Left-out rows correct it: log a_h has a Gaussian prior around the rule.
"""

from __future__ import annotations

import numpy as np

from firthshot.arrays import Array
from firthshot.objective import log_softmax

# Settled by studies/few_shot on base and validation classes and on public tables.
SHARPNESS = {"unit": 8.0, "scaled": 3.0, "plain": 3.0}  # Σ a, by what was done to the rows
SHARES = {"firth": 1.5, "gaussian": 1.0, "means": 1.0, "neighbours": 0.5}  # of Σ a
TOGETHER, APART = 0.7, 0.7  # spread of log a, of all heads together and of one against the others
DOUBT = 0.25  # rows: the share of N rows that no head foresees, kept for every class alike
STEPS, CLOSE = 30, 1e-7


def margin(logits: Array) -> float:
    """Return how much more a head gives classes at their own means, from (K, K) logits there."""
    n = len(logits)
    own = float(np.trace(logits)) / n
    others = (float(logits.sum()) / n - own) / (n - 1)
    return max(own - others, 0.0)


def settle(
    logits: Array, labels: Array, weights: Array, prior: Array, *, apart: float = APART
) -> Array:
    """Return the most likely a_h, (H,), after some left-out rows.

    Parameters
    ----------
    logits : (H, R, K), of left-out rows by heads without them, divided by their margins
    labels, weights : (R,)
    prior : (H,), the a_h before
    apart : spread of log a_h against the other heads'; 0 keeps their proportions
    """
    prior = np.maximum(prior, 1e-6)
    n, start = len(prior), np.log(prior)
    common = np.full((n, n), 1 / n)
    precision = common / (n * TOGETHER**2)
    if apart:
        precision = precision + (np.eye(n) - common) / apart**2
    directions = np.eye(n) if apart else np.ones((n, 1))
    u, value = start, np.inf
    step = np.zeros(n)
    for _ in range(STEPS):
        for _ in range(20):
            tried = u + step
            loss, gradient, hessian = _likelihood(logits, labels, weights, np.exp(tried))
            away = tried - start
            loss += 0.5 * float(away @ precision @ away)
            if loss <= value + 1e-12:
                break
            step = step / 2
        u, value = tried, loss
        slope = directions.T @ (gradient + precision @ (u - start))
        step = -directions @ np.linalg.solve(
            directions.T @ (hessian + precision) @ directions, slope
        )
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        if float(np.abs(step).max()) < CLOSE:
            break
    return np.exp(u)


def _likelihood(
    logits: Array, labels: Array, weights: Array, a: Array
) -> tuple[float, Array, Array]:
    """Return −log likelihood, its gradient by log a, and a positive part of its Hessian."""
    at = np.arange(len(labels))
    log_p = log_softmax(np.tensordot(a, logits, axes=1))
    p = np.exp(log_p)
    expected = (p * logits).sum(axis=2)
    gradient = a * ((expected - logits[:, at, labels]) @ weights)
    centred = (logits - expected[..., None]) * np.sqrt(p * weights[:, None])
    flat = centred.reshape(len(a), -1)
    return float(-weights @ log_p[at, labels]), gradient, np.outer(a, a) * (flat @ flat.T)
