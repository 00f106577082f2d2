"""Train many trials on threads, each computed alone: no result depends on the others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import cached_property
from itertools import islice
from typing import Any, Literal

import numpy as np

from firthshot.arrays import Array
from firthshot.engine._queries import locate_queries
from firthshot.engine._record import record_block, record_trial
from firthshot.engine._trial import Trial
from firthshot.engine.heads.base import Head, TrialShape, check_trainable
from firthshot.engine.heads.block import Block, BlockHead
from firthshot.engine.options import Sgd, Solver
from firthshot.engine.results import Results
from firthshot.episodes import Episodes
from firthshot.errors import FirthshotError
from firthshot.machine import keep_freed_memory, one_blas_thread
from firthshot.objective import Penalty, class_prior

Keep = Literal["predictions", "probabilities", "weights"]
KEEP = ("predictions", "probabilities", "weights")
_BLOCK_TRIALS = 16  # that share what a call costs


def train(
    features: Array,
    episodes: Episodes,
    head: Head,
    solver: Solver,
    penalty: Penalty,
    *,
    dtype: Literal["float32", "float64"] = "float32",
    threads: int | None = None,
    memory: float = 2e9,
    keep: Iterable[Keep] = (),
) -> Results:
    """Train a head on every trial with every coefficient, and score it on the query set.

    Parameters
    ----------
    features : (n, d) the bank's features; trials gather their rows from it
    episodes : Episodes
    head, solver, penalty
        What to train (:mod:`.heads`) and how (:mod:`.options`). All coefficients of a trial share
        support, start and batch order.
    dtype : precision of all computation; float64 is for verification
    threads : number of trials trained at once; all the machine's cores by default
    memory : bytes that the trials in flight may use together; the results do not depend on it
    keep : "predictions" (L, Q), "probabilities" (L, Q, C) and/or "weights" of every trial

    Returns
    -------
    Results
        A trial with bad input or a coefficient that diverges is recorded there and costs no other.
    """
    wanted = (keep,) if isinstance(keep, str) else tuple(dict.fromkeys(keep))
    _check_request(features, wanted, threads, memory)
    _check_episodes(features, episodes, penalty)
    if dtype not in ("float32", "float64"):
        raise FirthshotError(f"dtype = {dtype!r} must be 'float32' or 'float64'.")
    check_trainable(head, solver)
    precision = np.dtype(dtype)
    results = Results.empty(episodes.trials, penalty.coefficients, wanted)
    if isinstance(solver, Sgd):
        for passes in set(solver.score_after) - {solver.epochs}:
            results.earlier[passes] = Results.empty(episodes.trials, penalty.coefficients, wanted)
    source = TrialSource(features, episodes, precision, memory)
    n, queries = episodes.support.shape[1], int(np.diff(episodes.offsets).max())
    shape = TrialShape(n, queries, features.shape[1], episodes.ways, len(penalty.coefficients))
    each = head.working_bytes(shape, precision.itemsize)
    blocks = _blocks(head, episodes, memory / each)
    in_flight = min(_trials_in_flight(each * len(blocks[0]), threads, memory), len(blocks))

    def work(block: range) -> None:
        with np.errstate(all="ignore"):  # divergence is an outcome that Results records
            _train_block(source, block, head, solver, penalty, results)

    keep_freed_memory()
    with one_blas_thread():
        if in_flight == 1:  # to start a thread takes as long as a small head
            for block in blocks:
                work(block)
            return results
        with ThreadPoolExecutor(in_flight) as pool:
            for future in _bounded(pool, work, blocks, 2 * in_flight):
                future.result()
    return results


def _blocks(head: Head, episodes: Episodes, most: float) -> list[range]:
    """Divide the trials into those that are trained at once, one each unless the head says so."""
    even = isinstance(head, BlockHead) and len(set(np.diff(episodes.offsets))) == 1
    size = max(1, int(min(_BLOCK_TRIALS, most))) if even else 1
    trials = range(len(episodes))
    return [trials[at : at + size] for at in trials[::size]]


def _check_request(
    features: Array, keep: tuple[str, ...], threads: int | None, memory: float
) -> None:
    if features.ndim != 2 or features.dtype.kind != "f":
        raise FirthshotError(
            "features must be a floating-point matrix (rows, d), "
            f"not {features.dtype} of shape {features.shape}."
        )
    unknown = [name for name in keep if name not in KEEP]
    if unknown:
        raise FirthshotError(f"keep = {unknown} is unknown; choose from {', '.join(KEEP)}.")
    if threads is not None and threads < 1:
        raise FirthshotError(f"threads = {threads} must be at least 1.")
    if not memory > 0:
        raise FirthshotError(f"memory = {memory} must be a positive number of bytes.")


def _check_episodes(features: Array, episodes: Episodes, penalty: Penalty) -> None:
    """Refuse what would spoil every trial alike."""
    last = max(int(episodes.support.max()), int(episodes.query.max()))
    if last >= len(features):
        raise FirthshotError(
            f"The episodes ask for row {last}, but features has {len(features)} rows; "
            "were they sampled from another bank?"
        )
    class_prior(penalty.prior, episodes.support_labels[0], episodes.ways)


def _trials_in_flight(each: int, threads: int | None, memory: float) -> int:
    """Return how many trials of so many bytes may be in memory at once under the budget."""
    if each > memory:
        raise FirthshotError(
            f"One trial needs {each / 1e9:.2f} GB, more than the budget of {memory / 1e9:.2f} GB; "
            "raise memory."
        )
    return min(threads or os.cpu_count() or 1, int(memory // each))


def _bounded(
    pool: ThreadPoolExecutor, work: Any, items: Iterable[range], limit: int
) -> Iterator[Future[None]]:
    """Submit ``items`` with at most ``limit`` waiting, and yield futures as they finish."""
    queue = iter(items)
    waiting = {pool.submit(work, item) for item in islice(queue, limit)}
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        waiting |= {pool.submit(work, item) for item in islice(queue, len(done))}
        yield from done


class TrialSource:
    """Trials with their features in the precision of the computation."""

    def __init__(
        self, features: Array, episodes: Episodes, dtype: np.dtype[Any], memory: float
    ) -> None:
        self.episodes, self.dtype = episodes, dtype
        fits = features.size * dtype.itemsize <= memory / 2
        # Too large to convert at once: trials convert the rows they gather.
        self.features = features.astype(dtype, copy=False) if fits else features
        self._source = features

    @cached_property
    def broken(self) -> Array:
        """Return which rows of the bank hold a value that is not finite."""
        return _rows_not_finite(self._source)

    def gather(self, rows: Array) -> Array:
        """Return copies of rows in the precision of the computation."""
        return self.features.take(rows, axis=0).astype(self.dtype, copy=False)

    def trial(self, t: int) -> tuple[Trial, Array, Array]:
        """Return the trial, the label of every column of its logits, and each query's column."""
        episode, key, ways = self.episodes[t], self.episodes.key, self.episodes.ways
        if self.broken[episode.support].any() or self.broken[episode.query].any():
            raise FirthshotError("It has features that are not finite; ask the bank's doctor.")
        if self.features.dtype == self.dtype:
            located = locate_queries(self.features, episode.query, episode.query_labels)
        else:
            rows = np.arange(len(episode.query))
            located = locate_queries(self.gather(episode.query), rows, episode.query_labels)
        queries, labels, columns = located
        support = self.gather(episode.support)
        trial = Trial(episode.trial, key, ways, support, episode.support_labels, queries, columns)
        if labels.max() >= ways:
            raise FirthshotError(f"It has query labels outside 0 … {ways - 1}.")
        return trial, labels, columns

    def block(self, trials: range, head: BlockHead, penalty: Penalty) -> tuple[Block, Array]:
        """Return trials with equally many queries side by side, and the labels (T, Q)."""
        mine, ways = slice(trials.start, trials.stop), self.episodes.ways
        ours = slice(*self.episodes.offsets[[trials.start, trials.stop]])
        labels = self.episodes.support_labels[mine]
        query = self.episodes.query[ours].reshape(len(trials), -1)
        asked = self.episodes.query_labels[ours].reshape(query.shape)
        if min(labels.min(), asked.min()) < 0 or max(labels.max(), asked.max()) >= ways:
            raise FirthshotError(f"A trial has labels outside 0 … {ways - 1}.")
        wanted = np.concatenate([self.episodes.support[mine], query], axis=1)
        features = self.features
        if features.dtype != self.dtype:
            features = self.gather(wanted.ravel())
            wanted = np.arange(wanted.size).reshape(wanted.shape)
        rows = head.compared().of(features, wanted)
        parameters = head.parameter_count(features.shape[1], ways)
        alike = len(labels) if (labels == labels[0]).all() else 1
        forms = tuple(penalty.tables(each, ways, parameters) for each in labels[::alike]) * alike
        return Block(ways, features.shape[1], rows, labels, forms), asked


