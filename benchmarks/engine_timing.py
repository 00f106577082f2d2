"""Timing one case: our side in full, the plain side step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING

from benchmarks.common import Timing, clock, repeat, repeat_for
from benchmarks.engine_cases import Case
from firthshot.engine import train
from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from benchmarks.torch_loops import StackedLoop
    from firthshot.episodes import Episodes

STACKS = (8, 64, 256)
_STACK_BYTES = 6e9
_SCORED_TRIALS = 8


@dataclass(frozen=True)
class Effort:
    """How long to measure: our seconds per repeat and repeats, the plain way's seconds."""

    seconds: float = 1.5
    repeats: int = 5
    baseline_seconds: float = 2.0
    probe_seconds: float = 0.6


QUICK = Effort(seconds=0.7, repeats=3, baseline_seconds=1.0, probe_seconds=0.3)


@dataclass(frozen=True)
class Baseline:
    """What the plain way costs: seconds per classifier, split into steps and scoring."""

    stack: int
    threads: int
    step_seconds: float  # of the whole stack
    steps: int
    score_seconds: float  # per trial

    @property
    def seconds(self) -> float:
        """Return the seconds per classifier."""
        return self.step_seconds * self.steps / self.stack + self.score_seconds


def time_engine(case: Case, threads: int, effort: Effort) -> tuple[int, Timing]:
    """Return a number of trials that takes about the time asked for, and the repeats' seconds."""
    each = clock(trainer(case, case.episodes(threads), threads)) / threads
    trials = min(8192, threads * max(1, round(effort.seconds / each / threads)))
    return trials, repeat(trainer(case, case.episodes(trials), threads), effort.repeats)


def trainer(case: Case, episodes: Episodes, threads: int) -> Callable[[], None]:
    """Return the work of our side: train and score, and refuse results that are not sound."""
    features = case.bank.features

    def work() -> None:
        results = train(
            features, episodes, case.head, case.sgd, case.penalty, threads=threads, memory=6e9
        )
        problems = results.problems()
        if problems:
            raise FirthshotError(f"Case {case.name!r} cannot be timed: {problems[0]}")

    return work


def time_baseline(
    case: Case,
    threads: int,
    effort: Effort,
    way: tuple[int, int] | None = None,
    *,
    as_published: bool = False,
) -> Baseline:
    """Time the plain way with (stacked trials, torch threads) = ``way``, the fastest by default."""
    import torch

    stack, used = way or fastest_way(case, threads, effort.probe_seconds)
    torch.set_num_threads(used)
    loop = make_loop(case, stack, as_published=as_published)
    step = time_step(loop, effort.baseline_seconds)
    few = stack if len(loop.episodes[0].query) <= 1000 else min(stack, _SCORED_TRIALS)
    scoring = repeat(lambda: loop.accuracy(few), 3).median / few
    return Baseline(stack, used, step, case.steps, scoring)


def fastest_way(case: Case, threads: int, seconds: float) -> tuple[int, int]:
    """Return the numbers of stacked trials and of threads with the cheapest step per trial."""
    import torch

    per_trial = {}
    for stack in (stack for stack in STACKS if stack_bytes(case, stack) <= _STACK_BYTES):
        loop = make_loop(case, stack)
        for used in {threads, 1}:
            torch.set_num_threads(used)
            per_trial[stack, used] = time_step(loop, seconds) / stack
    return min(per_trial, key=lambda way: per_trial[way])


def stack_bytes(case: Case, stack: int) -> float:
    """Estimate the memory of a stack: support rows, parameters, gradients and velocities."""
    return 4.0 * stack * case.d * (case.n + 5 * case.head.widest_layer(case.ways))


def make_loop(case: Case, stack: int, *, as_published: bool = False) -> StackedLoop:
    """Return the plain way on the first ``stack`` trials, with a coefficient that is not 0."""
    from benchmarks.torch_loops import StackedLoop, prepare_features

    features = prepare_features(case.bank.features, case.head)
    return StackedLoop(
        features,
        case.episodes(stack),
        stack,
        case.head,
        case.sgd,
        coefficient=1.0,
        weight_decay=case.weight_decay,
        as_published=as_published,
    )


def time_step(loop: StackedLoop, seconds: float) -> float:
    """Return the median seconds of one step of the whole stack, batch gathers included."""
    order = loop.draw_order(1)
    # Where a pass ends in a smaller batch, whole passes are the unit that repeats.
    unit = loop.batches if loop.n % loop.sgd.batch_size else 1
    steps = (step for epoch in cycle([order]) for step in loop.each_step(epoch))

    def work() -> None:
        for _ in islice(steps, unit):
            pass

    repeat(work, 2)
    return repeat_for(work, seconds, at_least=5).median / unit
