"""Fields of a spec that nothing would read: refused where a user gave them, else dropped."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from firthshot.engine import Head
from firthshot.experiments.spec.fields import Spec
from firthshot.objective import PenaltyFamily


@dataclass(frozen=True)
class _Reader:
    """What reads a field: in words, and whether a spec has it."""

    words: str
    is_in: Callable[[Spec], bool]


def idle_fields(spec: Spec) -> Iterator[tuple[str, str]]:
    """Yield the fields that differ from their defaults and have no effect, and what they lack.

    A default says no more than what is left out: the spec on record in a run folder has them all.
    """
    plain, usual = msgspec.to_builtins(spec), msgspec.to_builtins(Spec(name=spec.name))
    for name, reader in {**_head_readers(), **_READERS}.items():
        if plain[name] == usual[name] or reader.is_in(spec):
            continue
        inner = plain[name] if isinstance(plain[name], dict) else {}
        for place in [f"{name}.{key}" for key in inner] or [name]:
            yield place, reader.words


def without_idle(fields: dict[str, Any], keep: Container[str]) -> dict[str, Any]:
    """Return well-typed fields without those that have no effect, save those to keep."""
    out = {key: dict(value) if isinstance(value, dict) else value for key, value in fields.items()}
    for place, _ in idle_fields(msgspec.convert(fields, Spec)):
        table, dot, name = place.partition(".")
        if place in keep or table in keep:
            continue
        if dot:
            del out[table][name]
        else:
            del out[place]
    return out


def _any_is(spec: Spec, kind: Callable[[PenaltyFamily], bool]) -> bool:
    """Tell whether a penalty is of a kind; one that is not registered is refused elsewhere."""
    from firthshot.objective import PENALTIES

    return any(name not in PENALTIES or kind(PENALTIES[name]) for name in spec.penalties)


def _has_l2(spec: Spec) -> bool:
    """Tell whether any method has an L2, of its penalty or beside it."""
    published = spec.l2 is None and any(kind.published_l2[0] for kind in _kinds(spec))
    return bool(spec.l2) or published or _any_is(spec, lambda penalty: penalty.l2 > 0)


def _kinds(spec: Spec) -> list[type[Head]]:
    """Return the classes of a spec's heads; one that is not registered is refused elsewhere."""
    from firthshot.engine import registered_heads

    known = registered_heads()
    return [known[name] for name in spec.heads if name in known]


def _head_readers() -> dict[str, _Reader]:
    from firthshot.engine import registered_heads

    return {
        field: _head_reader(kind, field)
        for kind in registered_heads().values()
        for field in (*kind.spec_fields, *kind.sgd_fields)
    }


def _head_reader(kind: type[Head], field: str) -> _Reader:
    if kind.reference:
        return _Reader("references = true", lambda spec: spec.references)
    if field not in kind.sgd_fields:
        return _Reader(f"the head {kind.name!r}", lambda spec: kind.name in spec.heads)
    return _Reader(
        f"the head {kind.name!r} and solver = 'sgd'",
        lambda spec: kind.name in spec.heads and spec.solver == "sgd",
    )


def _has_common_grid(spec: Spec) -> bool:
    own = {"none", "label-smoothing"} | ({"l2"} if spec.l2_coefficients is not None else set())
    return not own.issuperset(spec.penalties)


_CALIBRATION = _Reader("[calibration]", lambda spec: spec.calibration is not None)
_READERS: dict[str, _Reader] = {
    "paper_sources": _CALIBRATION,
    "source": _CALIBRATION,
    "priors": _Reader(
        "a penalty with a prior, such as 'firth'",
        lambda spec: _any_is(spec, lambda penalty: penalty.takes_prior),
    ),
    "coefficients": _Reader("a penalty that has this grid, such as 'firth'", _has_common_grid),
    "l2_coefficients": _Reader("the penalty 'l2'", lambda spec: "l2" in spec.penalties),
    "smoothing": _Reader(
        "the penalty 'label-smoothing'", lambda spec: "label-smoothing" in spec.penalties
    ),
    "l2_kind": _Reader("the penalty 'l2' or an l2 above 0", _has_l2),
    "max_trials": _Reader("until_ci", lambda spec: spec.until_ci is not None),
    "sgd": _Reader("solver = 'sgd'", lambda spec: spec.solver == "sgd"),
    "converged": _Reader("solver = 'converged'", lambda spec: spec.solver == "converged"),
}
