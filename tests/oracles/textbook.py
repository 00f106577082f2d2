"""The training of the paper, written as a textbook would: autograd over weights in d dimensions.

Slow and plain on purpose; the engine must give the same numbers.
"""

import numpy as np
import torch

from firthshot.engine import Penalty
from firthshot.engine.sgd.momentum import draw_order

EVERY_PENALTY = (  # of five classes
    Penalty(),
    Penalty("firth", (0.0, 0.1, 1.0, 10.0)),
    Penalty("firth", (0.3, 3.0), prior="class-frequency"),
    Penalty("firth", (0.3, 3.0), prior=(0.5, 0.3, 0.1, 0.1, 0.0)),
    Penalty("confidence", (0.0, 0.1, 1.0)),
    Penalty("label-smoothing", (0.0, 0.1, 0.9)),
    Penalty("label-smoothing", (0.1,), prior="class-frequency"),
    Penalty("l2", (0.0, 1.0, 30.0)),
    Penalty("l2", (0.0, 1.0), l2_kind="ridge"),
    Penalty("l2", (0.0, 0.01), l2_kind="weight-decay"),
    Penalty("firth", (0.0, 1.0), l2=0.001, l2_kind="weight-decay"),
)


def batch_order(trial, epoch, shuffle):
    """Return the order in which the engine visits the support rows in an epoch."""
    n = len(trial.labels)
    order = np.empty(n, np.int64)
    draw_order(
        np.uint64(trial.key), trial.number, epoch, shuffle, order, np.empty(n + 4, np.uint64)
    )
    return order


def penalty_value(log_p, penalty, coefficient, prior):
    """Return the mean over samples of the penalty on class probabilities, Eq. (klobj)."""
    if penalty.family == "firth":
        return coefficient * -(log_p * prior).sum(1).mean()
    if penalty.family == "confidence":
        return coefficient * (log_p.exp() * log_p).sum(1).mean()
    return torch.zeros((), dtype=log_p.dtype)


def l2_value(parameters, biases, kind, coefficient, n):
    """Return the L2 penalty in one of the parametrisations that belong to the loss."""
    if kind == "mean-square":
        everything = [*parameters, *biases]
        return (
            coefficient * sum((p**2).sum() for p in everything) / sum(p.numel() for p in everything)
        )
    if kind == "ridge":
        return coefficient * 0.5 * sum((p**2).sum() for p in parameters) / n
    return 0.0


def train_by_autograd(trial, logits_of, weights, biases, sgd, penalty, coefficient):
    """Run the published loop; ``weights`` and ``biases`` (torch leaves) are updated in place."""
    y, n, k = torch.tensor(trial.labels), len(trial.labels), trial.n_classes
    counts = torch.bincount(y, minlength=k).to(weights[0].dtype)
    prior = (
        counts / n
        if penalty.prior == "class-frequency"
        else torch.full((k,), 1 / k, dtype=counts.dtype)
    )
    if isinstance(penalty.prior, tuple):
        prior = torch.tensor(penalty.prior, dtype=counts.dtype)
    smoothing = coefficient if penalty.family == "label-smoothing" else 0.0
    l2 = penalty.l2 + (coefficient if penalty.family == "l2" else 0.0)
    optimiser = torch.optim.SGD(
        [*weights, *biases],
        lr=sgd.learning_rate,
        momentum=sgd.momentum,
        dampening=sgd.dampening,
        weight_decay=l2 if penalty.l2_kind == "weight-decay" else 0.0,
    )
    for epoch in range(sgd.epochs):
        order = batch_order(trial, epoch, sgd.shuffle)
        for start in range(0, n, sgd.batch_size):
            rows = order[start : start + sgd.batch_size]
            log_p = torch.log_softmax(logits_of(rows), 1)
            target = (1 - smoothing) * torch.nn.functional.one_hot(y[rows], k).to(
                prior
            ) + smoothing * prior
            loss = -(log_p * target).sum(1).mean()
            loss = loss + penalty_value(log_p, penalty, coefficient, prior)
            loss = loss + l2_value(weights, biases, penalty.l2_kind, l2, n)
            if sgd.scale_partial:
                loss = loss * (len(rows) / sgd.batch_size)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
