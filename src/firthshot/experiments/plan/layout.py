"""From a spec and its banks to a list of cells, their cost, and notes on what had to give way.

Heads count the steps of their training (`Head.seconds`); scoring and calling come on top. The
constants were measured once on an AVX2 core; they decide the size of blocks, so that a plan is the
same on every machine. `estimate` measures how far this machine is from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import msgspec

from firthshot.banks import DEALT, Bank
from firthshot.engine import TrialShape
from firthshot.errors import FirthshotError
from firthshot.experiments.plan.cell import Cell, Note, TrialCondition, condense
from firthshot.experiments.spec.choose import open_sources
from firthshot.experiments.spec.fields import Spec
from firthshot.experiments.spec.methods import Method, head_kind, spec_methods
from firthshot.experiments.spec.shots import asked_queries, plan_shots


@dataclass(frozen=True)
class Setting:
    """A method on a condition; its cells are consecutive blocks of trials."""

    condition: TrialCondition
    method: Method
    shape: TrialShape
    block: int
    dtype: str

    def cells(self, start: int, stop: int) -> Iterator[Cell]:
        """Yield the blocks that cover the trials from ``start`` to ``stop``.

        Blocks begin at multiples of the block size whatever the range, save that the range cuts
        its last one.
        """
        first = start
        while first < stop:
            end = min(stop, (first // self.block + 1) * self.block)
            yield Cell(self.condition, self.method, first, end, self.dtype)
            first = end


@dataclass(frozen=True)
class Plan:
    """All that a spec asks of its banks.

    ``steps`` are the numbers of trials through which a folder grew to ``trials``: the cells of a
    step are those that the step before lacked. ``first`` is the number of the first trial.
    """

    settings: tuple[Setting, ...]
    notes: tuple[Note, ...]
    trials: int
    sources: tuple[Bank, ...] = ()
    steps: tuple[int, ...] = ()
    first: int = 0

    @property
    def cells(self) -> list[Cell]:
        """Return the cells of the spec's own number of trials."""
        ranges = list(pairwise((0, *(self.steps or (self.trials,)))))
        return [
            cell
            for setting in self.settings
            for start, stop in ranges
            for cell in setting.cells(self.first + start, self.first + stop)
        ]


def make_plan(spec: Spec, banks: list[Bank], steps: tuple[int, ...] = ()) -> Plan:
    """Lay out the cells of a spec on banks, in a folder that grew through these ``steps``."""
    sources = open_sources(spec, banks)
    _check_names(banks, sources)
    # Blocks stay as they were when the folder was begun: its cells are found again.
    begun = msgspec.structs.replace(spec, trials=steps[0]) if steps else spec
    settings: list[Setting] = []
    notes: list[Note] = []
    for at, bank in enumerate(banks):
        _check_novel(spec, bank)
        _check_transform(spec, bank)
        if DEALT in bank.meta.notes:
            notes.append(Note(DEALT, bank.name, "", 0, "", bank.meta.notes[DEALT]))
        source = sources[at] if sources else None
        for condition in _conditions(spec, bank, notes):
            settings.extend(_settings(begun, bank, source, condition, notes))
    if not settings:
        reasons = "; ".join(line.rstrip(".") for line in condense(notes))
        way_out, *arguments = _way_out(spec, banks)
        raise FirthshotError(f"There is nothing to run ({reasons}){way_out}.", *arguments)
    return Plan(
        tuple(settings), tuple(notes), spec.trials, tuple(sources), steps, spec.first_trial or 0
    )


def _way_out(spec: Spec, banks: list[Bank]) -> tuple[str, ...]:
    """Return what to do where classes are too few or too small, and its argument."""
    most = max(len(bank.classes("novel")) for bank in banks) if "novel" in spec.splits else 0
    if 2 <= most < min(spec.ways):
        return (f": ask for at most {most} ways", f"set=ways=[{most}]")
    needed = 1 + min(plan_shots(shots, min(spec.ways)).largest for shots in spec.shots)
    sizes = [len(rows) for bank in banks if most for rows in bank.class_rows("novel")]
    if not sizes or min(sizes) >= needed:
        return ("",)
    return (f": import the bank again without classes of fewer than {needed} rows",)


def _check_novel(spec: Spec, bank: Bank) -> None:
    if "novel" in spec.splits and "novel" not in bank.splits:
        raise FirthshotError(
            f"Bank {bank.name!r} has no novel classes, on which methods are compared: import it "
            "with some."
        )


def _check_names(banks: list[Bank], sources: list[Bank]) -> None:
    contents = {(bank.name, bank.meta.sha256) for bank in [*banks, *sources]}
    names = [bank.name for bank in banks]
    names += [name for name, _ in contents if sum(name == other for other, _ in contents) > 1]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FirthshotError(
            f"Two banks are called {twice[0]!r}, and rows are told apart by the name: rename one."
        )


def _check_transform(spec: Spec, bank: Bank) -> None:
    if spec.transform == "centre-l2" and "base" not in bank.splits:
        raise FirthshotError(
            f"Bank {bank.name!r} has no base classes, whose mean 'centre-l2' subtracts: use 'l2'."
        )


