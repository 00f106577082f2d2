"""The spec of the geometric experiment: a kind of run of its own, without banks and classifiers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from firthshot.experiments.spec.reading import (
    SpecError,
    SpecProblem,
    all_problems,
    override,
    read_source,
    struct_problems,
    with_line,
    without_lines,
)

MOST_TRIALS = 2**32  # a trial's number is one word of the random stream's counter
GROUPS = 50  # blocks of trials: the parts of the folder, and the groups of the jackknife


class GeometricSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Estimate the probability of heads from the tosses until the first head, again and again.

    Attributes
    ----------
    name, reproduces, remark : str
        As in `firthshot.experiments.spec.fields.Spec`.
    p : float
        The true probability.
    sample_size : int
        The largest sample; a trial grows through all sizes from 1.
    slope : tuple of int
        Sizes between which the slope of log |bias| over log N is fitted.
    trials : int
    """

    kind: Literal["geometric"]
    name: Annotated[str, Meta(min_length=1, max_length=80)]
    reproduces: str = ""
    remark: str = ""
    p: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    sample_size: Annotated[int, Meta(ge=2, le=100_000)] = 100
    slope: tuple[Annotated[int, Meta(ge=1)], Annotated[int, Meta(ge=2)]] = (10, 100)
    trials: Annotated[int, Meta(ge=1, le=MOST_TRIALS)] = 4_000_000

    def as_dict(self) -> dict[str, Any]:
        """Return every field as plain data in the order of the class."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def blocks(self) -> list[tuple[int, int]]:
        """Return the first and the last trial (not included) of every block."""
        size = -(-self.trials // GROUPS)
        starts = range(0, self.trials, size)
        return [(first, min(first + size, self.trials)) for first in starts]


def load_geometric(source: str, assignments: dict[str, Any] | None = None) -> GeometricSpec:
    """Return the geometric spec of a preset, file or run folder, with assignments over it."""
    fields, text = read_source(source)
    given = assignments or {}
    return build_geometric(override(fields, given), without_lines(text, given))


def build_geometric(fields: dict[str, Any], text: str = "") -> GeometricSpec:
    """Return the spec of these fields.

    Raises
    ------
    SpecError
        With all problems, one sentence each.
    """
    found = geometric_problems(fields, text)
    if found:
        raise SpecError(all_problems(found))
    return msgspec.convert(fields, GeometricSpec, strict=True)


def geometric_problems(fields: dict[str, Any], text: str = "") -> list[SpecProblem]:
    """Return every problem of a geometric spec's fields; ``text`` is its TOML, for lines."""
    found = struct_problems(fields, GeometricSpec)
    if not found:
        spec = msgspec.convert(fields, GeometricSpec)
        found = [SpecProblem(*pair) for pair in _contradictions(spec)]
    return [SpecProblem(with_line(problem.place, text), problem.sentence) for problem in found]


def _contradictions(spec: GeometricSpec) -> Iterator[tuple[str, str]]:
    first, last = spec.slope
    if not re.fullmatch(r"[\w-][\w.-]*", spec.name, re.ASCII):
        yield "name", f"{spec.name!r} names no folder: use letters, digits, '-', '_' and '.'."
    if first >= last:
        yield "slope", f"It must rise, and {first} is not below {last}."
    if last > spec.sample_size:
        yield "slope", f"{last} is above sample_size = {spec.sample_size}."
