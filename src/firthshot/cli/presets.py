"""``firthshot presets``: what can be reproduced, with which settings, at what cost here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from firthshot.cli._options import AsJson, BankNames
from firthshot.cli._screen import echo, echo_data, echo_json, facts, screen
from firthshot.cli._screen import table as make_table

if TYPE_CHECKING:
    from firthshot.banks import Bank
    from firthshot.experiments.spec.fields import Spec


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
    from firthshot.cli._geometric import settings as geometric_settings
    from firthshot.experiments.spec import Spec, load_any, open_banks, settle_banks

    spec, remarks = load_any(name, {"banks": banks} if banks else None), list[str]()
    if isinstance(spec, Spec):
        spec = settle_banks(spec)
        size, remarks = _size(spec, open_banks(spec))
        rows = {**_settings(spec), **size}
    else:
        rows = geometric_settings(spec)
    return {what: words for what, words in rows.items() if words} | {"remarks": remarks}


def _settings(spec: Spec) -> dict[str, str]:
    from firthshot.experiments.spec.choose import bank_remark

    rule = "all remaining rows" if spec.queries == "rest" else f"{spec.queries} per class"
    first = "yes: always the first of the split"
    return {
        "preset": spec.name,
        "question": spec.question,
        "reproduces": spec.reproduces,
        "remark": spec.remark,
        "banks": bank_remark(spec),
        "splits": ", ".join(spec.splits),
        "transform": spec.transform,
        "heads": _join(spec.heads) + (" and reference heads" if spec.references else ""),
        "solver": spec.solver,
        **_solver(spec),
        "calibration": _calibration(spec),
        "penalties": _join(spec.penalties),
        "priors": _join(spec.priors),
        **_grids(spec),
        "theory": "trained beside the grid" if spec.theory else "no",
        "ways": _join(spec.ways),
        "shots": _join(spec.shots),
        "trials": f"{spec.trials:,} per split, way and shot",
        "queries": f"{rule}, the last rows of each class" if spec.fixed_query else rule,
        "first_classes": first if spec.first_classes else "no: classes are drawn in every trial",
    }


def _grids(spec: Spec) -> dict[str, str]:
    fields = {"l2": "coefficients" if spec.l2_coefficients is None else "l2_coefficients"}
    fields |= {"label-smoothing": "smoothing"}
    names = {fields.get(family, "coefficients"): family for family in spec.penalties}
    return {name: _join(spec.grid(family)) for name, family in names.items() if family != "none"}


def _calibration(spec: Spec) -> str:
    asked = spec.calibration
    if asked is None:
        return ""
    return (
        f"{_join(asked.artificial)} artificial rows per class, {asked.neighbours} neighbours, "
        f"alpha {asked.alpha:g}; base classes of {_join(dict.fromkeys(spec.sources))}"
    )


def _solver(spec: Spec) -> dict[str, str]:
    from firthshot.experiments.spec.methods import solver_options

    out = {}
    for head in spec.heads:
        options, one_shot = (solver_options(spec, head, shots) for shots in (5, 1))
        for name, value in one_shot.items():
            if value != options[name]:
                options[name] = f"{value} for 1 shot, else {options[name]}"
        table = f"{spec.solver}." if options else ""
        said = (f"{table}{key} {_show(value)}" for key, value in options.items())
        out[f"  {head}"] = ", ".join(said)
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


def _join(values: Any) -> str:
    return ", ".join(map(_show, values))


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
