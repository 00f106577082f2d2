"""What types cannot say of a spec: fields that contradict one another or the engine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from firthshot.errors import FirthshotError
from firthshot.experiments.spec.fields import GeometricSpec, Spec
from firthshot.experiments.spec.idle import idle_fields
from firthshot.experiments.spec.shots import is_query_rule, plan_shots

Pairs = Iterator[tuple[str, str]]


def contradictions(spec: Spec | GeometricSpec) -> list[tuple[str, str]]:
    """Return the place and the sentence of every contradiction in a well-typed spec."""
    if isinstance(spec, GeometricSpec):
        return [*_name(spec), *spec.contradictions()]
    checks = (_name, _registered, _lists, _grids, _shots_and_queries, _trials, _calibration, _idle)
    return [pair for check in checks for pair in check(spec)] or list(_methods(spec))


def _name(spec: Spec | GeometricSpec) -> Pairs:
    """Refuse names that cannot name a folder: runs/NAME is where a run goes."""
    if not re.fullmatch(r"[\w-][\w.-]*", spec.name, re.ASCII):
        yield (
            "name",
            f"{spec.name!r} names no folder: use letters, digits, '-', '_' and '.', no '.' first.",
        )


def _registered(spec: Spec) -> Pairs:
    from firthshot.engine import registered_heads
    from firthshot.objective import PENALTIES

    known, heads = registered_heads(), _spec_heads()
    for index, name in enumerate(spec.heads):
        if name in known and known[name].reference:
            sentence = f"{name!r} is a reference head, trained with every run: leave it out"
            yield f"heads[{index}]", f"{sentence}, and references = true."
        elif name not in heads:
            yield f"heads[{index}]", _none_such(name, "head", heads, "register_head adds one")
    for index, name in enumerate(spec.penalties):
        if name not in PENALTIES:
            how = "register_penalty adds one"
            yield f"penalties[{index}]", _none_such(name, "penalty", PENALTIES, how)


def _spec_heads() -> list[str]:
    """Return the heads that a spec may name: a class with defaults for all of its options."""
    from firthshot.engine import registered_heads

    kinds: dict[str, Any] = registered_heads()
    return [
        name
        for name, kind in kinds.items()
        if not kind.reference
        and is_dataclass(kind)
        and all(f.default is not MISSING or f.default_factory is not MISSING for f in fields(kind))
    ]


def _none_such(name: str, what: str, there: Iterable[str], how: str) -> str:
    return f"There is no {what} {name!r}: use {', '.join(there)} ({how}, docs/extending.md)."


def _lists(spec: Spec) -> Pairs:
    for name in ("banks", "splits", "heads", "penalties", "priors", "ways", "shots"):
        values = getattr(spec, name)
        for index, value in enumerate(values):
            if value in values[:index]:
                yield f"{name}[{index}]", f"{value!r} is listed twice."


def _grids(spec: Spec) -> Pairs:
    for name in ("coefficients", "l2_coefficients", "smoothing"):
        grid = getattr(spec, name)
        if grid is None:
            continue
        if 0 not in grid:
            yield name, "The grid lacks 0, to which all improvements are relative."
        for index, value in enumerate(grid):
            if value in grid[:index]:
                yield f"{name}[{index}]", f"{value:g} is listed twice."
            elif grid[:index] and value < grid[index - 1]:
                yield f"{name}[{index}]", f"{value:g} is below {grid[index - 1]:g}: sort the grid."


def _shots_and_queries(spec: Spec) -> Pairs:
    for index, shots in enumerate(spec.shots):
        try:
            plan_shots(shots, ways=2)
        except FirthshotError as error:
            yield f"shots[{index}]", str(error)
    if not is_query_rule(spec.queries):
        yield "queries", f"{spec.queries!r} is no rule: use a number, 'rest' or 'N minus shots'."
    if spec.fixed_query and not isinstance(spec.queries, int):
        yield "fixed_query", "A fixed query set needs a number of queries."


def _trials(spec: Spec) -> Pairs:
    if spec.max_trials is not None and spec.max_trials < spec.trials:
        yield "max_trials", f"{spec.max_trials} is below the {spec.trials} trials to begin with."
    if spec.until_ci is not None and set(spec.splits) != {"val", "novel"}:
        yield "until_ci", "It needs both splits: the coefficient is chosen on val."


def _calibration(spec: Spec) -> Pairs:
    """Refuse what Distribution Calibration cannot do, and its solver without it."""
    from firthshot.objective import PENALTIES

    asked, shared = spec.calibration, spec.solver == "shared-lbfgs"
    if asked is None:
        if shared:
            yield "solver", "'shared-lbfgs' is for Distribution Calibration: add [calibration]."
        return
    if spec.heads != ("linear",):
        yield "heads", "Distribution Calibration trains the head 'linear' alone."
    if spec.solver == "sgd":
        yield "solver", "Distribution Calibration needs 'converged' or 'shared-lbfgs'."
    if spec.l2_kind != "ridge" or not spec.l2:
        yield "l2_kind", "Distribution Calibration needs a ridge: l2_kind = 'ridge' and an l2."
    for index, name in enumerate(spec.penalties):
        penalty = PENALTIES.get(name)
        if penalty and (penalty.confidence or penalty.l2):
            yield f"penalties[{index}]", f"Distribution Calibration has no penalty {name!r}."
    for index, number in enumerate(asked.artificial):
        if number in asked.artificial[:index]:
            yield f"calibration.artificial[{index}]", f"{number} is listed twice."
    if shared:
        yield from _shared_stopping(spec)


def _shared_stopping(spec: Spec) -> Pairs:
    from firthshot.calibration import TOGETHER

    rule = f"'shared-lbfgs' trains {TOGETHER} trials together"
    if spec.trials % TOGETHER:
        yield "trials", f"{rule}: {spec.trials} is no multiple of {TOGETHER}."
    if (spec.first_trial or 0) % TOGETHER:
        yield "first_trial", f"{rule}: begin with a multiple of {TOGETHER}."
    if spec.dtype != "float32":
        yield "dtype", "'shared-lbfgs' trains in float32, as published: leave dtype out."


def _idle(spec: Spec) -> Pairs:
    """Refuse what nothing would read: who sets a field believes that it does something."""
    for place, reader in idle_fields(spec):
        yield place, f"It has no effect without {reader}: add that, or leave it out."


def _methods(spec: Spec) -> Pairs:
    """Ask the engine to accept every method, so that nothing is refused hours later."""
    from firthshot.engine import check_trainable
    from firthshot.experiments.spec.methods import spec_methods

    if spec.calibration is not None:
        return  # its fields say all: see above
    seen = set()
    for method in spec_methods(spec, 1):
        try:
            check_trainable(method.engine_head(), method.engine_solver())
            method.penalty(method.coefficients)
        except FirthshotError as error:
            if str(error) not in seen:
                yield method.head, str(error)
            seen.add(str(error))
