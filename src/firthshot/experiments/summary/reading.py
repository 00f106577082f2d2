"""Find what run folders hold, and read it one setting at a time.

Only keys are read for all files at once; rows are read cell by cell, so that memory holds the
trials of one setting and never those of the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from firthshot.arrays import Array
from firthshot.errors import FirthshotError
from firthshot.experiments.run.store import part_files, refuse_damaged
from firthshot.experiments.schema import BINS, ENDED_WELL, KEYS, ROW, TRIAL_KEYS, TRIALS
from firthshot.experiments.spec.shots import shots_in_words

Key = tuple[Any, ...]  # the values of KEYS, in their order

SCORES = ("accuracy", "nll", "brier", "ece")
_COLUMNS = ("coefficient", "theory", "theory_exact", "trial", *SCORES, "status")


@dataclass(frozen=True)
class Index:
    """Which files hold which cells."""

    files: dict[Key, list[Path]]  # key → parts that hold rows of it
    mixed: frozenset[Path]  # parts that hold more than one key

    def load(self, key: Key) -> pl.DataFrame:
        """Read the rows of one key."""
        rows = pl.scan_parquet(self.files[key], glob=False)
        if not self.mixed.isdisjoint(self.files[key]):
            rows = rows.filter(_is(KEYS, key))
        ok = pl.col("status").is_in(ENDED_WELL) & pl.col("accuracy").is_finite()
        return rows.select(*_COLUMNS, ok=ok).collect()

    def classes(self, place: Key) -> tuple[Array, Array] | None:
        """Read which classes the trials of a place drew: (T,) ascending and (T, K), or None.

        All methods' tables are read: the same trial must have drawn the same classes in each.
        """
        tables = _beside(self._parts_by_place[place], "trials", TRIALS)
        if not tables:
            return None
        frame = pl.scan_parquet(tables, glob=False).filter(_is(TRIAL_KEYS, place)).collect()
        return _distinct_trials(frame, place)

    def bins(self) -> list[Path]:
        """Return the tables of reliability bins, those that there are."""
        return _beside({path for paths in self.files.values() for path in paths}, "bins", BINS)

    @cached_property
    def _parts_by_place(self) -> dict[Key, set[Path]]:
        parts: dict[Key, set[Path]] = {}
        for key, paths in self.files.items():
            parts.setdefault(trial_keys(key), set()).update(paths)
        return parts


def trial_keys(key: Key) -> Key:
    """Return what trials depend on: bank, split, ways, shots and their scheme."""
    return tuple(value for name, value in zip(KEYS, key, strict=True) if name in TRIAL_KEYS)


def read_index(folders: Sequence[Path]) -> Index:
    """Find the parts of run folders and read their keys.

    A part that occurs in two folders under the same name (its content's hash) is read once.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        parts = part_files(folder)
        refuse_damaged(folder)
        if not parts:
            raise FirthshotError(
                f"{folder} holds no finished cells (no parts/*.parquet): run an experiment first."
            )
        for part in parts:
            found.setdefault(part.name, part)
    for part in found.values():
        check_schema(part, ROW)
    return _index(list(found.values()))


def check_schema(path: Path, schema: dict[str, str]) -> None:
    """Refuse a table that has other columns; `refuse_damaged` has looked at it before."""
    there = pl.scan_parquet(path, glob=False).collect_schema()
    if {name: str(kind) for name, kind in there.items()} != schema:
        raise FirthshotError(
            f"{path} is not a table of a run (other columns or types): move it elsewhere."
        )


def _beside(parts: set[Path], kind: str, schema: dict[str, str]) -> list[Path]:
    """Return the tables of a kind that lie beside parts; refuse those with other columns."""
    beside = [path.parents[1] / kind / path.name for path in sorted(parts)]
    tables = [path for path in beside if path.is_file()]
    for table in tables:
        check_schema(table, schema)
    return tables


def _index(paths: list[Path]) -> Index:
    keys = (
        pl.scan_parquet(paths, include_file_paths="file", glob=False)
        .select(*KEYS, "file")
        .unique()
        .collect(engine="streaming")
        .sort(*KEYS, "file")
    )
    by_name = {str(path): path for path in paths}
    files: dict[Key, list[Path]] = {}
    for *key, name in keys.iter_rows():
        files.setdefault(tuple(key), []).append(by_name[name])
    counts = keys["file"].value_counts().filter(pl.col("count") > 1)["file"]
    return Index(files, frozenset(by_name[name] for name in counts))


def refuse_overlap(index: Index) -> None:
    """Refuse folders that share some trials of a setting, but not all.

    Rows are matched by trial, but reliability bins are sums over the trials of a part: those of a
    trial that two folders hold would count twice. Where they hold the very same trials (say, with
    other coefficients) all count alike, and the pooled ECE is right.
    """
    for key, parts in index.files.items():
        if len({part.parents[1] for part in parts}) > 1:
            _refuse_shared(index, key)


def _refuse_shared(index: Index, key: Key) -> None:
    parts = index.files[key]
    folders = {str(part): str(part.parents[1]) for part in parts}
    held = (
        pl.scan_parquet(parts, include_file_paths="file", glob=False)
        .filter(_is(KEYS, key))
        .select(
            "trial",
            which=pl.when(~pl.col("theory")).then(pl.col("coefficient")),
            folder=pl.col("file").replace_strict(folders, return_dtype=pl.String),
        )
        .group_by("which", "trial")
        .agg(pl.col("folder").unique().sort())
        .with_columns(times=pl.col("folder").list.len())
        .filter(pl.col("times").n_unique().over("which") > 1, pl.col("times") > 1)
        .sort("trial")
        .collect()
    )
    if held.is_empty():
        return
    where = dict(zip(KEYS, key, strict=True))
    shots = shots_in_words(where["shots"], where["shots_scheme"])
    first, last = held["trial"][0], held["trial"][-1]
    which = f"trial {first}" if first == last else f"trials from {first} to {last}"
    raise FirthshotError(
        f"{' and '.join(held['folder'][0])} both hold {which} of {where['bank']}, "
        f"{where['ways']}-way {shots}, {where['split']}, which would count twice: report them "
        "apart, or give the second run a first_trial after the last trial of the first."
    )


def _is(names: Sequence[str] | dict[str, str], values: Key) -> pl.Expr:
    pairs = zip(names, values, strict=True)
    return pl.all_horizontal(pl.col(name).eq_missing(pl.lit(value)) for name, value in pairs)


def _distinct_trials(frame: pl.DataFrame, place: Key) -> tuple[Array, Array] | None:
    """Keep each trial once; the same trial must have the same classes wherever it is told."""
    widths = frame["classes"].list.len().unique()
    if len(widths) != 1:
        return None
    frame = frame.sort("trial")
    trials = frame["trial"].to_numpy()
    classes = frame["classes"].list.to_array(widths[0]).to_numpy().astype(np.int64)
    again = np.flatnonzero(trials[1:] == trials[:-1]) + 1
    if (classes[again] != classes[again - 1]).any():
        raise FirthshotError(
            f"Trials of {', '.join(map(str, place))} ({', '.join(TRIAL_KEYS)}) drew different "
            "classes in different parts: summarise the runs apart."
        )
    first = np.r_[True, trials[1:] != trials[:-1]][: len(trials)]
    return trials[first], classes[first]


def pooled_ece(index: Index) -> dict[Key, dict[float | None, float]]:
    """Return the ECE of all queries of all trials together, by key and coefficient (None: theory).

    The reliability bins are pooled before the gap is taken: unlike the mean of the trials' own ECE,
    this does not grow when queries are few.
    """
    tables = index.bins()
    if not tables:
        return {}
    which = pl.when(~pl.col("theory")).then(pl.col("coefficient"))
    gap = pl.col("confidence_sum") - pl.col("correct_sum")
    bins = (
        pl.scan_parquet(tables, glob=False)
        .group_by(*KEYS, which.alias("which"), "bin")
        .agg(pl.col("count").sum(), gap=gap)
        .collect()
    )
    # Groups come in any order; exact sums do not depend on it, so that tables are reproducible.
    gaps = pl.Series([abs(math.fsum(each)) for each in bins["gap"].to_list()], dtype=pl.Float64)
    found = (
        bins.with_columns(gap=gaps)
        .group_by(*KEYS, "which")
        .agg(pl.col("count").sum(), pl.col("gap"))
    )
    pooled: dict[Key, dict[float | None, float]] = {}
    for *key, coefficient, count, each in found.iter_rows():
        ece = math.fsum(each) / count if count else math.nan
        pooled.setdefault(tuple(key), {})[coefficient] = ece
    return pooled


def splits(index: Index) -> Iterator[tuple[Key, dict[str, list[Key]]]]:
    """Group keys that differ only in split, and in what a split could give: keys by split."""
    names = list(KEYS)
    loose = [names.index(name) for name in ("split", "actual_ways", "query_rule")]
    groups: dict[Key, dict[str, list[Key]]] = {}
    for key in index.files:
        identity = tuple(value for i, value in enumerate(key) if i not in loose)
        groups.setdefault(identity, {}).setdefault(key[loose[0]], []).append(key)
    yield from groups.items()
