"""What is wrong with a formula, in a sentence; formulaic's own words are for programmers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from firthshot.errors import listed
from firthshot.formulas._expressions import cut, names_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd  # type: ignore[import-untyped]

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_MISPLACED = re.compile(r"Operator '(.+?)' (?:has insuf|is incorrectly used)")
_NAMED = re.compile(r"Unable to evaluate factor `(.*?)`\. \[")


def not_read(formula: str, error: Exception) -> str:
    """Say why a formula could not be parsed."""
    formula = cut(formula, 200)
    if "|" in re.sub(r"`[^`]*`", "", formula):
        return (
            f"The formula {formula!r} has a |: there are no random effects and no parts here; "
            "write the group as a term, such as + C(group)."
        )
    why = _first_line(error)
    if misplaced := _MISPLACED.match(why):
        return (
            f"The formula {formula!r} cannot be read: {misplaced[1]!r} lacks a term on one side, "
            "or stands in the wrong place."
        )
    if "ended before quote context was closed" in why:
        return f"The formula {formula!r} cannot be read: it ends before {why[-1]!r}; add that."
    return f"The formula {formula!r} cannot be read ({why}): mend it."


def not_evaluated(formula: str, error: Exception, guilty: str | None) -> str:
    """Say why a formula has no value on this table; ``guilty`` is the expression that fails."""
    cause, formula = error.__cause__, cut(formula, 200)
    if isinstance(cause, NameError):  # with allow_python; all others were checked
        return f"The formula {formula!r} calls {cause.name!r}, which is no function here: mend it."
    named = _NAMED.match(str(error))
    guilty = named[1] if named else guilty
    if guilty is None:
        return f"The formula {formula!r} cannot be evaluated ({_first_line(error)}): mend it."
    if "beyond upper and/or lower bounds" in str(cause):
        return (
            f"A value lies outside the range of the fit of {guilty!r}: leave the row out, or fit "
            f"with {guilty[:-1]}, extrapolation='extend')."
        )
    if isinstance(cause, ValueError):
        return f"The term {guilty!r} cannot be evaluated ({_first_line(cause)}): mend it."
    return f"The term {guilty!r} is no column of numbers or of levels: write it otherwise."


def one_level_only(term: str, names: Sequence[str], used: pd.DataFrame) -> str:
    """Name the column that leaves a term without any coefficient."""
    single = [name for name in names if name in used.columns and used[name].nunique() < 2]
    what = f"Column {single[0]!r}" if single else f"The term {term!r}"
    return f"{what} has one level only: remove it."


def _first_line(error: BaseException) -> str:
    """Return formulaic's first sentence without colours, brackets in brackets and full stop."""
    lines = [line.strip() for line in _COLOUR.sub("", str(error)).splitlines() if line.strip()]
    first = re.sub(r"\s*\[[^\[\]]*\]", "", lines[0]) if lines else type(error).__name__
    return first.replace(". ", "; ").replace("`", "'").rstrip(".:")


def unseen_level(wanted: Any, used: pd.DataFrame, formula: str) -> str:
    """Name the column and the level that the fit did not see, if the memory of terms tells."""
    for expression, (_, state) in getattr(wanted, "encoder_state", {}).items():
        names = [expression] if expression in used.columns else names_in([expression])
        seen = state.get("categories", ())
        for name in names if len(seen) else ():
            if name in used.columns and (unseen := ~used[name].isin(seen)).any():
                level, known = str(used[name][unseen].iloc[0]), listed([str(s) for s in seen])
                return (
                    f"Column {name!r} has the level {level!r}, which the fit did not see, only "
                    f"{known}: leave such rows out."
                )
    return f"The formula {formula!r} names levels, but its column has others: name them all."
