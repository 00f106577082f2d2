"""The specs of runs: frozen typed classes, of trials and of the geometric experiment, as TOML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Split = Literal["val", "novel"]
Transform = Literal["none", "l2", "centre-l2", "tukey"]
Prior = Literal["uniform", "class-frequency"]
L2Kind = Literal["mean-square", "ridge", "weight-decay"]

Positive = Annotated[int, Meta(ge=1)]
Ways = Annotated[int, Meta(ge=2)]
PositiveFloat = Annotated[float, Meta(gt=0)]
Coefficient = Annotated[float, Meta(ge=0)]

PAPER_GRID = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
SMOOTHING_GRID = (0.0, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 0.9)

# Fields that say where a run comes from; none of them decides what is computed.
WORDS = ("question", "reproduces", "remark", "paper_banks", "stand_ins", "paper_sources")
# Fields that name banks, wherever those lie: a bank is known by what it holds.
BANK_FIELDS = ("banks", "source")


class SgdSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of SGD; what is left out is as published for the head (and the shots)."""

    learning_rate: PositiveFloat | None = None
    momentum: Annotated[float, Meta(ge=0, lt=1)] | None = None
    dampening: Annotated[float, Meta(ge=0, le=1)] | None = None
    batch_size: Positive | None = None
    epochs: Positive | None = None
    shuffle: bool | None = None
    scale_partial: bool | None = None


