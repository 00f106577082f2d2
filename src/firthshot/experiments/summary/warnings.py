"""Sentences that a reader of the tables should know."""

from __future__ import annotations

from typing import Any

from firthshot.experiments.schema import TINY_RIDGE
from firthshot.experiments.summary.classes import ClassDesign
from firthshot.experiments.summary.scores import Scored, label, penalty_label, place_label


def losses(scored: Scored) -> list[str]:
    """Say which trials are not in the tables, and why; once for all coefficients.

    Invalid features spoil a trial for every method: such a sentence names none, and is kept once.
    """
    split = scored.key["split"]
    where, said = f"{label(scored.key)}, {split}", []
    counts: dict[str, dict[float, int]] = {}
    for (coefficient, status), count in scored.failures.items():
        counts.setdefault(status, {})[coefficient] = count
    invalid = max(counts.pop("invalid", {}).values(), default=0)
    if invalid:
        said.append(
            f"{place_label(scored.key)}, {split}: {_trials(invalid)} left out, with features that "
            "are NaN or infinite."
        )
    if scored.dropped > invalid:
        said.append(
            f"{where}: {_trials(scored.dropped - invalid)} left out, their coefficient 0 is "
            "missing or did not end well."
        )
    said += [f"{where}: {_ended(status, its)}." for status, its in counts.items()]
    return said


def no_optimum(trials: int, settings: list[str]) -> str:
    """Say once that λ = 0 stands for a tiny ridge where the support is separable."""
    return (
        f"{_grouped(settings)}: λ = 0 has no optimum where the support is separable, in "
        f"{trials:,} trials. They are scored at a ridge of {TINY_RIDGE:g}, close to the maximum "
        "margin."
    )


def _trials(count: int) -> str:
    return f"{count:,} trial is" if count == 1 else f"{count:,} trials are"


def _ended(status: str, counts: dict[float, int]) -> str:
    """Say at which coefficients trials ended so, those with the same count together."""
    alike: dict[int, list[str]] = {}
    for coefficient, count in counts.items():
        alike.setdefault(count, []).append(f"{coefficient:g}")
    each = (f"{count:,} at coefficient {', '.join(some)}" for count, some in alike.items())
    return f"trials ended as {status}: {'; '.join(each)}"


def few_trials(trials: int, asked: int, settings: list[str]) -> str:
    """Say once that choices rest on few trials."""
    of = f" of {asked:,}" if asked > trials else ""
    noun = "trial" if (asked if of else trials) == 1 else "trials"
    return (
        f"{_grouped(settings)}: the coefficient was chosen on {trials:,}{of} val {noun}, so few "
        "that another draw may choose another."
    )


def left_out(why: str, settings: list[str]) -> str:
    """Say once that settings are not in the tables."""
    return f"{_grouped(settings)}: left out, {why}."


def _grouped(settings: list[str]) -> str:
    others = len(settings) - 1
    return settings[0] + (f" and {others} more setting{'s' * (others > 1)}" if others else "")


def not_contrasted(key: dict[str, Any], other: dict[str, Any], otherwise: str) -> str:
    """Say that two penalties are not compared, as more than the penalty differs; for all places."""
    return (
        f"{key['head']} ({key['solver']}): {penalty_label(key)} and {penalty_label(other)} are not "
        f"contrasted, as the runs trained them differently ({otherwise})."
    )


def no_class_interval(key: dict[str, Any], design: ClassDesign | None) -> str:
    """Say why a setting has no interval over classes."""
    where = place_label(key)
    if design is None:
        why = "the table of the trials' classes is missing"
    elif design.ways == design.members.shape[1]:
        why = "every trial uses the same classes"
    else:
        why = "there are too few trials to tell the classes apart"
    return f"{where}: no interval over classes, {why}."