def _settings(
    spec: Spec, bank: Bank, source: Bank | None, condition: TrialCondition, notes: list[Note]
) -> Iterator[Setting]:
    for method in spec_methods(spec, condition.shots, source):
        if head_kind(method.head).needs_base and "base" not in bank.splits:
            why = f"the bank has no base classes for the head {method.head!r}"
            shots = str(condition.shots)
            notes.append(Note("skipped", bank.name, condition.split, condition.ways, shots, why))
            continue
        shape = condition_shape(condition, method, bank)
        block = block_size(method, shape, spec.trials)
        if method.solver == "shared-lbfgs":  # trials that are trained together are in one cell
            from firthshot.calibration import TOGETHER  # loads numba

            block = max(TOGETHER, block // TOGETHER * TOGETHER)
        yield Setting(condition, method, shape, block, spec.dtype)


def _conditions(spec: Spec, bank: Bank, notes: list[Note]) -> Iterator[TrialCondition]:
    for split, ways, shots in product(spec.splits, spec.ways, spec.shots):
        condition = _condition(spec, bank, split, ways, shots, notes)
        if condition is not None:
            yield condition


def _condition(
    spec: Spec, bank: Bank, split: str, ways: int, shots: int | str, notes: list[Note]
) -> TrialCondition | None:
    """Return the condition as the bank can hold it, or None; both leave notes."""

    def note(kind: str, reason: str) -> None:
        notes.append(Note(kind, bank.name, split, ways, str(shots), reason))

    reason = _impossible(spec, bank, split, ways, shots)
    if reason:
        note("skipped", reason)
        return None
    actual = min(ways, len(bank.classes(split)))
    if actual < ways:
        note("ways", f"there are {actual} {split} classes")
    planned = plan_shots(shots, actual)
    queries = asked_queries(spec.queries, planned)
    room = _smallest(spec, bank, split, actual)[1] - planned.largest
    if queries != "rest" and room < int(queries):
        note("queries", f"classes are too small for the query rule {spec.queries!r}")
        queries = "rest"
    return TrialCondition(
        bank=bank.name,
        sha256=bank.meta.sha256,
        split=split,
        transform=spec.transform,
        ways=ways,
        actual_ways=actual,
        shots=planned.label,
        scheme=planned.scheme,
        counts=planned.as_plain(),
        queries=queries,
        fixed_query=spec.fixed_query and queries != "rest",
        first_classes=spec.first_classes,
    )


def _impossible(spec: Spec, bank: Bank, split: str, ways: int, shots: int | str) -> str:
    if split not in bank.splits:
        return f"the bank has no {split} classes"
    classes = len(bank.classes(split))
    if classes < 2:
        return f"there is only one {split} class"
    if ways > classes and split == "novel":
        return f"there are {classes} novel classes"
    tested = split != "novel" and "novel" in spec.splits and "novel" in bank.splits
    if tested and (reason := _impossible(spec, bank, "novel", ways, shots)):
        return reason  # what is never tested need not be tuned
    name, smallest = _smallest(spec, bank, split, min(ways, classes))
    if smallest <= plan_shots(shots, min(ways, classes)).largest:
        rows = "1 row" if smallest == 1 else f"{smallest} rows"
        return f"the {split} class {name!r} has {rows}, too few for these shots and a query"
    return ""


def _smallest(spec: Spec, bank: Bank, split: str, ways: int) -> tuple[str, int]:
    """Return the class with the fewest rows, and how many it has."""
    sizes = [len(rows) for rows in bank.class_rows(split)]
    among = sizes[:ways] if spec.first_classes else sizes
    at = among.index(min(among))
    return bank.classes(split)[at], among[at]


CELL_SECONDS = 5.0
_SCORE = 8e-9  # seconds per query, class and coefficient
_TRIAL = 1e-3  # seconds of every trial: sampling, gathering, calling
_NICE = tuple(int(m * 10**e) for e in range(5) for m in (1, 2, 5))


def trial_seconds(method: Method, shape: TrialShape) -> float:
    """Return the seconds that one trial takes on one core of the machine of the constants."""
    scoring = shape.Q * shape.K * shape.L * _SCORE + shape.Q * shape.d * 1e-9
    if method.calibration and method.calibration.artificial:
        return _TRIAL + scoring + _calibrated(method, shape, method.calibration.artificial)
    gram = shape.N * shape.N * shape.d * 1e-10
    training = gram + method.engine_head().seconds(shape, method.solver_options.get("epochs"))
    return _TRIAL + scoring + training


def _calibrated(method: Method, shape: TrialShape, artificial: int) -> float:
    products = artificial * shape.K * shape.d
    passes = 100 if method.solver == "shared-lbfgs" else 12
    return products * (shape.d * 1.3e-11 + 4e-9 + passes * shape.K * shape.L * 7e-11)


def block_size(method: Method, shape: TrialShape, trials: int) -> int:
    """Return how many trials make a cell of about `CELL_SECONDS`, in round numbers."""
    room = max(1.0, CELL_SECONDS / trial_seconds(method, shape))
    return min(trials, max(size for size in _NICE if size <= room))


def condition_shape(condition: TrialCondition, method: Method, bank: Bank) -> TrialShape:
    """Return the shape of a trial; all remaining queries are taken as those of a mean class."""
    counts, K, d = condition.counts, condition.actual_ways, bank.features.shape[1]
    if isinstance(counts, int):
        N = counts * K
    else:
        N = counts[1] * K if counts[0] == "dirichlet" else sum(counts)
    per_class = condition.queries
    if isinstance(per_class, str):
        rows = bank.class_rows(condition.split)
        per_class = max(1, sum(map(len, rows)) // len(rows) - N // K)
    return TrialShape(N, per_class * K, d, K, len(method.coefficients) + method.theory)
