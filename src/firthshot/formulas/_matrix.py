"""The numbers of a formula's terms: formulaic codes factors, and we evaluate expressions."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from firthshot.errors import FirthshotError, listed
from firthshot.formulas._language import ELEMENTWISE, Expression, cut
from firthshot.formulas._terms import (
    check_width,
    columns_of,
    expressions,
    factors_of,
    first_line,
    is_offset,
    names_in,
)

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

FloatArray = NDArray[np.float64]
_NAMED = re.compile(r"Unable to evaluate factor `(.*?)`\. \[")


@dataclass(frozen=True)
class Matrix:
    """The right-hand side in numbers."""

    frame: pd.DataFrame
    intercept: bool
    offset: FloatArray | None
    terms: dict[str, tuple[int, ...]]
    spec: Any


def specification(terms: Iterable[Any], *, allow_python: bool = False) -> Any:
    """Return formulaic's plan of how terms are evaluated: ours, or Python's if that is allowed."""
    from formulaic import ModelSpec
    from formulaic.formula import SimpleFormula

    made = SimpleFormula(terms)
    materializer = "pandas" if allow_python else _materializer()
    return ModelSpec.from_spec(made, materializer=materializer, na_action="ignore")


def _functions() -> dict[str, Any]:
    """Return the functions of a formula with Python that formulaic does not have itself."""
    from formulaic.transforms import TRANSFORMS

    names = {name: getattr(np, name) for name in ELEMENTWISE}
    return {**names, "offset": lambda values: values, "factor": TRANSFORMS["C"]}


@cache
def _materializer() -> str:
    """Return formulaic's name for what evaluates only what is listed."""
    from formulaic.materializers import PandasMaterializer
    from interface_meta import override

    class Listed(PandasMaterializer):  # type: ignore[misc]
        REGISTER_NAME = "firthshot"
        REGISTER_INPUTS = ()
        REGISTER_PRECEDENCE = -1

        @override  # formulaic without such a method would raise here, not evaluate by itself
        def _lookup(self, name: str) -> tuple[Any, set[Any]]:
            return self.data[name], set()

        @override
        def _evaluate(self, expr: str, metadata: Any, spec: Any) -> tuple[Any, set[Any]]:  # noqa: ARG002
            return Expression(expr).value(self.data, spec.transform_state), set()

    return Listed.REGISTER_NAME


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
        if not factors_of([term]):
            intercept = True
        elif not positions:
            single = [name for name in columns_of([term]) if used[name].nunique() < 2]
            what = f"Column {single[0]!r}" if single else f"The term {str(term)!r}"
            raise FirthshotError(f"{what} has one level only: remove it.")
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
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise FirthshotError(
            f"Two columns of the model are called {twice[0]!r}: rename a column of the table."
        )
    frame = made.iloc[:, columns]
    frame.columns = names
    offset = made.to_numpy()[:, shifts].sum(axis=1) if shifts else None
    return Matrix(frame, intercept, offset, terms, made.model_spec)


def evaluate(wanted: Any, used: pd.DataFrame, formula: str) -> pd.DataFrame:
    """Return the columns that a plan makes of a table, all finite."""
    import pandas as pd
    from formulaic.errors import DataMismatchWarning

    try:
        # what is not finite is named below; an unknown level would be taken for the first
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error", DataMismatchWarning)
            made = wanted.get_model_matrix(used, context=_functions())
        matrix = pd.DataFrame(made).astype(float)
    except DataMismatchWarning:
        raise FirthshotError(_unseen_level(wanted, used, formula)) from None
    except Exception as error:  # noqa: BLE001 - a formula is an expression: anything can go wrong
        raise FirthshotError(_not_evaluated(wanted, used, formula, error)) from None
    bad = ~np.isfinite(matrix.to_numpy())
    if bad.any():
        row, column = (int(k[0]) for k in np.nonzero(bad))
        raise FirthshotError(
            f"The term {short(str(matrix.columns[column]))!r} is not finite in row "
            f"{used.index[row] + 1}: transform the column otherwise or remove the row."
        )
    matrix.model_spec = made.model_spec
    return matrix


def _not_evaluated(wanted: Any, used: pd.DataFrame, formula: str, error: Exception) -> str:
    """Say why a formula has no value on this table."""
    cause, named = error.__cause__, _NAMED.match(str(error))
    guilty = named[1] if named else _first_failing(wanted, used)
    if guilty is None:
        formula = cut(formula, 200)
        return f"The formula {formula!r} cannot be evaluated ({first_line(error)}): mend it."
    if "beyond upper and/or lower bounds" in str(cause):
        return (
            f"A value lies outside the range of the fit of {guilty!r}: leave the row out, or fit "
            f"with {guilty[:-1]}, extrapolation='extend')."
        )
    if isinstance(cause, ValueError):
        return f"The term {guilty!r} cannot be evaluated ({first_line(cause)}): mend it."
    return f"The term {guilty!r} is no column of numbers or of levels: write it otherwise."


def _first_failing(wanted: Any, used: pd.DataFrame) -> str | None:
    """Return the expression that cannot be evaluated on its own; formulaic names it not always."""
    from formulaic.parser.types import Term

    # Not by parsing the expression again: the name of a column may be any text.
    for factor in factors_of(wanted.formula):
        try:
            alone = specification([Term([factor])], allow_python=wanted.materializer == "pandas")
            alone.get_model_matrix(used, context=_functions())
        except Exception:  # noqa: BLE001 - whatever goes wrong, this is the one
            return str(factor.expr)
    return None


def _unseen_level(wanted: Any, used: pd.DataFrame, formula: str) -> str:
    """Name the column and the level that the fit did not see, if the memory of terms tells."""
    for expression, (_, state) in getattr(wanted, "encoder_state", {}).items():
        names = [expression] if expression in used.columns else names_in([expression])
        seen = state.get("categories", ())
        for name in names if len(seen) else ():
            if (unseen := ~used[name].isin(seen)).any():
                level, known = str(used[name][unseen].iloc[0]), listed([str(s) for s in seen])
                return (
                    f"Column {name!r} has the level {level!r}, which the fit did not see, only "
                    f"{known}: leave such rows out."
                )
    return f"The formula {formula!r} names levels, but its column has others: name them all."


def short(name: str) -> str:
    """Write C(group)[T.b] as group[b]."""
    name = re.sub(r"\b(?:C|factor)\((\w+)(?:,[^()]*(?:\([^()]*\))?[^()]*)?\)", r"\1", name)
    return _without_mark(name)


def _without_mark(name: str) -> str:
    return name.replace("[T.", "[")
