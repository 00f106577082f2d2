"""Gather run folders for a report: the summary, the runs, and aggregates of their trials.

Nothing here holds rows of trials: reliability bins are pooled, differences between matched trials
are counted into a histogram, so that what a report holds does not grow with the trials.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from firthshot.errors import FirthshotError
from firthshot.experiments.checks import Check, read_checks
from firthshot.experiments.geometric import GeometricResult, read_geometric
from firthshot.experiments.run.record import read_times
from firthshot.experiments.schema import BINS, KEYS, SPLITLESS
from firthshot.experiments.summary import RunSummary, summarise, summarise_many
from firthshot.experiments.summary.columns import ALL, CHOSEN, CONTRASTS
from firthshot.experiments.summary.reading import Index, read_index, refuse_overlap
from firthshot.experiments.summary.scores import load_scored
from firthshot.experiments.summary.training import read_trainings
from firthshot.report.runs import TRIALS, Run, read_run
from firthshot.report.verdict import Verdict, make_verdicts

HISTOGRAM_BINS = 41  # odd: the middle one is around zero
HISTOGRAM: dict[str, Any] = {
    **{name: getattr(pl, KEYS[name]) for name in SPLITLESS},
    "coefficient": pl.Float64,
    "theory": pl.Boolean,
    "low": pl.Float64,
    "high": pl.Float64,
    "count": pl.Int64,
    "trials": pl.Int64,
}


@dataclass(frozen=True)
class Gathered:
    """All that a report is made of."""

    summary: RunSummary  # its tables are empty where no run has trials
    runs: tuple[Run, ...]  # one per folder, in the order given
    # where the rows are, one setting at a time; None where no run has trials
    index: Index | None = None

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """Return the verdicts, which terminal and page share."""
        return make_verdicts(self.summary, self.checks, self.bins)

    @cached_property
    def geometric(self) -> list[GeometricResult]:
        """Return the results of the geometric runs."""
        return [read_geometric(run.path) for run in self.runs if run.kind != TRIALS]

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """Return what the runs found of start, step and optimum."""
        return tuple(check for run in self.runs for check in read_checks(run.path))

    @cached_property
    def seconds(self) -> dict[tuple[Any, ...], float]:
        """Return the seconds of one classifier by bank, method and setting."""
        return {key: each for run in self.runs for key, each in read_times(run.path).items()}

    @property
    def named_geometric(self) -> Iterator[tuple[str, GeometricResult]]:
        """Yield the results of the geometric runs with the name of their figure and table."""
        for number, result in enumerate(self.geometric, 1):
            yield "geometric" if len(self.geometric) == 1 else f"geometric-{number}", result

    @cached_property
    def bins(self) -> pl.DataFrame:
        """Return the pooled reliability bins: the columns of ``schema.BINS``.

        One line per key, coefficient (and whether it is the theory's, whose coefficient is the mean
        over its trials) and bin; ``count``, ``confidence_sum`` and ``correct_sum`` are sums over
        all trials.
        """
        tables = self.index.bins() if self.index else []
        if not tables:
            return pl.DataFrame(schema={name: getattr(pl, kind) for name, kind in BINS.items()})
        which = pl.when(~pl.col("theory")).then(pl.col("coefficient"))
        return (
            pl.scan_parquet(tables, glob=False)
            .group_by(*KEYS, which.alias("which"), "theory", "bin")
            .agg(
                pl.col("coefficient").mean(),
                pl.col("count", "confidence_sum", "correct_sum").sum(),
            )
            .select(*BINS)
            .sort(*KEYS, "theory", "coefficient", "bin")
            .collect()
        )

    @cached_property
    def reliability(self) -> pl.DataFrame:
        """Return the bins on novel classes: without penalty, at the chosen and at the theory's λ.

        ``series`` says which; ``confidence`` and ``hit`` are the means of a bin.
        """
        novel = (pl.col("split") == "novel") & (pl.col("penalty") != "none") & (pl.col("count") > 0)
        chosen = self.summary.chosen.select(*SPLITLESS, chosen=pl.col("coefficient"))
        series = (
            pl.when("theory")
            .then(pl.lit("theory"))
            .when(pl.col("coefficient") == 0)
            .then(pl.lit("without"))
            .when(pl.col("coefficient") == pl.col("chosen"))
            .then(pl.lit("chosen"))
        )
        return (
            self.bins.filter(novel)
            .join(chosen, on=SPLITLESS, how="inner", nulls_equal=True)
            .with_columns(
                series=series,
                confidence=pl.col("confidence_sum") / pl.col("count"),
                hit=pl.col("correct_sum") / pl.col("count"),
            )
            .filter(pl.col("series").is_not_null())
        )

    @cached_property
    def differences(self) -> pl.DataFrame:
        """Return histograms of the per-trial differences in accuracy to coefficient 0, on novel.

        The columns of HISTOGRAM: for every line of ``chosen`` that has a penalty, the differences
        at the chosen coefficient, and at the theory's where it was trained. ``low`` and ``high``
        are a bin's ends (fractions), symmetric about 0 and the same for both; empty bins are left
        out. Rows are read when this is first asked for, one setting at a time.
        """
        rows = self.summary.chosen.filter(pl.col("penalty") != "none").to_dicts()
        index = self.index
        lines = [line for row in rows for line in self._histograms(index, row)] if index else []
        return pl.DataFrame(lines, schema=HISTOGRAM, orient="row")

    def _histograms(self, index: Index, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        about = {name: row[name] for name in SPLITLESS}
        key = tuple({**about, "split": "novel"}[name] for name in KEYS)
        scored = load_scored(index, key)
        accuracy = scored.scores["accuracy"]
        base = accuracy[scored.at(0.0)]
        found = {False: accuracy[scored.at(row["coefficient"])] - base}
        if scored.theory:
            found[True] = scored.theory["accuracy"] - base
        edges = _edges(list(found.values()))
        for theory, differences in found.items():
            own = row["theory_coefficient"] if theory else row["coefficient"]
            yield from _counted(differences, edges, {**about, "coefficient": own, "theory": theory})


def gather(folders: Sequence[Path], summary: RunSummary | None = None) -> Gathered:
    """Read run folders and summarise them.

    ``summary`` is that of the one folder, where it is at hand. A folder that is not a run's is
    refused, and so are folders that cannot be taken together: with different banks of one name, a
    setting that was trained differently, or some trials of a setting shared, but not all.
    """
    if not folders:
        raise FirthshotError("There is nothing to report: name at least one run folder.")
    distinct = {Path(folder).resolve(): Path(folder) for folder in folders}.values()
    runs = tuple(map(read_run, distinct))
    trials = [run.path for run in runs if run.kind == TRIALS]
    if not trials:
        every, chosen, contrasts = (pl.DataFrame(schema=s) for s in (ALL, CHOSEN, CONTRASTS))
        return Gathered(RunSummary(every, chosen, contrasts, []), runs)
    index = read_index(trials)
    read_trainings(index)  # refuses runs whose trials are not of one experiment
    refuse_overlap(index)
    if len(trials) > 1:
        return Gathered(summarise_many(trials), runs, index)
    return Gathered(summary or summarise(trials[0]), runs, index)


def _edges(differences: list[np.ndarray]) -> np.ndarray:
    """Return the ends of bins that are symmetric about zero and hold all differences."""
    widest = max(float(np.nanmax(np.abs(each), initial=0.0)) for each in differences)
    reach = widest * 1.000001 or 0.01
    return np.linspace(-reach, reach, HISTOGRAM_BINS + 1)


def _counted(
    differences: np.ndarray, edges: np.ndarray, about: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    ended = differences[np.isfinite(differences)]
    counts, _ = np.histogram(ended, edges)
    for at in np.flatnonzero(counts):
        ends = {"low": float(edges[at]), "high": float(edges[at + 1])}
        yield {**about, **ends, "count": int(counts[at]), "trials": len(ended)}
