"""The right-hand side of a formula: its terms, the columns they need and the numbers they give."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.formulas._errors import (
    not_evaluated,
    not_read,
    one_level_only,
    unseen_level,
)
from firthshot.formulas._expressions import call_arguments, has_caret, names_in
from firthshot.formulas._language import check_expression
from firthshot.formulas._limits import bounded_parser, check_width
from firthshot.formulas._values import ELEMENTWISE, listed_materializer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd  # type: ignore[import-untyped]
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Matrix:
    """The right-hand side in numbers."""

    frame: pd.DataFrame
    intercept: bool
    offset: FloatArray | None
    terms: dict[str, tuple[int, ...]]
    spec: Any


def parse_terms(
    terms: str, formula: str, available: Sequence[str], *, allow_python: bool = False
) -> Any:
    """Return formulaic's terms; ``.`` stands for the available columns that are no offset.

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
        raise FirthshotError(not_read(formula, error)) from None
    _refuse_carets(found)
    if not allow_python:
        for expression in expressions(found):
            check_expression(expression, available)
    return found


def _parse(terms: str, available: Sequence[str]) -> Any:
    from formulaic import Formula

    context = {"__formulaic_variables_available__": list(available)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python about odd text in an expression
        return Formula.from_spec(terms, parser=bounded_parser(), context=context)


def specification(terms: Iterable[Any], *, allow_python: bool) -> Any:
    """Return formulaic's plan of how terms are evaluated: ours, or Python's if that is allowed."""
    from formulaic import ModelSpec
    from formulaic.formula import SimpleFormula

    materializer = "pandas" if allow_python else listed_materializer()
    return ModelSpec.from_spec(SimpleFormula(terms), materializer=materializer, na_action="ignore")


def _refuse_carets(terms: Any) -> None:
    """Refuse x^2 in a function: on whole numbers it would be evaluated, bit by bit."""
    for expression in expressions(terms):
        if has_caret(expression):
            raise FirthshotError(
                f"The term {expression!r} has a ^, which is no power inside a function: write **."
            )


def expressions(terms: Iterable[Any]) -> list[str]:
    """Return the expressions that the terms multiply, without plain columns."""
    return [factor.expr for factor in _factors(terms) if factor.eval_method.value == "python"]


def columns_of(terms: Iterable[Any]) -> list[str]:
    """Return the columns that terms need; the name of a plain column may be any text."""
    found: dict[str, None] = {}
    for factor in _factors(terms):
        plain = factor.eval_method.value == "lookup"
        found |= dict.fromkeys([factor.expr] if plain else names_in([factor.expr]))
    return list(found)


def plain_columns(terms: Iterable[Any]) -> list[str]:
    """Return the columns that terms use as they are."""
    return [factor.expr for factor in _factors(terms) if factor.eval_method.value == "lookup"]


def _factors(terms: Iterable[Any]) -> list[Any]:
    factors = {factor.expr: factor for term in terms for factor in term.factors}
    return [factor for factor in factors.values() if factor.eval_method.value != "literal"]


def is_offset(expression: str) -> bool:
    return call_arguments(expression, "offset") is not None


def make_matrix(wanted: Any, used: pd.DataFrame, formula: str) -> Matrix:
    """Evaluate terms, or the memory of terms, and set intercept and offsets apart."""
    check_width(wanted.formula, used)
    made = evaluate(wanted, used, formula)
    columns: list[int] = []
    shifts: list[int] = []
    names: list[str] = []
    terms: dict[str, tuple[int, ...]] = {}
    intercept = False
    for term, place in made.model_spec.term_slices.items():
        positions = list(range(len(made.columns)))[place]
        shifting = [is_offset(e) for e in expressions([term])]
        if not _factors([term]):
            intercept = True
        elif not positions:
            raise FirthshotError(one_level_only(str(term), columns_of([term]), used))
        elif any(shifting):
            if len(term.factors) > 1 or [str(made.columns[k]) for k in positions] != [str(term)]:
                raise FirthshotError(f"The offset {str(term)!r} must be one number in each row.")
            shifts += positions
        else:
            start = len(columns)
            columns += positions
            # A plain column may be called C(x): its name is no expression to be shortened.
            shown = short if expressions([term]) else _without_mark
            terms[shown(str(term))] = tuple(range(start, len(columns)))
            names += [shown(str(made.columns[k])) for k in positions]
    numbers = made.to_numpy()
    frame = made.iloc[:, columns]
    frame.columns = names
    _refuse_same_names(names)
    offset = numbers[:, shifts].sum(axis=1) if shifts else None
    return Matrix(frame, intercept, offset, terms, made.model_spec)


def evaluate(wanted: Any, used: pd.DataFrame, formula: str) -> pd.DataFrame:
    import pandas as pd
    from formulaic.errors import DataMismatchWarning

    try:
        # what is not finite is named below; an unknown level would be taken for the first
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error", DataMismatchWarning)
            made = wanted.get_model_matrix(used, context=_functions())
        matrix = pd.DataFrame(made).astype(float)
    except DataMismatchWarning:
        raise FirthshotError(unseen_level(wanted, used, formula)) from None
    except Exception as error:  # noqa: BLE001 - a formula is an expression: anything can go wrong
        guilty = _first_failing(wanted, used)
        raise FirthshotError(not_evaluated(formula, error, guilty)) from None
    bad = ~np.isfinite(matrix.to_numpy())
    if bad.any():
        row, column = (int(k[0]) for k in np.nonzero(bad))
        raise FirthshotError(
            f"The term {short(str(matrix.columns[column]))!r} is not finite in row "
            f"{used.index[row] + 1}: transform the column otherwise or remove the row."
        )
    matrix.model_spec = made.model_spec
    return matrix


def _first_failing(wanted: Any, used: pd.DataFrame) -> str | None:
    """Return the expression that cannot be evaluated on its own; formulaic names it not always."""
    from formulaic.parser.types import Term

    # Not by parsing the expression again: the name of a column may be any text.
    for factor in _factors(wanted.formula):
        alone = specification([Term([factor])], allow_python=wanted.materializer == "pandas")
        try:
            alone.get_model_matrix(used, context=_functions())
        except Exception:  # noqa: BLE001 - whatever goes wrong, this is the one
            return str(factor.expr)
    return None


def _functions() -> dict[str, Any]:
    """Return the functions of a formula with Python that formulaic does not have itself."""
    from formulaic.transforms import TRANSFORMS

    return {**ELEMENTWISE, "offset": _same, "factor": TRANSFORMS["C"]}


def _same(values: Any) -> Any:
    return values


def short(name: str) -> str:
    """Write C(group)[T.b] as group[b]."""
    name = re.sub(r"\b(?:C|factor)\((\w+)(?:,[^()]*(?:\([^()]*\))?[^()]*)?\)", r"\1", name)
    return _without_mark(name)


def _without_mark(name: str) -> str:
    return name.replace("[T.", "[")


def _refuse_same_names(names: Sequence[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise FirthshotError(
            f"Two columns of the model are called {twice[0]!r}: rename a column of the table."
        )
