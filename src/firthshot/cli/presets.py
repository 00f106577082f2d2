"""``firthshot presets``: what can be reproduced, with which settings, at what cost here."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firthshot.cli._options import AsJson, BankNames
from firthshot.cli._screen import echo, echo_data, echo_json, facts, screen
from firthshot.cli._screen import table as make_table

if TYPE_CHECKING:
    from firthshot.banks import Bank
    from firthshot.experiments.spec import GeometricSpec, Spec

SHOWN = (
    *("question", "reproduces", "remark", "splits", "transform", "heads", "references", "solver"),
    *("calibration", "penalties", "priors", "coefficients", "l2_coefficients", "theory"),
    *("ways", "shots", "trials", "queries", "fixed_query", "first_classes"),
    *("p", "sample_size", "slope"),
)


def presets(
    name: Annotated[str | None, typer.Argument()] = None,
    bank: BankNames = None,
    toml: bool = False,
    as_json: AsJson = False,
) -> None:
    """List the presets, or show one: its settings, size and estimated run time."""
    from firthshot.experiments.spec import presets_of
    from firthshot.experiments.spec.reading import read_source

    if name is None:
        _list(as_json)
    elif toml:
        echo_data("\n".join(read_source(each)[1] for each in presets_of(name)))
    else:
        described = [_described(each, bank) for each in presets_of(name)]
        if as_json:
            echo_json(described[0] if len(described) == 1 else described)
        else:
            for rows in described:
                remarks = rows.pop("remarks")
                screen().print(facts(rows))
                for line in remarks:
                    echo(line)


def _list(as_json: bool) -> None:
    from firthshot.experiments.spec import load_any, paper_items, preset_names

    specs = [load_any(name) for name in (*preset_names(), *preset_names("geometric"))]
    specs.sort(key=lambda spec: (spec.name != "quickstart", spec.name))
    rows = [
        {"preset": spec.name, "question": spec.question, "reproduces": spec.reproduces}
        for spec in specs
    ]
    if as_json:
        echo_json(rows)
        return
    table = make_table("preset", "question", "in the paper")
    for row in rows:
        table.add_row(*row.values())
    screen().print(table)
    echo("Run one: firthshot run quickstart --bank my.bank")
    echo(f"Or all that a figure or table of the paper needs: {', '.join(paper_items())}")
    echo("Settings, size and estimated run time: firthshot presets NAME")


def _described(name: str, banks: list[str] | None) -> dict[str, Any]:
    """Return the settings, size and remarks of one preset on these banks."""
    from firthshot.experiments.spec import Spec, load_any, open_banks, settle_banks
    from firthshot.experiments.spec.choose import bank_remark

    spec, remarks = load_any(name, {"banks": banks} if banks else None), list[str]()
    spec = settle_banks(spec) if isinstance(spec, Spec) else spec
    plain = spec.as_dict()
    rows = {"preset": spec.name} | {one: _show(plain[one]) for one in SHOWN if one in plain}
    if isinstance(spec, Spec):
        rows |= {"banks": bank_remark(spec), **_solver(spec)}
        size, remarks = _size(spec, open_banks(spec))
        rows |= size
    else:
        rows["time"] = _geometric_time(spec)
    return {what: words for what, words in rows.items() if words} | {"remarks": remarks}


def _solver(spec: Spec) -> dict[str, str]:
    """Return the settings of the solver for each head, resolved, under the names of ``--set``."""
    from firthshot.experiments.spec.methods import solver_options

    out = {}
    for head in spec.heads:
        options, one_shot = (solver_options(spec, head, shots) for shots in (5, 1))
        for name, value in one_shot.items():
            if value != options[name]:
                options[name] = f"{value} for 1 shot, else {options[name]}"
        out[f"  {head}"] = _show({f"{spec.solver}.{key}": value for key, value in options.items()})
    return out


def _size(spec: Spec, banks: list[Bank]) -> tuple[dict[str, str], list[str]]:
    """Return the size of the run on these banks, and what the plan remarks.

    Where the preset cannot be run on them, that is a remark too: its settings can still be shown.
    """
    from firthshot.errors import FirthshotError
    from firthshot.experiments.plan import condense, count_classifiers, estimate, make_plan
    from firthshot.experiments.run.workers import default_workers

    try:
        plan = make_plan(spec, banks)
    except FirthshotError as error:
        return {}, [str(error)]
    size = {
        "classifiers": f"{count_classifiers(plan.cells):,} in {len(plan.cells):,} cells",
        "time": estimate(plan).words(default_workers()),
    }
    return size, condense(plan.notes)


def _geometric_time(spec: GeometricSpec) -> str:
    """Estimate the time from a small block, timed here and now."""
    from firthshot.experiments.geometric import error_sums
    from firthshot.experiments.run.workers import default_workers
    from firthshot.progress import duration

    error_sums(spec, (0, 1))  # compiled before the clock starts
    few = min(spec.trials, max(1, 500_000 // spec.sample_size))
    start = time.perf_counter()
    error_sums(spec, (0, few))
    seconds = (time.perf_counter() - start) / few * spec.trials
    cores = default_workers()
    return f"about {duration(seconds / cores)} on {cores} cores"


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_show(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_show, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
