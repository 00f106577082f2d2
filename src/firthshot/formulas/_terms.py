"""The right-hand side of a formula: its terms, and how many there may be.

What multiplies without end is refused before it is multiplied. Nothing is evaluated here.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from firthshot.errors import FirthshotError, reason
from firthshot.formulas._language import Expression, call_arguments, cut, names_of

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

LONGEST = 20_000  # characters
MOST_PRODUCTS = 10_000  # terms that operators make before equal ones are joined
MOST_FACTORS = 6  # formulaic takes seconds for 8 factors and minutes for 10
HIGHEST_POWER = 10
MOST_NUMBERS = 250_000_000  # of a design matrix, 2 GB
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_MISPLACED = re.compile(r"Operator '(.+?)' (?:has insuf|is incorrectly used)")


def check_length(formula: str) -> None:
    """Refuse a text too long to be parsed in a moment."""
    if len(formula) > LONGEST:
        raise FirthshotError(
            f"The formula {cut(formula)!r} has {len(formula)} characters, more than {LONGEST}: "
            "write . for all columns, or join columns first."
        )


def parse_terms(
    terms: str, formula: str, available: Sequence[str], *, allow_python: bool = False
) -> Any:
    """Return formulaic's terms; ``.`` stands for the available columns but offsets.

    Nothing is evaluated. Unless ``allow_python`` every expression is checked.
    """
    try:
        first = _parse(terms, available)
        shifts = names_in(e for e in expressions(first) if is_offset(e))
        others = [name for name in available if name not in shifts]
        found = _parse(terms, others) if shifts else first
    except FirthshotError:
        raise
    except Exception as error:  # noqa: BLE001 - formulaic lets tokeniser and syntax errors through
        raise FirthshotError(_not_read(formula, error)) from None
    for expression in () if allow_python else expressions(found):
        Expression(expression, available)
    return found


def _parse(terms: str, available: Sequence[str]) -> Any:
    from formulaic import Formula

    context = {"__formulaic_variables_available__": list(available)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python about odd text in an expression
        return Formula.from_spec(terms, parser=_bounded_parser(), context=context)


@cache
def _bounded_parser() -> Any:
    """Return formulaic's parser, which counts the terms before it multiplies them."""
    from formulaic.parser import DefaultFormulaParser

    class Bounded(DefaultFormulaParser):  # type: ignore[misc]
        def get_terms_from_ast(self, ast: Any, *, context: Any) -> Any:
            available = len(context.get("__formulaic_variables_available__", ()))
            if _products(ast, available) > MOST_PRODUCTS:
                raise FirthshotError(
                    f"The interactions make more than {MOST_PRODUCTS} terms: name fewer."
                )
            return super().get_terms_from_ast(ast, context=context)

    return Bounded()


def _products(tree: Any, available: int) -> int:
    """Bound the number of terms of a formula's tree; a loop, as sums nest thousands deep."""
    order, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting += list(getattr(node, "args", ()))
    counts: dict[int, int] = {}
    for node in reversed(order):
        parts = [counts[id(part)] for part in getattr(node, "args", ())]
        if not hasattr(node, "operator"):
            counts[id(node)] = 1
        elif node.operator.symbol in ("**", "^"):
            counts[id(node)] = parts[0] ** _power(node.args[1])
        elif not parts:
            counts[id(node)] = available
        else:
            product = parts[0] * parts[-1] * (node.operator.symbol not in "+-")
            counts[id(node)] = sum(parts) + product
        if counts[id(node)] > MOST_PRODUCTS:
            return MOST_PRODUCTS + 1
    return counts[id(tree)]


def _power(node: Any) -> int:
    """Return an exponent; formulaic itself refuses what is no whole number."""
    text = str(getattr(node, "token", ""))
    if not text.isdecimal():
        return 1
    if len(text) > 3 or int(text) > HIGHEST_POWER:
        raise FirthshotError(
            f"The formula has the power {cut(text)} of terms, above {HIGHEST_POWER}: lower it."
        )
    return int(text)


