"""What the studies took here, and what the published number of trials would take.

Of the presets that the paper counts, one trial of every published shape is trained and scored on
made-up features (`measure_published`), and its processor time multiplied by the published trials.

For the others the operation counts of `firthshot.experiments.plan.layout` give the time of any plan
up to a factor that depends on machine and method. The factor of a preset is what its own runs took,
over what the counts say of them; the counts of the published plan (all its backbones and data sets,
all its trials) times this factor are the projection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from benchmarks.sweep_projection import COUNTED, PAPER_COUNT, preset_cost, published_plan
from firthshot.errors import FirthshotError
from firthshot.experiments.plan.layout import Plan, make_plan, trial_seconds
from firthshot.experiments.spec.choose import open_banks, settle_banks
from firthshot.experiments.spec.reading import load_spec
from firthshot.files import write_whole
from firthshot.progress import duration
from studies.reproduction.keep import Record
from studies.reproduction.kept import Kept
from studies.reproduction.plan import Study, Task, read_plan
from studies.words import table

PAPER_YEARS = 21
PUBLISHED = "published.json"
_YEAR = 365.25 * 24 * 3600
_WIDTH = 640  # features of the paper's WRN-28-10, for Distribution Calibration
_TABLES = {"calibration-cross": 2, "calibration-tiered": 1}  # pairs of data sets in the paper


@dataclass(frozen=True)
class Cost:
    """One study: what it took here, and what its preset would take as published."""

    study: Study
    trials: int
    classifiers: int
    seconds: float
    published: Published | None


@dataclass(frozen=True)
class Published:
    """The published size of a preset; seconds are those of one core."""

    trials: int
    classifiers: int
    seconds: float


def budget(kept: Kept) -> list[str]:
    """Return the table of all studies, and what it comes to."""
    costs = list(study_costs(kept.records, read_published(kept.folder)))
    return [*table(map(_row, costs)), "", _words(costs)]


def measure_published(folder: Path) -> None:
    """Measure a trial of every published shape of what the paper counts; keep it in a folder."""
    found = {}
    for name in COUNTED:
        cost = preset_cost(name)
        trials = published_plan(name).trials
        found[name] = Published(trials, cost["classifiers"], round(cost["core_s"]))
        print(f"{name}: {duration(cost['core_s'])} of one core", flush=True)
    write_whole(folder / PUBLISHED, msgspec.json.format(msgspec.json.encode(found)) + b"\n")


def read_published(folder: Path) -> dict[str, Published]:
    """Return what was measured last; nothing where nothing was."""
    if not (folder / PUBLISHED).exists():
        return {}
    return msgspec.json.decode((folder / PUBLISHED).read_bytes(), type=dict[str, Published])


def _words(costs: Sequence[Cost]) -> str:
    """Say what all of it comes to."""
    presets = [cost.published for cost in costs if cost.published]
    counted = [cost.published for cost in costs if cost.published and cost.study.name in COUNTED]
    seconds = sum(big.seconds for big in counted)
    return (
        f"All studies here: {sum(cost.classifiers for cost in costs):,} classifiers, "
        f"{duration(sum(cost.seconds for cost in costs))} of one core. The presets above as "
        f"published: {sum(big.classifiers for big in presets):,} classifiers, "
        f"{duration(sum(big.seconds for big in presets))} of one core. The paper counts "
        f"{PAPER_COUNT / 1e6:g} million classifiers and {PAPER_YEARS} CPU-years for its linear, "
        f"3-layer and cosine heads ({', '.join(COUNTED)}); by its configurations these are "
        f"{sum(big.classifiers for big in counted):,} classifiers, {duration(seconds)} of one "
        f"core, {PAPER_YEARS * _YEAR / max(seconds, 1):,.0f} times less."
    )


def _row(cost: Cost) -> dict[str, Any]:
    row: dict[str, Any] = {
        "study": cost.study.name,
        "trials": f"{cost.trials:,}",
        "classifiers": f"{cost.classifiers:,}" if cost.classifiers else "",
        "one core, here": duration(cost.seconds),
        "ms each": f"{1000 * cost.seconds / cost.classifiers:.1f}" if cost.classifiers else "",
    }
    big = cost.published
    row |= {"published trials": f"{big.trials:,}" if big else ""}
    row |= {"published classifiers": f"{big.classifiers:,}" if big else ""}
    return row | {"one core, projected": duration(big.seconds) if big else ""}


def study_costs(
    records: Sequence[Record], measured: Mapping[str, Published] = MappingProxyType({})
) -> Iterator[Cost]:
    """Yield the cost of every study that has been run, projected where it was not measured."""
    for study in read_plan():
        mine = [record for record in records if record.study == study.name]
        if mine:
            seconds = sum(record.processor_seconds for record in mine)
            classifiers = sum(record.classifiers for record in mine)
            big = measured.get(study.name)
            if big is None and study.banks and not study.preset:
                big = _published(study, mine)
            yield Cost(study, mine[0].trials, classifiers, seconds, big)


def _published(study: Study, records: Sequence[Record]) -> Published:
    """Project a preset to its published trials, on banks of the paper's shapes."""
    measured = modelled = 0.0
    for record in records:
        plan = _own_plan(Task(study, record.bank))
        measured += record.processor_seconds
        modelled += model_seconds(plan) / plan.trials * record.trials
    preset = load_spec(study.source)
    if preset.calibration:
        wide = model_seconds(plan, _WIDTH) / plan.trials * preset.trials
        tables = _TABLES[study.name]
        count = _classifiers(plan) // plan.trials * preset.trials * tables
        return Published(preset.trials, count, wide * tables * measured / modelled)
    plan = published_plan(study.source)
    seconds = model_seconds(plan) * measured / modelled
    return Published(plan.trials, _classifiers(plan), seconds)


def _own_plan(task: Task) -> Plan:
    spec: Any = task.spec()
    try:
        banks = open_banks(settle_banks(spec))
    except FirthshotError:
        raise FirthshotError(
            f"The budget needs the bank {task.bank!r} to count what {task.place} did."
        ) from None
    return make_plan(settle_banks(spec), banks)


def model_seconds(plan: Plan, width: int | None = None) -> float:
    """Return the seconds that operation counts say a plan takes, with features of this width."""
    total = 0.0
    for setting in plan.settings:
        shape = setting.shape if width is None else setting.shape._replace(d=width)
        total += plan.trials * trial_seconds(setting.method, shape)
    return total


def _classifiers(plan: Plan) -> int:
    """Count the classifiers of a plan without laying out its cells."""
    each = [len(s.method.coefficients) + s.method.theory for s in plan.settings]
    return plan.trials * sum(each)