def _rows_not_finite(features: Array) -> Array:
    """Return which rows hold a value that is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        suspects = ~np.isfinite(features.sum(axis=1, dtype=np.float32))
    for row in np.flatnonzero(suspects):  # a sum may overflow where its terms do not
        suspects[row] = not np.isfinite(features[row]).all()
    return np.asarray(suspects)


def _train_block(
    source: TrialSource, block: range, head: Head, solver: Solver, penalty: Penalty,
    results: Results,
) -> None:  # fmt: skip
    """Train trials at once; where one is refused, each alone."""
    if isinstance(head, BlockHead):
        try:
            trials, labels = source.block(block, head, penalty)
            answers = head.classify(trials)
        except FirthshotError:
            pass
        else:
            record_block(results, block, labels, answers)
            return
    for t in block:
        _train_one(source, t, head, solver, penalty, results)


def _train_one(
    source: TrialSource, t: int, head: Head, solver: Solver, penalty: Penalty, results: Results
) -> None:
    try:
        trial, labels, columns = source.trial(t)
        parameters = head.parameter_count(trial.support.shape[1], trial.n_classes)
        form = penalty.tables(trial.labels, trial.n_classes, parameters)
        fitted = head.fit(trial, solver, form, "weights" in results.kept)
    except FirthshotError as error:
        results.notes[int(results.trials[t])] = str(error)
        return
    for passes, outcome in fitted.items():
        record_trial(results.earlier.get(passes, results), t, labels, columns, outcome)
