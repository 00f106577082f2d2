"""Summarise run folders: every coefficient, the chosen one, and methods against one another.

``summarise`` writes ``summary/all``, ``chosen`` and ``contrasts`` (and ``calibration`` of runs with
Distribution Calibration), each as CSV and Parquet, and ``summary/warnings.json``. Accuracies are
fractions; a column ``…_ci`` is the half-width t · sd / √n (ddof 1, Student's t) of a 95 % interval
over trials. ``docs/statistics.md`` has every rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from firthshot.errors import FirthshotError
from firthshot.experiments.run.record import write_record
from firthshot.experiments.run.store import sealed_parquet
from firthshot.experiments.schema import KEYS
from firthshot.experiments.statistics import holm
from firthshot.experiments.summary.choice import (
    CALIBRATION,
    Chosen,
    LambdaChoice,
    Line,
    calibration_lines,
    choose,
    chosen_line,
    every_line,
    partner,
    remarks,
)
from firthshot.experiments.summary.classes import ClassDesign
from firthshot.experiments.summary.columns import ALL, CHOSEN, CONTRASTS, harmless_csv
from firthshot.experiments.summary.contrasts import contrast_line, pairs
from firthshot.experiments.summary.reading import (
    Index,
    Key,
    pooled_ece,
    read_index,
    splits,
    trial_keys,
)
from firthshot.experiments.summary.scores import (
    Scored,
    ignores_coefficient,
    label,
    load_scored,
)
from firthshot.experiments.summary.training import Training, differences, read_trainings
from firthshot.experiments.summary.warnings import (
    few_trials,
    left_out,
    losses,
    no_class_interval,
    no_optimum,
    not_contrasted,
)
from firthshot.files import write_whole, writing_to

_NAMES = ("all", "chosen", "contrasts")
_WARNINGS = "warnings.json"
_NO_BASE = "no trial succeeded at λ = 0"
FEW_TRIALS = 20  # below, or with less than half of those asked for, a choice is worth a warning


class Unjudged(msgspec.Struct, frozen=True):
    """A penalty in a setting that has no line in ``chosen``, and why."""

    setting: str
    penalty: str
    prior: str
    reason: str


@dataclass(frozen=True)
class RunSummary:
    """The tables of one or several runs."""

    all: pl.DataFrame  # one line per key and coefficient, the theory's included
    # one line per method and setting, at the coefficient chosen on ``val``, on ``novel``
    chosen: pl.DataFrame
    contrasts: pl.DataFrame  # paired differences between methods on the same trials
    warnings: list[str]  # sentences that a reader of the tables should know
    # artificial rows and coefficient chosen together; empty, and not written, where there are none
    calibration: pl.DataFrame = field(default_factory=lambda: _table([], CALIBRATION))
    # what has no line in ``chosen``, as its trials did not end well
    unjudged: list[Unjudged] = field(default_factory=list)

    @property
    def penalised(self) -> bool:
        """Return whether any classifier has a penalty."""
        return bool(self.unjudged) or bool((self.all["penalty"] != "none").any())

    @property
    def not_judged(self) -> list[str]:
        """Say for which banks no λ could be chosen: the verdict does not count their settings."""
        found = self.all.filter(pl.col("penalty") != "none")
        novel, val = (found.filter(pl.col("split") == split)["bank"] for split in ("novel", "val"))
        banks = sorted(set(novel) - set(val))
        return [f"{bank} has no validation trials: it is not judged." for bank in banks]

    def write(self, folder: Path) -> None:
        """Write the tables as CSV and Parquet, and the warnings; each file whole or not at all."""
        drawn = ("calibration",) if len(self.calibration) else ()
        with writing_to(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for name in (*_NAMES, *drawn):
                frame: pl.DataFrame = getattr(self, name)
                write_whole(folder / f"{name}.csv", harmless_csv(frame).encode())
                write_whole(folder / f"{name}.parquet", sealed_parquet(frame))
        write_record(folder / _WARNINGS, self.warnings)


def summarise(folder: Path) -> RunSummary:
    """Summarise one run folder and write ``folder/summary/``."""
    summary = summarise_many([folder])
    summary.write(Path(folder) / "summary")
    return summary


def summarise_many(folders: Sequence[Path]) -> RunSummary:
    """Summarise several run folders together, in memory.

    A cell that is in two folders counts once. Runs are refused where the same trial and coefficient
    have different scores, or the same trial different classes, and where they have different banks
    of one name or trained one setting differently.
    """
    if not folders:
        raise FirthshotError("There is nothing to summarise: name at least one run folder.")
    index = read_index([Path(folder) for folder in folders])
    trainings = read_trainings(index)
    work = _Work(index, pooled_ece(index), trainings)
    for _, keys in splits(index):
        work.add_group(keys)
    return work.finish()


@dataclass
class _Work:
    index: Index
    pooled: dict[Key, dict[float | None, float]]
    trainings: dict[Key, Training]
    all: list[Line] = field(default_factory=list)
    chosen: list[Line] = field(default_factory=list)
    kept: list[Chosen] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)
    designs: dict[Key, ClassDesign | None] = field(default_factory=dict)
    drawn: list[tuple[Scored, Scored]] = field(default_factory=list)
    unjudged: list[Unjudged] = field(default_factory=list)
    few: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    left: dict[str, list[str]] = field(default_factory=dict)
    separable: dict[str, int] = field(default_factory=dict)

    def add_group(self, keys: dict[str, list[Key]]) -> None:
        """Add the settings that differ only in split."""
        scored: dict[str, list[Scored]] = {"val": [], "novel": []}
        for split, some in keys.items():
            for key in some:
                one = load_scored(self.index, key)
                self.warn(*losses(one))
                if one.separable:
                    self.separable[f"{label(one.key)}, {split}"] = one.separable
                if len(one.trials):
                    self.all += every_line(one, self.pooled.get(key, {}))
                    scored.setdefault(split, []).append(one)
                elif split == "novel":
                    self.lose(one.key, _NO_BASE)
        if not scored["novel"] and (missing := scored["val"]):
            self.leave_out(missing[0], "there are no usable novel rows")
        for novel in scored["novel"]:
            if keys.get("val") and not scored["val"]:
                self.lose(novel.key, _NO_BASE)
            self.add_chosen(novel, scored["val"])

    def add_chosen(self, novel: Scored, vals: list[Scored]) -> None:
        """Choose on val, apply to novel."""
        val, choice = partner(novel, vals), LambdaChoice(0.0)
        if novel.key["penalty"] != "none":
            if val is None:
                several = "several val settings fit"
                none = "there are no usable val rows to choose on"
                self.leave_out(novel, several if vals else none)
                return
            choice = self.choice_on(val)
        at = novel.at(choice.coefficient)
        if at < 0 or not (novel.scores["accuracy"][at] >= 0).any():
            why = f"the chosen coefficient {choice.coefficient:g} has no novel row that succeeded"
            self.leave_out(novel, why)
            self.lose(novel.key, "no novel trial succeeded at the chosen λ")
            return
        key = tuple(novel.key.values())
        if novel.key["penalty"] != "none" and ignores_coefficient(novel):
            novel = self.without_penalty(novel)
            if any(one.key == novel.key for one in self.kept):
                return  # once, whatever penalties it was asked to have
        line, kept = chosen_line(novel, choice, self.design(key), self.pooled.get(key, {}))
        self.chosen.append(line)
        self.kept.append(kept)
        if novel.key["source"] and val is not None:
            self.drawn.append((val, novel))

    def without_penalty(self, novel: Scored) -> Scored:
        """Return a head that no λ changes as what it is: one that has none to choose."""
        head = novel.key["head"]
        self.warn(f"{head}: no λ changes this head, so it counts as one without penalty.")
        return replace(novel, key={**novel.key, "penalty": "none", "prior": "uniform"})

    def choice_on(self, val: Scored) -> LambdaChoice:
        """Choose, and warn of what a reader must know."""
        choice = choose(val)
        self.warn(*remarks(val, choice))
        trials, asked = len(val.trials), len(val.trials) + val.dropped
        if trials < FEW_TRIALS or 2 * trials < asked:
            self.few.setdefault((trials, asked), []).append(label(val.key))
        return choice

    def design(self, key: Key) -> ClassDesign | None:
        """Return which classes the trials of a setting drew."""
        place = trial_keys(key)
        if place not in self.designs:
            found = self.index.classes(place)
            self.designs[place] = made = ClassDesign.of(*found) if found else None
            if made is None or made.solve is None:
                self.warn(no_class_interval(dict(zip(KEYS, key, strict=True)), made))
        return self.designs[place]

    def contrast(self, one: Chosen, other: Chosen) -> Line | None:
        """Compare two methods; warn instead where that would not compare the penalties."""
        if one.key["head"] == other.key["head"]:
            trainings = (self.trainings.get(tuple(each.key.values())) for each in (one, other))
            if otherwise := differences(*trainings):
                self.warn(not_contrasted(one.key, other.key, otherwise))
                return None
        line = contrast_line(one, other, self.design(tuple(one.key.values())))
        if line is None:
            self.warn(f"{label(one.key)} and {label(other.key)} share no trials.")
        return line

    def lose(self, key: dict[str, Any], reason: str) -> None:
        """Remember a penalty in a setting that cannot be judged."""
        if key["penalty"] != "none":
            self.unjudged.append(Unjudged(label(key), key["penalty"], key["prior"], reason))

    def leave_out(self, one: Scored, why: str) -> None:
        """Keep a setting that has no line in the tables, with others of the same reason."""
        self.left.setdefault(why, []).append(label(one.key))

    def warn(self, *sentences: str) -> None:
        """Keep each sentence once, in order."""
        self.warnings |= dict.fromkeys(sentences)

    def finish(self) -> RunSummary:
        """Contrast the methods, correct for their number, and make tables."""
        lines = [line for pair in pairs(self.kept) if (line := self.contrast(*pair))]
        if lost := self.separable:
            self.warn(no_optimum(sum(lost.values()), list(lost)))
        self.warn(*(left_out(why, settings) for why, settings in self.left.items()))
        self.warn(*(few_trials(*counts, settings) for counts, settings in self.few.items()))
        return RunSummary(
            _table(self.all, ALL),
            _with_holm(_table(self.chosen, CHOSEN), pl.col("penalty") != "none"),
            _with_holm(_table(lines, CONTRASTS), pl.lit(True)),
            list(self.warnings),
            _table(list(calibration_lines(self.drawn)), CALIBRATION),
            self.unjudged,
        )


def _table(lines: list[Line], schema: dict[str, Any]) -> pl.DataFrame:
    """Make a table with all its columns, empty ones too, sorted by its keys."""
    rows = [{name: line.get(name) for name in schema} for line in lines]
    frame = pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        pl.selectors.float().fill_nan(None)
    )
    keys = [name for name in schema if name in KEYS or name.startswith("against_")]
    others = [name for name in ("theory", "coefficient") if name in schema]
    return frame.sort(*keys, *others, nulls_last=True)


def _with_holm(frame: pl.DataFrame, tests: pl.Expr) -> pl.DataFrame:
    """Correct the p-values of a table as one family; lines that test nothing are not part of it."""
    p = frame.select(pl.when(tests).then("p_wilcoxon")).to_series().fill_null(float("nan"))
    corrected = pl.Series("p_holm", holm(p.to_numpy()), dtype=pl.Float64)
    return frame.with_columns(corrected.fill_nan(1.0))
