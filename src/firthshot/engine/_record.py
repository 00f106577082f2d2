"""Score what heads hand back, and write it into the results."""

from __future__ import annotations

import numpy as np

from firthshot.arrays import Array, round_up
from firthshot.engine._queries import Logits
from firthshot.engine._trial import Fitted
from firthshot.engine.heads.block import Answers
from firthshot.engine.results import Results, Status


def record_trial(results: Results, t: int, labels: Array, columns: Array, fitted: Fitted) -> None:
    """Score one trial and write its row; ``labels`` are those of the columns of its logits."""
    status = None if fitted.status is None else fitted.status[None]
    at, outputs, norms = slice(t, t + 1), fitted.outputs, fitted.norms[None]
    if isinstance(outputs, Logits) and not {"predictions", "probabilities"} & set(results.kept):
        _score_parts(results, t, outputs, labels)
        _record_ends(results, at, norms, status)
    else:
        _record(results, at, fitted.logits[None], labels[None], columns, norms, status)
    if "weights" in results.kept:
        results.kept["weights"][t] = fitted.weights


def _score_parts(results: Results, t: int, logits: Logits, labels: Array) -> None:
    """Score the queries of one trial part by part."""
    from firthshot.engine.scoring import add_scores, finish_scores

    sums, bins = np.zeros((len(results.coefficients), 3)), results.bins[t]
    bins[:] = 0
    for columns, part in logits.parts():
        predicted = np.empty(part.shape[1:], np.int32)
        add_scores(part, labels[columns], predicted, sums, bins)
    finish_scores(
        sums, (labels >= 0).sum(), results.accuracy[t], results.nll[t], results.brier[t],
        results.ece[t], bins,
    )  # fmt: skip


def record_block(results: Results, trials: range, labels: Array, answers: Answers) -> None:
    """Score the trials of a block, whose queries have the labels (T, Q), and write their rows."""
    from firthshot.kernels.vectors import lanes_of

    many, each, n_classes, queries = answers.logits.shape
    dtype = answers.logits.dtype
    padded = round_up(queries, lanes_of(dtype))
    logits = np.zeros((many, n_classes, each, padded), dtype)
    logits[..., :queries] = answers.logits.transpose(0, 2, 1, 3)
    asked = np.full((many, padded), -1, np.int64)
    asked[:, :queries] = labels
    mine = slice(trials.start, trials.stop)
    _record(results, mine, logits, asked, np.arange(queries), answers.norms, None)
    if "weights" in results.kept:
        for at, t in enumerate(trials):
            results.kept["weights"][t] = {name: w[at] for name, w in answers.weights.items()}


def _record(
    results: Results, at: slice, logits: Array, labels: Array, columns: Array, norms: Array,
    status: Array | None,
) -> None:  # fmt: skip
    """Score logits (T, C, L, columns) and write everything but the weights."""
    from firthshot.engine.scoring import score_trials

    predicted = np.empty((len(labels), len(results.coefficients), labels.shape[1]), np.int32)
    score_trials(
        logits, labels, predicted, results.accuracy[at], results.nll[at], results.brier[at],
        results.ece[at], results.bins[at],
    )  # fmt: skip
    _record_ends(results, at, norms, status)
    if "predictions" in results.kept:
        results.kept["predictions"][at] = list(predicted[:, :, columns])
    if "probabilities" in results.kept:
        results.kept["probabilities"][at] = list(_probabilities(logits[..., columns]))


def _record_ends(results: Results, at: slice, norms: Array, status: Array | None) -> None:
    """Write norms and how training ended; what diverged has no scores."""
    results.norm[at] = norms
    ended = np.zeros_like(results.status[at]) if status is None else status
    diverged = ~np.isfinite(results.nll[at]) | ~np.isfinite(norms)
    if diverged.any():
        for scores in (results.accuracy, results.nll, results.brier, results.ece, results.bins):
            scores[at][diverged] = 0 if scores is results.bins else np.nan
    results.status[at] = np.where(diverged & (ended == Status.OK), Status.DIVERGED, ended)


def _probabilities(logits: Array) -> Array:
    """Return (T, L, Q, C) of logits (T, C, L, Q)."""
    ordered = logits.transpose(0, 2, 3, 1)
    weights = np.exp(ordered - ordered.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))
