"""The plain way: a PyTorch autograd loop over trials stacked on a leading axis.

This is how the published code trains (all seeds of a setting together, one coefficient at a time),
without the work that it does not need: only the terms of the loss that have a coefficient, cosine
features normalised once instead of in every step, the batch order drawn beforehand, the fastest of
torch's ways to update (measured on CPU: in place by hand, ahead of ``torch.optim.SGD`` plain,
``foreach`` and ``fused``) and torch's fused weight normalisation. Queries are scored by accuracy
alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812 - torch's own habit

from firthshot.engine import Cosine, Linear, Mlp, Sgd
from firthshot.episodes import Episodes

Tensor = Any
TrainedHead = Linear | Cosine | Mlp

# Scoring gathers the queries of so many bytes at a time, where trials do not share them.
_GATHER_BYTES = 400e6


class StackedLoop:
    """Train one coefficient of the first ``stack`` trials together.

    Parameters
    ----------
    features : (n, d) tensor from :func:`prepare_features`
    episodes : Episodes
        With at least ``stack`` trials.
    coefficient : float
        λ of the Firth penalty with uniform prior.
    weight_decay : float
        Added to the gradient by the optimiser.
    start : sequence of arrays, optional
        The parameters with a leading trial axis, as :func:`draw_start` returns them.
    as_published : bool
        Evaluate all four terms of the published loss in every step, two of them with coefficient 0,
        and update by ``torch.optim.SGD``, as the published code does.
    """

    def __init__(
        self,
        features: Tensor,
        episodes: Episodes,
        stack: int,
        head: TrainedHead,
        sgd: Sgd,
        coefficient: float,
        weight_decay: float = 0.0,
        *,
        start: Sequence[Any] | None = None,
        as_published: bool = False,
    ) -> None:
        self.features, self.episodes, self.stack = features, episodes, stack
        self.sgd, self.coefficient, self.weight_decay = sgd, coefficient, weight_decay
        self.n, self.ways = episodes.support.shape[1], episodes.ways
        rows = torch.from_numpy(episodes.support[:stack].reshape(-1))
        self.support = features.index_select(0, rows)
        self.labels = torch.from_numpy(episodes.support_labels[:stack].reshape(-1).copy())
        given = draw_start(head, stack, features.shape[1], self.ways) if start is None else start
        self.parameters = [torch.as_tensor(part).clone().requires_grad_() for part in given]
        self.velocities = [torch.zeros_like(part) for part in self.parameters]
        self.logits, self.steps = logits_of(head, self.ways), 0
        self.optimiser = self._published_optimiser() if as_published else None

    @property
    def batches(self) -> int:
        """Return the number of steps in one pass."""
        return -(-int(self.n) // self.sgd.batch_size)

    def draw_order(self, passes: int, seed: int = 0) -> Tensor:
        """Draw the rows that each pass visits, shape (passes, stack, N)."""
        generator = torch.Generator().manual_seed(seed)
        return torch.argsort(torch.rand(passes, self.stack, self.n, generator=generator), dim=2)

    def run(self, order: Tensor) -> None:
        """Make all the passes of ``order`` (passes, stack, N)."""
        for _ in self.each_step(order):
            pass

    def each_step(self, order: Tensor) -> Iterator[None]:
        """Make the steps of ``order`` one by one."""
        offsets = torch.arange(self.stack)[:, None] * self.n
        for epoch in order:
            flat = epoch + offsets
            for first in range(0, self.n, self.sgd.batch_size):
                self.step(flat[:, first : first + self.sgd.batch_size])
                yield

    def step(self, rows: Tensor) -> None:
        """Make one SGD step on the rows (stack, b) of the stacked support."""
        chosen, (stack, size) = rows.reshape(-1), rows.shape
        batch = self.support.index_select(0, chosen).view(stack, size, -1)
        labels = self.labels.index_select(0, chosen)
        logits = self.logits(self.parameters, batch).reshape(stack * size, self.ways)
        loss = self._loss(logits, labels, self.sgd.batch_size if self.sgd.scale_partial else size)
        if self.optimiser is not None:
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()
        else:
            self._update(torch.autograd.grad(loss, self.parameters))
        self.steps += 1

    def _loss(self, logits: Tensor, labels: Tensor, divisor: int) -> Tensor:
        """Return the sum over trials of cross-entropy + λ · Firth (means over the batch)."""
        logs = F.log_softmax(logits, dim=-1)
        if self.optimiser is not None:
            return self._published_loss(logs, labels, divisor)
        loss = F.nll_loss(logs, labels, reduction="sum")
        if self.coefficient:
            loss = loss - logs.sum() * (self.coefficient / self.ways)
        return loss / divisor

    def _published_loss(self, logs: Tensor, labels: Tensor, divisor: int) -> Tensor:
        """Return the same with L2 and entropy evaluated too, trial by trial, at coefficient 0."""
        each = logs.view(self.stack, -1, self.ways)
        size, count = each.shape[1], sum(part[0].numel() for part in self.parameters)
        cross = F.nll_loss(logs, labels, reduction="none").view(self.stack, -1).mean(1)
        firth, entropy = -each.mean((1, 2)), (each.exp() * each).sum(2).mean(1)
        squares = sum(part.square().sum((1, 2)) for part in self.parameters) / count
        total = cross + self.coefficient * firth + 0.0 * squares + 0.0 * entropy
        return total.sum() * (size / divisor)

    def _update(self, gradients: Sequence[Tensor]) -> None:
        """Move the parameters as torch's SGD does: the first gradient enters undampened."""
        share = 1 - self.sgd.dampening if self.steps else 1.0
        with torch.no_grad():
            for part, gradient, velocity in zip(
                self.parameters, gradients, self.velocities, strict=True
            ):
                if self.weight_decay:
                    gradient.add_(part, alpha=self.weight_decay)
                velocity.mul_(self.sgd.momentum).add_(gradient, alpha=share)
                part.add_(velocity, alpha=-self.sgd.learning_rate)

    def _published_optimiser(self) -> Any:
        sgd = self.sgd
        return torch.optim.SGD(
            self.parameters,
            sgd.learning_rate,
            sgd.momentum,
            sgd.dampening,
            weight_decay=self.weight_decay,
        )

    def accuracy(self, trials: int | None = None) -> Tensor:
        """Score the query sets of the first ``trials`` trials (all by default)."""
        count = self.stack if trials is None else min(trials, self.stack)
        with torch.no_grad():
            if shares_queries(self.episodes):
                return self._score(0, count, self.features[self.episodes[0].query][None])
            each = len(self.episodes[0].query) * self.features.shape[1] * 4
            chunk = max(1, int(_GATHER_BYTES // each))
            parts = [
                self._score(first, min(count, first + chunk)) for first in range(0, count, chunk)
            ]
        return torch.cat(parts)

    def _score(self, first: int, last: int, shared: Tensor | None = None) -> Tensor:
        mine = [self.episodes[t] for t in range(first, last)]
        if shared is None:
            queries = torch.stack([self.features[episode.query] for episode in mine])
        else:
            queries = shared.expand(last - first, -1, -1)
        labels = torch.from_numpy(np.stack([episode.query_labels for episode in mine]))
        logits = self.logits([part[first:last] for part in self.parameters], queries)
        return (logits.argmax(-1) == labels).float().mean(1)


def shares_queries(episodes: Episodes) -> bool:
    """Say whether all trials have the same query rows in the same order."""
    sizes = np.diff(episodes.offsets)
    if len(set(sizes.tolist())) != 1:
        return False
    rows = episodes.query.reshape(len(episodes), -1)
    return bool((rows == rows[:1]).all())


def prepare_features(features: Any, head: TrainedHead) -> Tensor:
    """Return the bank's features as a float32 tensor, divided by ‖x‖ + 1e-5 for the cosine head."""
    tensor = torch.from_numpy(np.array(features, np.float32))
    if isinstance(head, Cosine):
        tensor /= tensor.norm(dim=1, keepdim=True) + 1e-5
    return tensor


def draw_start(head: TrainedHead, stack: int, d: int, ways: int) -> list[Tensor]:
    """Draw the start: Xavier-uniform layers with zero biases, or (v, g) of the cosine head."""
    if isinstance(head, Cosine):
        v = (torch.rand(stack, ways, d) * 2 - 1) / math.sqrt(d)
        return [v, v.norm(dim=2, keepdim=True)]
    widths = (d, *head.hidden, ways) if isinstance(head, Mlp) else (d, ways)
    start = []
    for rows, columns in pairwise(widths):
        bound = math.sqrt(6 / (rows + columns))
        start += [
            (torch.rand(stack, rows, columns) * 2 - 1) * bound,
            torch.zeros(stack, 1, columns),
        ]
    return start


def logits_of(head: TrainedHead, ways: int) -> Callable[[Sequence[Tensor], Tensor], Tensor]:
    """Return the function (parameters, rows (T, b, d)) → logits (T, b, C) of a head."""
    if isinstance(head, Cosine):
        scale = head.scale or (2.0 if ways <= 200 else 10.0)
        return lambda parameters, rows: _cosine_logits(parameters, rows, scale)
    return _layered_logits


def _layered_logits(parameters: Sequence[Tensor], rows: Tensor) -> Tensor:
    hidden = rows
    for layer in range(0, len(parameters), 2):
        hidden = torch.baddbmm(parameters[layer + 1], hidden, parameters[layer])
        if layer + 2 < len(parameters):
            hidden = hidden.relu()
    return hidden


def _cosine_logits(parameters: Sequence[Tensor], rows: Tensor, scale: float) -> Tensor:
    v, g = parameters
    flat = torch._weight_norm(v.reshape(-1, v.shape[2]), g.reshape(-1, 1), 0)
    return torch.bmm(rows, flat.view(v.shape).mT) * scale
