"""Data-parallel training in threads: each batch is cut into lanes, one thread each.

Two threads inside one convolution wait for each other in spin locks, which costs a factor of
seven on a machine with other work to do; lanes meet once per step instead. Results depend on the
number of lanes (batch norm sees a lane at a time) but never on the threads' timing: gradients are
summed in the order of the lanes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

from firthshot.backbones.training._losses import Learner

T = TypeVar("T")


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
