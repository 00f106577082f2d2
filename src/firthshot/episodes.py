"""From a bank's label layout and a trial number to support and query rows.

A trial depends on the label layout (class names, counts, row order), split, ways, shots and trial
number, and on nothing else: not on feature values, head, penalty, batch or worker. Banks of the
same pictures through different backbones therefore give matched trials.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from firthshot.banks import Bank
from firthshot.errors import EpisodeError

Rows = npt.NDArray[np.int64]

_LAYOUTS: WeakKeyDictionary[Bank, dict[str, str]] = WeakKeyDictionary()


@dataclass(frozen=True)
class DirichletShots:
    """Unbalanced shots: ``mean`` per class on average, split by a Dirichlet draw in every trial.

    Each class keeps at least one shot; the remaining ``ways * (mean - 1)`` go to the classes in
    proportion to a symmetric Dirichlet variate (smaller ``concentration``: more unequal), rounded
    by largest remainders so that the total is the same in every trial.
    """

    mean: int
    concentration: float = 1.0


Shots = int | Sequence[int] | DirichletShots


@dataclass(frozen=True)
class Episode:
    """One trial: row indices into the bank's features, and labels from 0 to ways - 1."""

    trial: int
    classes: Rows
    support: Rows
    support_labels: Rows
    query: Rows
    query_labels: Rows


@dataclass(frozen=True)
class Episodes:
    """A block of trials, class-sorted within each trial.

    Attributes
    ----------
    key : int
        The key of the trials' random streams (see :mod:`firthshot.kernels.streams`).
    ways : int
    trials : (T,) trial numbers
    classes : (T, ways) positions in ``bank.classes(split)``
    support, support_labels : (T, N)
    query, query_labels : flat over trials; trial t owns ``offsets[t]:offsets[t + 1]``
    """

    key: int
    ways: int
    trials: Rows
    classes: Rows
    support: Rows
    support_labels: Rows
    query: Rows
    query_labels: Rows
    offsets: Rows

    def __len__(self) -> int:
        return len(self.trials)

    @overload
    def __getitem__(self, t: int) -> Episode: ...
    @overload
    def __getitem__(self, t: slice) -> Episodes: ...
    def __getitem__(self, t: int | slice) -> Episode | Episodes:
        """Return a trial by its place, or the trials of a slice."""
        if isinstance(t, slice):
            return self._some(np.arange(len(self))[t])
        t = range(len(self))[t]  # from the end where negative
        mine = slice(self.offsets[t], self.offsets[t + 1])
        return Episode(
            int(self.trials[t]),
            self.classes[t],
            self.support[t],
            self.support_labels[t],
            self.query[mine],
            self.query_labels[mine],
        )

    def _some(self, places: Rows) -> Episodes:
        """Return the trials at these places."""
        if not len(places):
            raise EpisodeError(f"The slice holds none of the {len(self)} trials.")
        asked = np.concatenate([np.arange(self.offsets[t], self.offsets[t + 1]) for t in places])
        sizes = np.diff(self.offsets)[places]
        return Episodes(
            self.key,
            self.ways,
            self.trials[places],
            self.classes[places],
            self.support[places],
            self.support_labels[places],
            self.query[asked],
            self.query_labels[asked],
            np.concatenate(([0], np.cumsum(sizes))),
        )


def sample_episodes(
    bank: Bank,
    split: str,
    *,
    ways: int,
    shots: Shots,
    trials: int | Sequence[int] = 1,
    queries: int | Literal["rest"] = "rest",
    fixed_query: bool = False,
    first_classes: bool = False,
) -> Episodes:
    """Sample the support and query rows of trials.

    Parameters
    ----------
    bank, split
        The bank and which of its splits ("base", "val", "novel") to draw classes from.
    ways : int
        Classes per trial.
    shots : int, sequence of ``ways`` ints, or DirichletShots
        Support rows per class.
    trials : int or sequence of ints
        How many trials (numbered from 0), or their numbers.
    queries : int or "rest"
        Query rows per class, or all rows of the class that are not in the support.
    fixed_query : bool
        Take the last ``queries`` rows of each class, in file order, as the query set of every
        trial; support rows are drawn from those before them.
    first_classes : bool
        Use the first ``ways`` classes of the split instead of a random choice.

    Raises
    ------
    EpisodeError
        When the bank cannot hold such an episode; the sentence names what is missing.
    """
    if not hasattr(bank, "splits"):
        raise EpisodeError(
            f"sample_episodes takes a bank and a split, not {type(bank).__name__}: make a bank of "
            "rows and labels with firthshot.banks.make_bank."
        )
    names, class_rows = _split_layout(bank, split)
    _check_counts(ways, queries, fixed_query, names, split)
    numbers = _trial_numbers(trials)
    counts = _shot_counts(shots, ways)
    held_out = queries if fixed_query and queries != "rest" else 0
    key = layout_key(bank, split, ways, shots)
    sizes = np.array([len(rows) for rows in class_rows])
    classes, per_class = _choose(key, numbers, counts, shots, ways, len(names), first_classes)
    _check_rows(names, sizes, classes, per_class, queries)
    flat, starts = np.concatenate(class_rows), np.concatenate(([0], np.cumsum(sizes)))
    return _draw(key, numbers, classes, per_class, flat, starts, held_out, queries)


def layout_key(bank: Bank, split: str, ways: int, shots: Shots) -> int:
    """Return the key of the trials' random streams: a hash of all that a trial depends on."""
    from firthshot.kernels.streams import stream_key

    return stream_key("trials", _layout_digest(bank, split), split, ways, _shots_name(shots))


def _layout_digest(bank: Bank, split: str) -> str:
    """Return the hash of a split's layout, computed once for a bank, which never changes."""
    known = _LAYOUTS.setdefault(bank, {})
    if split not in known:
        known[split] = _hash_layout(bank, split)
    return known[split]