def check_width(terms: Iterable[Any], used: pd.DataFrame) -> None:
    """Refuse interactions of too many columns or levels before their columns are made."""
    width = 0
    for term in terms:
        if len(term.factors) > MOST_FACTORS:
            raise FirthshotError(
                f"The term {cut(str(term))!r} multiplies {len(term.factors)} columns, more than "
                f"{MOST_FACTORS}: name fewer."
            )
        columns = 1
        for factor in term.factors:
            columns *= _levels(factor, used)
        width += columns
    if width * len(used) > MOST_NUMBERS:
        raise FirthshotError(
            f"The formula makes some {width} columns of {len(used)} rows, more than fit: "
            "name columns with fewer levels."
        )


def _levels(factor: Any, used: pd.DataFrame) -> int:
    """Bound the number of columns of one factor; splines and polynomials have 100 at most."""
    coded = factor.expr.startswith(("C(", "factor(")) and factor.expr not in used.columns
    counts = [
        int(used[name].nunique()) if coded or used[name].dtype.kind not in "biuf" else 1
        for name in columns_of_factors([factor])
        if name in used.columns
    ]
    return max(counts, default=1)


def factors_of(terms: Iterable[Any]) -> list[Any]:
    """Return what the terms multiply, each once, but for the constant."""
    factors = {factor.expr: factor for term in terms for factor in term.factors}
    return [factor for factor in factors.values() if factor.eval_method.value != "literal"]


def expressions(terms: Iterable[Any]) -> list[str]:
    """Return the expressions that the terms multiply, without plain columns."""
    return [factor.expr for factor in factors_of(terms) if factor.eval_method.value == "python"]


def plain_columns(terms: Iterable[Any]) -> list[str]:
    """Return the columns that terms use as they are."""
    return [factor.expr for factor in factors_of(terms) if factor.eval_method.value == "lookup"]


def columns_of(terms: Iterable[Any]) -> list[str]:
    """Return the columns that terms need."""
    return columns_of_factors(factors_of(terms))


def columns_of_factors(factors: Iterable[Any]) -> list[str]:
    """Return the columns of factors; the name of a plain column may be any text."""
    found: dict[str, None] = {}
    for factor in factors:
        plain = factor.eval_method.value != "python"
        found |= dict.fromkeys([factor.expr] if plain else names_in([factor.expr]))
    return list(found)


def names_in(expressions: Iterable[str]) -> list[str]:
    """Return the columns of some expressions, in order."""
    return list(dict.fromkeys(name for one in expressions for name in names_of(one)))


def is_offset(expression: str) -> bool:
    """Tell whether an expression is ``offset(…)``."""
    return call_arguments(expression, "offset") is not None


def first_line(error: BaseException) -> str:
    """Return formulaic's first sentence without colours, brackets in brackets and full stop."""
    lines = [line.strip() for line in _COLOUR.sub("", str(error)).splitlines() if line.strip()]
    first = re.sub(r"\s*\[[^\[\]]*\]", "", lines[0]) if lines else reason(error)
    return first.replace(". ", "; ").replace("`", "'").rstrip(".:")


def _not_read(formula: str, error: Exception) -> str:
    """Say why a formula could not be parsed; formulaic's own words are for programmers."""
    formula = cut(formula, 200)
    if "|" in re.sub(r"`[^`]*`", "", formula):
        return (
            f"The formula {formula!r} has a |: there are no random effects and no parts here; "
            "write the group as a term, such as + C(group)."
        )
    why = first_line(error)
    if misplaced := _MISPLACED.match(why):
        return (
            f"The formula {formula!r} cannot be read: {misplaced[1]!r} lacks a term on one side, "
            "or stands in the wrong place."
        )
    if "ended before quote context was closed" in why:
        return f"The formula {formula!r} cannot be read: it ends before {why[-1]!r}; add that."
    return f"The formula {formula!r} cannot be read ({why}): mend it."
