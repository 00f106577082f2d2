"""How large a formula may be: what multiplies without end is refused before it is multiplied."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from firthshot.errors import FirthshotError
from firthshot.formulas._expressions import cut, names_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd  # type: ignore[import-untyped]

LONGEST = 20_000  # characters
MOST_PRODUCTS = 10_000  # terms that operators make before equal ones are joined
MOST_FACTORS = 6  # formulaic takes seconds for 8 factors and minutes for 10
HIGHEST_POWER = 10
MOST_NUMBERS = 250_000_000  # of a design matrix, 2 GB


def check_length(formula: str) -> None:
    """Refuse a text too long to be parsed in a moment."""
    if len(formula) > LONGEST:
        raise FirthshotError(
            f"The formula {cut(formula)!r} has {len(formula)} characters, more than {LONGEST}: "
            "write . for all columns, or join columns first."
        )


@cache
def bounded_parser() -> Any:
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
    levels = {
        name: int(used[name].nunique()) if used[name].dtype.kind not in "biuf" else 1
        for name in used.columns
    }
    width = 0
    for term in terms:
        if len(term.factors) > MOST_FACTORS:
            raise FirthshotError(
                f"The term {cut(str(term))!r} multiplies {len(term.factors)} columns, more than "
                f"{MOST_FACTORS}: name fewer."
            )
        columns = 1
        for factor in term.factors:
            columns *= _levels(factor, levels, used)
        width += columns
    if width * len(used) > MOST_NUMBERS:
        raise FirthshotError(
            f"The formula makes some {width} columns of {len(used)} rows, more than fit: "
            "name columns with fewer levels."
        )


def _levels(factor: Any, levels: dict[str, int], used: pd.DataFrame) -> int:
    """Bound the number of columns of one factor; splines and polynomials have 100 at most."""
    if factor.expr in levels:
        return levels[factor.expr]
    names = [name for name in names_in([factor.expr]) if name in levels]
    if factor.expr.startswith(("C(", "factor(")):
        return max((int(used[name].nunique()) for name in names), default=1)
    return max((levels[name] for name in names), default=1)
