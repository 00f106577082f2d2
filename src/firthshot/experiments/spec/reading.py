"""Read specs: presets and TOML files, flags over them, every problem with its place."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from firthshot.errors import FirthshotError, refusing
from firthshot.experiments.spec.fields import GeometricSpec, Spec, toml_value

PRESETS = Path(__file__).parent / "presets"


class SpecError(FirthshotError):
    """A spec has problems; they are listed with their places."""


@dataclass(frozen=True)
class SpecProblem:
    """What is wrong with a spec, and where."""

    place: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}"


def preset_names(kind: str = "trials") -> list[str]:
    """Return the names of the presets of a kind of run: of trials on banks, or "geometric"."""
    return [name for name, its in _preset_kinds().items() if its == kind]


@cache
def _preset_kinds() -> dict[str, str]:
    texts = {path.stem: path.read_text("utf-8") for path in sorted(PRESETS.glob("*.toml"))}
    return {name: tomllib.loads(text).get("kind", "trials") for name, text in texts.items()}


@cache
def paper_items() -> dict[str, tuple[str, ...]]:
    """Return the presets of every figure and table of the paper, by names like ``figure-a7``."""
    text = (Path(__file__).parent / "paper.toml").read_text("utf-8")
    return {name: tuple(presets) for name, presets in tomllib.loads(text).items()}


def presets_of(source: str) -> tuple[str, ...]:
    """Return the presets that a figure or table needs; of any other source, itself."""
    return paper_items().get(source, (source,))


def run_folder(source: str | Path) -> Path | None:
    """Return the run folder that a source names, if it does; a preset's name is the preset."""
    is_folder = source not in _preset_kinds() and Path(source).is_dir()
    return Path(source) if is_folder else None


