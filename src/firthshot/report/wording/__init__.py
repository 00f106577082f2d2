"""From verdicts, runs and tables to sentences: English is made here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from firthshot.engine import registered_heads
from firthshot.experiments.schema import grouped
from firthshot.objective import PENALTIES
from firthshot.report.verdict.outcomes import Condition


def setting_words(condition: Condition) -> str:
    """Return ways and shots as people say them."""
    return f"{condition.ways} ways, {shots_words(condition)}"


def shots_words(condition: Condition) -> str:
    """Return the shots of a condition: "5 shots", or the name of an unbalanced scheme."""
    return condition.scheme if condition.unbalanced else counted(condition.shots, "shot")


def penalty_name(penalty: str, prior: str = "uniform") -> str:
    """Return what a penalty is called in a sentence."""
    # A report may name penalties that only the run had registered.
    name = PENALTIES[penalty].title if penalty in PENALTIES else penalty
    return name if prior == "uniform" else f"{name} ({prior} prior)"


def head_name(head: str) -> str:
    """Return what a head is called in a sentence; its name where it is not registered here."""
    known = registered_heads()
    return known[head].words or head if head in known else head


def is_transductive(head: str) -> bool:
    """Tell whether a head sees all queries at once; one that is not known here does not."""
    known = registered_heads()
    return head in known and known[head].transductive


def capital(text: str) -> str:
    """Begin a sentence; λ stays small, as it is another letter than Λ."""
    return text if text.startswith("λ") else text[:1].upper() + text[1:]


def points(fraction: float) -> str:
    """Return a difference of accuracies in points, with its sign."""
    value = round(100 * fraction, 2) + 0.0  # no negative zero
    return f"{value:+.2f}".replace("-", "−") if value else "0.00"


def points_ci(fraction: float, half_width: float | None) -> str:
    """Return a difference with its interval; a single trial has none."""
    if half_width is None:
        return points(fraction)
    return f"{points(fraction)} ± {100 * half_width:.2f}"


def counted(count: int, noun: str) -> str:
    """Return a number and its noun, in the plural where it needs it."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(words: Iterable[object], last: str = "and") -> str:
    """Join words as in a sentence."""
    *first, end = map(str, words)
    return f"{', '.join(first)} {last} {end}" if first else end


def tally(counts: Mapping[str, int], among: str, nothing: str = "") -> str:
    """Return "rises in 4 and falls in 1 of 5 settings", without what holds in none."""
    said = [f"{words} in {count}" for words, count in counts.items() if count]
    return f"{listed(said)} of {among}" if said else nothing


def parts(some: Sequence[Condition], among: Sequence[Condition]) -> list[list[Condition]]:
    """Split conditions into groups that a short phrase can name.

    Conditions with the same shots belong together, and so do shots that have the same ways.
    Balanced and unbalanced shots are told apart.
    """
    if len(among) < 2:
        return [list(some)]
    by_shots = grouped(sorted(some), lambda one: (one.unbalanced, one.shots, one.scheme)).values()
    alike = grouped(by_shots, lambda own: (own[0].unbalanced, *(one.ways for one in own)))
    return [[one for own in group for one in own] for group in alike.values()]


def where(part: Sequence[Condition], among: Sequence[Condition]) -> str:
    """Name a part of the conditions, as in "at 15 and 20 ways, 5 and 10 shots".

    ``part`` is one of `parts`: every number of ways with every number of shots. What all of them
    share is not said.
    """
    if len(among) == 1:
        return f"at {setting_words(part[0])}"
    if set(part) == set(among):
        return everywhere(len(among))
    ways, all_ways = ({one.ways for one in some} for some in (part, among))
    labels, all_labels = ({one.label for one in some} for some in (part, among))
    said = [f"{listed(sorted(ways))} ways"] if ways != all_ways else []
    if labels != all_labels:
        shots = list(dict.fromkeys(one.label for one in sorted(part)))
        noun = "" if part[0].unbalanced else " shot" if shots == ["1"] else " shots"
        said.append(f"{listed(shots)}{noun}")
    return f"at {', '.join(said)}"


def everywhere(settings: int) -> str:
    """Return "in all … settings", or "in both"."""
    return "in both settings" if settings == 2 else f"in all {settings} settings"


def in_some(count: int, among: Sequence[Condition]) -> str:
    """Return in how many of the settings something holds; the one there is by its name."""
    if len(among) == 1:
        return where(among, among)
    if count == len(among):
        return everywhere(count)
    return f"in {count} of {len(among)} settings"
