"""What types cannot say of a spec: fields that contradict one another or the engine, or are idle.

A field is idle where nothing would read it: refused where a user gave it, else dropped.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from itertools import pairwise
from typing import Any

import msgspec

from firthshot.engine import check_trainable, registered_heads
from firthshot.errors import FirthshotError
from firthshot.experiments.spec.fields import GeometricSpec, Spec
from firthshot.experiments.spec.methods import spec_methods
from firthshot.experiments.spec.shots import is_query_rule, plan_shots
from firthshot.objective import PENALTIES

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
        yield from _twice(name, getattr(spec, name))


def _twice(name: str, values: tuple[Any, ...]) -> Pairs:
    for index, value in enumerate(values):
        if value in values[:index]:
            shown = f"{value:g}" if isinstance(value, float) else repr(value)
            yield f"{name}[{index}]", f"{shown} is listed twice."


def _grids(spec: Spec) -> Pairs:
    for name in ("coefficients", "l2_coefficients", "smoothing"):
        grid = getattr(spec, name)
        if grid is None:
            continue
        if 0 not in grid:
            yield name, "The grid lacks 0, to which all improvements are relative."
        yield from _twice(name, grid)
        for index, (before, value) in enumerate(pairwise(grid), 1):
            if value < before and value not in grid[:index]:
                yield f"{name}[{index}]", f"{value:g} is below {before:g}: sort the grid."


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
    yield from _twice("calibration.artificial", asked.artificial)
    if not shared:
        return
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


def idle_fields(spec: Spec) -> Pairs:
    """Yield the fields that differ from their defaults and have no effect, and what they lack.

    A default says no more than what is left out: the spec on record in a run folder has them all.
    """
    plain, usual = msgspec.to_builtins(spec), msgspec.to_builtins(Spec(name=spec.name))
    for name, (words, is_there) in _readers(spec).items():
        if plain[name] == usual[name] or is_there:
            continue
        inner = plain[name] if isinstance(plain[name], dict) else {}
        for place in [f"{name}.{key}" for key in inner] or [name]:
            yield place, words


def without_idle(fields: dict[str, Any], keep: Container[str]) -> dict[str, Any]:
    """Return well-typed fields without those that have no effect, save those to keep."""
    out = {key: dict(value) if isinstance(value, dict) else value for key, value in fields.items()}
    for place, _ in idle_fields(msgspec.convert(fields, Spec)):
        table, dot, name = place.partition(".")
        if place in keep or table in keep:
            continue
        del (out[table] if dot else out)[name or table]
    return out


def _readers(spec: Spec) -> dict[str, tuple[str, bool]]:
    """Return what reads each field, in words, and whether the spec has it.

    Heads and penalties that are not registered are refused elsewhere.
    """
    kinds, sgd = registered_heads(), spec.solver == "sgd"
    found: dict[str, tuple[str, bool]] = {}
    for name, kind in kinds.items():
        for field in (*kind.spec_fields, *kind.sgd_fields):
            if kind.reference:
                found[field] = "references = true", spec.references
            elif field in kind.sgd_fields:
                found[field] = f"the head {name!r} and solver = 'sgd'", name in spec.heads and sgd
            else:
                found[field] = f"the head {name!r}", name in spec.heads
    calibrated = "[calibration]", spec.calibration is not None
    unknown = not PENALTIES.keys() >= set(spec.penalties)
    penalties = [PENALTIES[name] for name in spec.penalties if name in PENALTIES]
    published = [kinds[name].published_l2[0] for name in spec.heads if name in kinds]
    has_l2 = bool(spec.l2) or unknown or any(penalty.l2 > 0 for penalty in penalties)
    own_grids = {"none", "label-smoothing"} | (
        {"l2"} if spec.l2_coefficients is not None else set()
    )
    return found | {
        "paper_sources": calibrated,
        "source": calibrated,
        "priors": (
            "a penalty with a prior, such as 'firth'",
            unknown or any(penalty.takes_prior for penalty in penalties),
        ),
        "coefficients": (
            "a penalty that has this grid, such as 'firth'",
            not own_grids.issuperset(spec.penalties),
        ),
        "l2_coefficients": ("the penalty 'l2'", "l2" in spec.penalties),
        "smoothing": ("the penalty 'label-smoothing'", "label-smoothing" in spec.penalties),
        "l2_kind": (
            "the penalty 'l2' or an l2 above 0",
            has_l2 or (spec.l2 is None and any(published)),
        ),
        "max_trials": ("until_ci", spec.until_ci is not None),
        "sgd": ("solver = 'sgd'", sgd),
        "converged": ("solver = 'converged'", spec.solver == "converged"),
    }