def _hash_layout(bank: Bank, split: str) -> str:
    """Hash class names, counts and row order of a split (no feature values, no other split)."""
    class_rows = bank.class_rows(split)
    digest = hashlib.sha256()
    for name, rows in zip(bank.classes(split), class_rows, strict=True):
        digest.update(f"{len(name)}:{name}:{len(rows)};".encode())
    file_order = np.argsort(np.concatenate(class_rows), kind="stable")
    digest.update(file_order.astype("<i8").tobytes())
    return digest.hexdigest()


def _shots_name(shots: Shots) -> Any:
    if isinstance(shots, DirichletShots):
        return ["dirichlet", shots.mean, shots.concentration]
    return [int(count) for count in shots] if np.ndim(shots) else int(shots)  # type: ignore[union-attr, arg-type]


def _split_layout(bank: Bank, split: str) -> tuple[tuple[str, ...], list[Rows]]:
    if split not in bank.splits:
        there = ", ".join(bank.splits)
        raise EpisodeError(f"Bank {bank.name!r} has no split {split!r}; it has {there}.")
    return bank.classes(split), bank.class_rows(split)


def _check_counts(
    ways: int, queries: int | str, fixed_query: bool, names: Sequence[str], split: str
) -> None:
    if not isinstance(ways, int | np.integer):
        raise EpisodeError(f"ways = {ways!r} must be a whole number.")
    if ways < 2:
        raise EpisodeError(f"ways = {ways} must be at least 2.")
    if ways > len(names):
        raise EpisodeError(
            f"ways = {ways} is more than the {len(names)} classes of split {split!r}."
        )
    if queries != "rest" and (not isinstance(queries, int | np.integer) or queries < 1):
        raise EpisodeError(f"queries = {queries!r} must be a positive number or 'rest'.")
    if fixed_query and queries == "rest":
        raise EpisodeError("A fixed query set needs a number of queries per class, not 'rest'.")


def _trial_numbers(trials: int | Sequence[int]) -> Rows:
    numbers = np.arange(trials) if isinstance(trials, int) else np.asarray(trials, np.int64)
    if numbers.ndim != 1 or numbers.size == 0 or numbers.min() < 0 or numbers.max() >= 2**32:
        raise EpisodeError(
            "trials must be a positive number, or trial numbers from 0 to 2**32 - 1."
        )
    return numbers.astype(np.int64)


def _shot_counts(shots: Shots, ways: int) -> Rows:
    """Return the shots per class, or for Dirichlet shots the mean per class."""
    if isinstance(shots, DirichletShots):
        if shots.mean < 1 or not 0 < shots.concentration < np.inf:
            raise EpisodeError(f"{shots} needs a mean of at least 1 and a positive concentration.")
        return np.full(ways, shots.mean, np.int64)
    given: object = shots
    if isinstance(given, str) or not isinstance(given, int | np.integer | Sequence | np.ndarray):
        raise EpisodeError(f"shots = {shots!r} must be a number, one per class, or DirichletShots.")
    counts = np.array(shots, np.int64)
    counts = np.full(ways, counts, np.int64) if counts.ndim == 0 else counts
    if counts.shape != (ways,):
        raise EpisodeError(f"shots has {counts.size} entries for {ways} ways; give one per class.")
    if counts.min() < 1:
        raise EpisodeError(f"shots = {shots!r} must be positive.")
    return counts


def _choose(
    key: int, trials: Rows, counts: Rows, shots: Shots, ways: int, n_classes: int, first: bool
) -> tuple[Rows, Rows]:
    """Return the classes (T, ways) and shots per class (T, ways) of every trial."""
    from firthshot._sampling import choose_classes, dirichlet_shots

    if first:
        classes = np.tile(np.arange(ways), (len(trials), 1))
    else:
        classes = choose_classes(np.uint64(key), trials, n_classes, ways)
    if isinstance(shots, DirichletShots):
        return classes, dirichlet_shots(
            np.uint64(key), trials, ways, shots.mean, shots.concentration
        )
    return classes, np.tile(counts, (len(trials), 1))


def _check_rows(
    names: Sequence[str], sizes: Rows, classes: Rows, shots: Rows, queries: int | str
) -> None:
    wanted = shots + (1 if queries == "rest" else int(queries))
    short = sizes[classes] < wanted
    if short.any():
        trial, slot = np.argwhere(short)[0]
        which = classes[trial, slot]
        asked = f"{shots[trial, slot]} shots + " + (
            "at least one query" if queries == "rest" else f"{queries} queries"
        )
        raise EpisodeError(
            f"Class {names[which]!r} has {sizes[which]} rows, fewer than {asked}; ask for fewer."
        )


def _draw(
    key: int,
    trials: Rows,
    classes: Rows,
    shots: Rows,
    flat: Rows,
    starts: Rows,
    held_out: int,
    queries: int | str,
) -> Episodes:
    from firthshot._sampling import ClassRows, DrawnRows, draw_rows

    sizes = np.diff(starts)[classes]
    per_class = sizes - shots if queries == "rest" else np.full_like(shots, int(queries))
    offsets = np.concatenate(([0], np.cumsum(per_class.sum(1))))
    support = np.empty((len(trials), int(shots[0].sum())), np.int64)
    support_labels = np.empty_like(support)
    query, query_labels = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64)
    drawn = DrawnRows(support, support_labels, query, query_labels, offsets)
    rows = ClassRows(flat, starts)
    draw_rows(np.uint64(key), trials, classes, shots, per_class, rows, held_out, drawn)
    return Episodes(
        key,
        classes.shape[1],
        trials,
        classes,
        support,
        support_labels,
        query,
        query_labels,
        offsets,
    )
