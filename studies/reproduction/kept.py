"""Read the kept tables, and correct all tests of the reproduction together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from firthshot.experiments.statistics import holm
from studies.reproduction.keep import PAIRS, Record, read_records

ALPHA = 0.05


@dataclass(frozen=True)
class Kept:
    """The tables of ``reproduction/kept/``; each has the column ``study`` first.

    ``p_family`` is Wilcoxon's p, corrected by Holm over all lines of a table, whatever study they
    are of: ``chosen`` is one family, ``contrasts``, ``theory`` and ``pairs`` are others.
    """

    folder: Path

    @cached_property
    def chosen(self) -> pl.DataFrame:
        """Return the coefficient chosen on val, on novel; reference heads are not tests."""
        return _corrected(self._read("chosen").filter(pl.col("penalty") != "none"))

    @cached_property
    def references(self) -> pl.DataFrame:
        """Return the lines of the reference heads."""
        return self._read("chosen").filter(pl.col("penalty") == "none")

    @cached_property
    def contrasts(self) -> pl.DataFrame:
        """Return methods against one another."""
        return _corrected(self._read("contrasts"))

    @cached_property
    def theory(self) -> pl.DataFrame:
        """Return the chosen coefficient against the theory's."""
        return _corrected(self._read("theory"))

    @cached_property
    def pairs(self) -> pl.DataFrame:
        """Return studies against one another."""
        return _corrected(self._read(PAIRS))

    @cached_property
    def all(self) -> pl.DataFrame:
        """Return every coefficient."""
        return self._read("all")

    @cached_property
    def calibration(self) -> pl.DataFrame:
        """Return Distribution Calibration, artificial rows and λ chosen together."""
        return self._read("calibration")

    @cached_property
    def records(self) -> list[Record]:
        """Return what the tables are summaries of."""
        return read_records(self.folder)

    def _read(self, name: str) -> pl.DataFrame:
        return pl.read_parquet(self.folder / f"{name}.parquet")


def _corrected(frame: pl.DataFrame) -> pl.DataFrame:
    p = holm(frame["p_wilcoxon"].fill_null(1.0).to_numpy())
    return frame.with_columns(pl.Series("p_family", p, dtype=pl.Float64))


def mean(frame: pl.DataFrame, column: str) -> Any:
    """Return the mean of a column, None where it is empty."""
    return frame[column].mean()
