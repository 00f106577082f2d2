"""``firthshot validate``: list every problem of a spec with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from firthshot.cli._options import Assignments, BankNames, spec_fields
from firthshot.cli._screen import echo

if TYPE_CHECKING:
    from firthshot.experiments.spec import GeometricSpec, Spec, SpecProblem


def validate(source: str, bank: BankNames = None, assignments: Assignments = None) -> None:
    """Check a spec and its banks without running anything."""
    from firthshot.experiments.spec import presets_of

    for each in presets_of(source):
        _validate(each, spec_fields(assignments, banks=bank))


def _validate(source: str, given: dict[str, Any]) -> None:
    from firthshot.experiments.spec import build_any, find_problems, resolve

    fields = resolve(source, given)
    problems = find_problems(fields) or _bank_problems(fields)
    for problem in problems:
        echo(f"{source}: {problem}")
    if problems:
        raise typer.Exit(2)
    for line in _content(build_any(fields)):
        echo(line)
    echo(f"{source} is in order.")


def _bank_problems(fields: dict[str, Any]) -> list[SpecProblem]:
    from firthshot.banks import load_bank, refuse_not_finite
    from firthshot.errors import BankError
    from firthshot.experiments.spec import SpecProblem

    found = []
    for index, name in enumerate(fields.get("banks", ())):
        try:
            refuse_not_finite(load_bank(name))
        except BankError as error:
            found.append(SpecProblem(f"banks[{index}]", str(error)))
    return found


def _content(spec: Spec | GeometricSpec) -> list[str]:
    """Say what a run of the spec would train, and what it would leave out."""
    from firthshot.experiments.plan import condense, count_classifiers, make_plan
    from firthshot.experiments.spec import Spec, open_banks, settle_banks
    from firthshot.experiments.spec.choose import bank_remark

    if not isinstance(spec, Spec):
        return [f"{spec.size}."]
    settled: Any = settle_banks(spec)
    plan = make_plan(settled, open_banks(settled))
    cells = plan.cells
    size = f"{count_classifiers(cells):,} classifiers in {len(cells):,} cells"
    return [f"{size}. {bank_remark(settled)}", *condense(plan.notes), *_no_optimum(settled)]


def _no_optimum(spec: Spec) -> list[str]:
    """Warn of heads whose optimum without L2 lies at infinity where rows are separable."""
    from firthshot.engine import registered_heads

    heads = [head for head in spec.heads if registered_heads()[head].penalised]
    if spec.solver != "converged" or not heads or spec.l2:
        return []
    sentence = (
        f"Warning: a converged {heads[0]} head without any L2 has no optimum at λ = 0 where the "
        "support rows are separable, as few shots of many features are; such trials are left out. "
        "Set an l2, such as l2=0.001, or solver=sgd."
    )
    return [sentence]
