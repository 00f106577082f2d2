"""The spec of the geometric experiment: a kind of run of its own, without banks and classifiers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

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

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield the field and the sentence of whatever the types cannot say."""
        first, last = self.slope
        if first >= last:
            yield "slope", f"It must rise, and {first} is not below {last}."
        if last > self.sample_size:
            yield "slope", f"{last} is above sample_size = {self.sample_size}."