class ConvergedSettings(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Settings of the converged solver; what is left out is the engine's default."""

    tolerance: PositiveFloat | None = None
    max_iterations: Positive | None = None


class CalibrationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Distribution Calibration (:mod:`firthshot.calibration`), as published where left out.

    Attributes
    ----------
    artificial : tuple of int
        Artificial rows per class; each number is trained, and summary/calibration.csv chooses
        among them on the validation classes as it chooses the coefficient.
    neighbours, alpha
        Base classes that lend mean and covariance; what is added to every covariance.
    """

    artificial: Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(min_length=1)] = (0, 750)
    neighbours: Positive = 2
    alpha: Coefficient = 0.21


class _Plain(msgspec.Struct, frozen=True):
    def as_dict(self) -> dict[str, Any]:
        """Return every field that has a value, as plain data in the order of the class."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return {key: value for key, value in plain.items() if value is not None and value != {}}


class Spec(_Plain, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a run trains, on what, and how often.

    Attributes
    ----------
    name, question, reproduces, remark : str
        What the run is called, what it answers, which figure or table it repeats, and where it
        departs from it.
    paper_banks : tuple of str
        Banks that the paper used; the run takes those that are installed when ``banks`` is empty.
    stand_ins : tuple of str
        Banks to take where none of the paper's is installed; without them the embedded bank.
    banks : tuple of str
        Names or paths of banks.
    source : str or tuple of str
        For Distribution Calibration, the bank whose base classes lend their statistics: one for
        all banks, or one for each; "own" is the bank itself. Left out, the installed bank among
        ``paper_sources`` with the same backbone and extraction, else "own".
    transform : str
        ``none``, ``l2`` (rows to unit length), ``centre-l2`` (subtract the mean of the base classes
        first), ``tukey`` (square root, of negative features −√−x).
    heads, start, scale, hidden, ridge
        Heads to train and their options (`firthshot.engine.heads`); ``ridge`` is that of the
        least-squares reference. A head of one's own (`firthshot.engine.register_head`) has the
        defaults of its class.
    solver : str
        ``shared-lbfgs`` is the published stopping rule of Distribution Calibration.
    calibration : CalibrationSettings, optional
        Train with Distribution Calibration.
    penalties, priors : tuple of str
        Names in `firthshot.objective.PENALTIES`; those with a prior, such as ``firth`` and
        ``label-smoothing``, are trained once for every prior.
    coefficients, l2_coefficients, smoothing : tuple of float
        The grid; that of the family ``l2`` where it differs; that of label smoothing, below 1.
    l2, l2_kind
        A fixed L2 beside the family; left out, as published for the head.
    shots : tuple of int or str
        Shots per class, or names of unbalanced schemes (`firthshot.experiments.spec.shots`).
    queries : int or str
        Query rows per class, "rest", or e.g. "600 minus shots".
    theory, references : bool
        Train the tuning-free coefficient beside the grid; train the reference heads.
    until_ci, max_trials
        Add trials until the intervals of all reported improvements (chosen and theory) are this
        narrow (points), up to ``max_trials``; left out, ten times the trials.
    first_trial : int, optional
        The number of the first trial, else 0: trials of other numbers are other draws, so a run
        whose numbers do not overlap is an independent repetition.
    """

    name: Annotated[str, Meta(min_length=1, max_length=80)]
    question: str = ""
    reproduces: str = ""
    remark: str = ""
    paper_banks: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()
    banks: tuple[str, ...] = ()
    paper_sources: tuple[str, ...] = ()
    source: str | tuple[str, ...] = ()
    splits: Annotated[tuple[Split, ...], Meta(min_length=1)] = ("val", "novel")
    transform: Transform = "none"
    heads: Annotated[tuple[str, ...], Meta(min_length=1)] = ("linear",)
    start: Literal["xavier", "zero"] = "xavier"
    scale: PositiveFloat | None = None
    hidden: tuple[Positive, Positive] = (100, 50)
    ridge: Coefficient = 1.0
    solver: Literal["sgd", "converged", "shared-lbfgs"] = "sgd"
    penalties: Annotated[tuple[str, ...], Meta(min_length=1)] = ("firth",)
    priors: Annotated[tuple[Prior, ...], Meta(min_length=1)] = ("uniform",)
    coefficients: Annotated[tuple[Coefficient, ...], Meta(min_length=1)] = PAPER_GRID
    l2_coefficients: tuple[Coefficient, ...] | None = None
    smoothing: tuple[Annotated[float, Meta(ge=0, lt=1)], ...] = SMOOTHING_GRID
    l2: Coefficient | None = None
    l2_kind: L2Kind | None = None
    ways: Annotated[tuple[Ways, ...], Meta(min_length=1)] = (5,)
    shots: Annotated[tuple[Positive | str, ...], Meta(min_length=1)] = (1, 5)
    trials: Positive = 100
    queries: Positive | str = "rest"
    fixed_query: bool = False
    first_classes: bool = False
    theory: bool = True
    references: bool = True
    dtype: Literal["float32", "float64"] = "float32"
    until_ci: PositiveFloat | None = None
    max_trials: Positive | None = None
    first_trial: Annotated[int, Meta(ge=0, lt=2**31)] | None = None
    sgd: SgdSettings = SgdSettings()
    converged: ConvergedSettings = ConvergedSettings()
    calibration: CalibrationSettings | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the settled source of every bank; none without Distribution Calibration."""
        if self.calibration is None:
            return ()
        given = (self.source,) if isinstance(self.source, str) else self.source
        return given if len(given) > 1 else (given or ("own",)) * len(self.banks)

    @property
    def trial_cap(self) -> int:
        """Return the largest number of trials that `until_ci` may reach."""
        return self.max_trials or 10 * self.trials

    def grid(self, family: str) -> tuple[float, ...]:
        """Return the coefficients of a family."""
        if family == "none":
            return (0.0,)
        if family == "label-smoothing":
            return self.smoothing
        if family == "l2" and self.l2_coefficients is not None:
            return self.l2_coefficients
        return self.coefficients


MOST_TRIALS = 2**32  # a trial's number is one word of the random stream's counter
GROUPS = 50  # blocks of trials: the parts of the folder, and the groups of the jackknife


class GeometricSpec(_Plain, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Estimate the probability of heads from the tosses until the first head, again and again.

    Attributes
    ----------
    name, question, reproduces, remark : str
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
    question: str = ""
    reproduces: str = ""
    remark: str = ""
    p: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    sample_size: Annotated[int, Meta(ge=2, le=100_000)] = 100
    slope: tuple[Annotated[int, Meta(ge=1)], Annotated[int, Meta(ge=2)]] = (10, 100)
    trials: Annotated[int, Meta(ge=1, le=MOST_TRIALS)] = 4_000_000

    @property
    def size(self) -> str:
        """Say what a run draws."""
        noun = "trial" if self.trials == 1 else "trials"
        draws = f"{self.sample_size:,} geometric draws each"
        return f"{self.trials:,} {noun} of {draws}, p = {self.p:g}"

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


def to_toml(spec: Spec | GeometricSpec) -> str:
    """Return a spec as TOML."""
    fields = spec.as_dict()
    tables = {key: value for key, value in fields.items() if isinstance(value, dict)}
    lines = [f"{key} = {toml_value(value)}" for key, value in fields.items() if key not in tables]
    for name, table in tables.items():
        lines += [
            "",
            f"[{name}]",
            *(f"{key} = {toml_value(value)}" for key, value in table.items()),
        ]
    return "\n".join(lines) + "\n"


def toml_value(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return (
        json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        if isinstance(value, str)
        else repr(value)
    )