def read_source(source: str | Path) -> tuple[dict[str, Any], str]:
    """Return the fields that a preset, a TOML file or a run folder states, and its text.

    A name that a preset has is the preset's; a ``Path`` is always a file or a folder.
    """
    path = PRESETS / f"{source}.toml" if source in _preset_kinds() else Path(source)
    if path.is_dir():
        path = path / "spec.toml"
    if not path.is_file():
        near = difflib.get_close_matches(str(source), _preset_kinds(), 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise SpecError(
            f"{str(source)!r} is no preset (`firthshot presets` lists them) and no spec file.{hint}"
        )
    with (
        refusing(f"{path} cannot be read", OSError, SpecError),
        refusing(f"{path} is not valid TOML", (ValueError, RecursionError), SpecError),
    ):
        text = path.read_text("utf-8")
        return tomllib.loads(text), text


def parse_assignment(text: str) -> tuple[str, Any]:
    """Return key and value of ``key=value``; the value is TOML, or else a bare word."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise SpecError(f"{text!r} must read key=value, for example shots=[1,5].", "set")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        word = value.strip()
        if word.startswith(("[", "{", '"', "'")):  # no bare word: something is not closed
            raise SpecError(
                f"{text!r} is not valid TOML: close every bracket and quote, and put words of "
                'a list in quotes, for example heads=["linear"].',
                "set",
            ) from None
        return key.strip(), word


def override(fields: dict[str, Any], assignments: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with assignments over them; ``sgd.epochs`` reaches into a table."""
    out = {key: dict(value) if isinstance(value, dict) else value for key, value in fields.items()}
    for key, value in assignments.items():
        table, dot, name = key.partition(".")
        if dot:
            inner = out.setdefault(table, {})
            if not isinstance(inner, dict):
                raise SpecError(f"{table} is not a table, so {key} cannot be set.")
            inner[name] = value
        else:
            out[key] = value
    return out


def load_spec(source: str | Path, assignments: dict[str, Any] | None = None) -> Spec:
    """Return the spec of a preset, file or run folder, with assignments over it."""
    return build_spec(resolve(source, assignments or {}), source=str(source))


def load_any(source: str | Path, assignments: dict[str, Any] | None = None) -> Spec | GeometricSpec:
    """Return the spec of a preset, file or run folder, of whichever kind."""
    return build_any(resolve(source, assignments or {}))


def build_spec(fields: dict[str, Any], source: str = "The spec") -> Spec:
    """Return the spec of these fields, which are those of trials on banks."""
    spec = build_any(fields)
    if isinstance(spec, Spec):
        return spec
    raise SpecError(f"{source} is the geometric experiment, which has no trials on banks.")


def build_any(fields: dict[str, Any]) -> Spec | GeometricSpec:
    """Return the spec of these fields; a `SpecError` has all problems, one sentence each."""
    found = find_problems(fields)
    if found:
        many = f"{len(found)} problems: " if len(found) > 1 else "a problem: "
        raise SpecError("The spec has " + many + " ".join(map(str, found)))
    return msgspec.convert(fields, _kind(fields), strict=True)


def _kind(fields: dict[str, Any]) -> type[Spec | GeometricSpec]:
    return GeometricSpec if fields.get("kind") == "geometric" else Spec


def resolve(source: str | Path, assignments: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a source with assignments over them.

    What a preset or a run on record sets and the assignments leave without effect is dropped, as
    is a preset's ``[sgd]`` under ``solver = "converged"``. Of one's own file nothing is: such a
    field is a problem to be named.
    """
    from firthshot.experiments.spec.checking import without_idle

    stated, _ = read_source(source)
    fields = override(stated, assignments)
    own_file = source not in _preset_kinds() and run_folder(source) is None
    if not own_file and _kind(fields) is Spec and not struct_problems(fields, Spec):
        fields = without_idle(fields, assignments)
    return fields


def find_problems(fields: dict[str, Any]) -> list[SpecProblem]:
    """Return every problem of a spec's fields."""
    from firthshot.experiments.spec.checking import contradictions

    kind = _kind(fields)
    if kind is Spec and "kind" in fields:
        sentence = f"{fields['kind']!r} is no kind of run: use 'geometric', or leave it out."
        return [SpecProblem("kind", sentence)]
    if found := struct_problems(fields, kind):
        return found
    return [SpecProblem(*pair) for pair in contradictions(msgspec.convert(fields, kind))]


def struct_problems(
    fields: dict[str, Any], kind: type[msgspec.Struct], prefix: str = ""
) -> list[SpecProblem]:
    """Return the fields that a struct does not have or whose values are not of their type."""
    types = get_type_hints(kind, include_extras=True)
    found = [
        SpecProblem(prefix + name, _unknown(name, list(types)))
        for name in fields
        if name not in types
    ]
    for name in types.keys() & fields.keys():
        value = fields[name]
        table = next(filter(_is_table, (types[name], *get_args(types[name]))), None)
        if table and isinstance(value, dict):
            found += struct_problems(value, table, f"{name}.")
        else:
            found += _value_problems(prefix + name, value, types[name])
    if not prefix and "name" not in fields:
        found.append(SpecProblem("name", "It is missing: every run has a name."))
    order = [prefix + name for name in fields]
    return sorted(found, key=lambda problem: _rank(problem.place, order))


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _rank(place: str, order: list[str]) -> int:
    key = place.split("[", maxsplit=1)[0]
    return order.index(key) if key in order else len(order)


def _value_problems(place: str, value: Any, kind: Any) -> list[SpecProblem]:
    """Check a value, entry by entry where it is a list, so that each bad entry is named."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        where = place + path.rstrip("`")
        shown = repr(value) if len(repr(value)) < 60 else "a value"
        words = message.replace("`", "'").replace("null", "nothing")
        if "enum value" in message:
            words += f", use {' or '.join(_allowed(kind))}"
        elif value == []:
            words += ": name at least one"
        elif message.startswith("Expected `array`") and not isinstance(value, list | dict):
            words += f", write [{toml_value(value)}]"
        return [SpecProblem(where, f"{words[0].upper()}{words[1:]} ({shown} is given).")]
    return []


def _allowed(kind: Any) -> list[str]:
    """Return the words that a type allows, itself or in its entries."""
    if get_origin(kind) is Literal:
        return [repr(word) for word in get_args(kind)]
    inner = get_args(kind)[:1] if get_origin(kind) is Annotated else get_args(kind)
    return [word for part in inner for word in _allowed(part)]


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return "There is no such field" + (f"; did you mean {near[0]!r}?" if near else ".")
