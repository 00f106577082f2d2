"""What is trained: objectives (cross-entropy, rotations, manifold mixup), and lanes of threads.

Training is data-parallel: each batch is cut into lanes, one thread each. Two threads inside one
convolution wait for each other in spin locks, which costs a factor of seven on a machine with other
work to do; lanes meet once per step instead. Results depend on the number of lanes (batch norm sees
a lane at a time) but never on the threads' timing: gradients are summed in the order of the lanes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import torch
from torch import nn
from torch.nn import functional

from firthshot.backbones.architectures._base import Backbone

T = TypeVar("T")


class BatchLoss(NamedTuple):
    """What one batch gave: the loss to descend and how many class predictions were right."""

    loss: torch.Tensor
    right: int
    seen: int


class Learner(nn.Module):
    """A backbone with the extra head that the rotation task needs (four outputs)."""

    def __init__(self, network: Backbone, *, rotations: bool) -> None:
        super().__init__()
        self.network = network
        self.rotation_head = nn.Linear(network.features_dim, 4) if rotations else None


def cross_entropy(
    learner: Learner, pictures: torch.Tensor, labels: torch.Tensor, rng: torch.Generator
) -> BatchLoss:
    """Cross-entropy of the class scores."""
    del rng  # nothing is drawn
    return _classify(learner.network(pictures), labels)


def rotation(
    learner: Learner, pictures: torch.Tensor, labels: torch.Tensor, rng: torch.Generator
) -> BatchLoss:
    """S2M2's first stage: each picture in four rotations, classified by class and by rotation.

    The loss is the mean of both cross-entropies; the batch grows fourfold.
    """
    del rng
    everyone = torch.arange(len(pictures)).repeat(4)
    turns = torch.arange(4).repeat_interleave(len(pictures))
    return _rotation_loss(learner, pictures[everyone], labels[everyone], turns)


def one_rotation(
    learner: Learner, pictures: torch.Tensor, labels: torch.Tensor, rng: torch.Generator
) -> BatchLoss:
    """S2M2's first stage at a quarter of its cost: each picture in one random rotation.

    In expectation it is the loss of :func:`rotation`, but for the statistics of batch norm.
    """
    turns = torch.randint(0, 4, (len(pictures),), generator=rng)
    return _rotation_loss(learner, pictures, labels, turns)


def mixup(
    learner: Learner, pictures: torch.Tensor, labels: torch.Tensor, rng: torch.Generator
) -> BatchLoss:
    r"""S2M2's second stage: manifold mixup of the batch, and rotations of its first quarter.

    With a share :math:`\gamma \sim \mathrm{Beta}(2, 2)`, a permutation :math:`\pi` and a random
    depth, the hidden states become :math:`\gamma h_i + (1-\gamma) h_{\pi(i)}` and the loss
    :math:`\gamma\,\mathrm{CE}(y_i) + (1-\gamma)\,\mathrm{CE}(y_{\pi(i)})`.
    """
    network = learner.network
    share = _beta_two_two(rng)
    partner = torch.randperm(len(pictures), generator=rng)
    depth = int(torch.randint(0, len(network.pieces()), (), generator=rng))
    features = network.embed(
        pictures, change_after=depth, change=lambda h: share * h + (1 - share) * h[partner]
    )
    assert network.head is not None
    scores = network.head(features).float()
    mixed = share * functional.cross_entropy(scores, labels)
    mixed = mixed + (1 - share) * functional.cross_entropy(scores, labels[partner])
    quarter = max(1, len(pictures) // 4)
    turned = rotation(learner, pictures[:quarter], labels[:quarter], rng)
    # The accuracy of mixed pictures means little: that of the unmixed rotated ones is counted.
    return BatchLoss(mixed + turned.loss, turned.right, turned.seen)


OBJECTIVES: dict[str, Callable[[Learner, torch.Tensor, torch.Tensor, torch.Generator], BatchLoss]]
OBJECTIVES = {
    "cross-entropy": cross_entropy,
    "rotation": rotation,
    "one-rotation": one_rotation,
    "mixup": mixup,
}


def _classify(scores: torch.Tensor, labels: torch.Tensor) -> BatchLoss:
    scores = scores.float()
    right = int((scores.argmax(dim=1) == labels).sum())
    return BatchLoss(functional.cross_entropy(scores, labels), right, len(labels))


def _rotation_loss(
    learner: Learner, pictures: torch.Tensor, labels: torch.Tensor, turns: torch.Tensor
) -> BatchLoss:
    assert learner.rotation_head is not None
    assert learner.network.head is not None
    turned = torch.empty_like(pictures, memory_format=torch.channels_last)
    for quarters in range(4):
        own = turns == quarters
        turned[own] = torch.rot90(pictures[own], quarters, dims=(2, 3))
    features = learner.network.embed(turned)
    by_class = _classify(learner.network.head(features), labels)
    by_turn = functional.cross_entropy(learner.rotation_head(features).float(), turns)
    return by_class._replace(loss=0.5 * (by_class.loss + by_turn))


def _beta_two_two(rng: torch.Generator) -> float:
    """Draw from Beta(2, 2): the middle one of three even draws is distributed so."""
    return float(torch.rand(3, generator=rng).median())


class Lanes:
    """A learner and its twins, which share its parameters, not its batch-norm statistics."""

    def __init__(self, learner: Learner, count: int) -> None:
        self.learners = [learner, *(_twin(learner) for _ in range(count - 1))]
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Keep the threads, and torch to one thread in each of them."""
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with ThreadPoolExecutor(len(self.learners)) as self._pool:
                yield
        finally:
            self._pool = None
            torch.set_num_threads(before)

    def run(self, work: Callable[[int, Learner], T]) -> list[T]:
        """Return ``work(lane, learner)`` of every lane, in their order."""
        assert self._pool is not None, "the lanes are closed"
        return list(self._pool.map(work, range(len(self.learners)), self.learners))

    def merge(self) -> None:
        """Replace each batch-norm statistic, in every lane, by its mean over the lanes."""
        for buffers in zip(*(learner.buffers() for learner in self.learners), strict=True):
            if buffers[0].is_floating_point():
                mean = torch.stack(buffers).mean(dim=0)
                for buffer in buffers:
                    buffer.copy_(mean)


def _twin(learner: Learner) -> Learner:
    twin: Learner = copy.deepcopy(learner)
    for mine, theirs in zip(learner.modules(), twin.modules(), strict=True):
        theirs._parameters.update(mine._parameters)
    return twin
