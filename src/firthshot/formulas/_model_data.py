"""From a table and a formula to a design matrix; anything amiss is named by row and column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from firthshot.errors import FirthshotError, MissingExtraError, listed
from firthshot.formulas._language import Expression, call_arguments
from firthshot.formulas._matrix import FloatArray, evaluate, make_matrix, short, specification
from firthshot.formulas._tables import as_pandas, complete_rows, refuse_stray_text
from firthshot.formulas._terms import (
    check_length,
    columns_of,
    expressions,
    is_offset,
    names_in,
    parse_terms,
    plain_columns,
)

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

FAILURE, SUCCESS = "failure", "success"  # in this order the failures are the reference


@dataclass(frozen=True)
class ModelData:
    """What a formula makes of a table."""

    frame: pd.DataFrame  # (n, p): the right-hand side, without the intercept and offsets
    y: NDArray[Any]  # (n,)
    intercept: bool
    weights: FloatArray | None  # (n,)
    offset: FloatArray | None  # (n,)
    terms: dict[str, tuple[int, ...]]  # the columns of ``frame`` of each term of the formula
    offset_option: str | None  # the column that was named apart from the formula
    first_level: Any  # of an outcome whose levels have an order of their own
    source: dict[str, Any]  # formula, names of weights and offset, rows left out, groups of cbind
    spec: Any  # formulaic's memory of levels and knots, for new rows
    table: pd.DataFrame  # the rows that were used, with all columns of the table

    def row_weights(self) -> FloatArray:
        """Return how often each row of ``table`` counts: its weight, and its trials of cbind."""
        weights = np.ones(len(self.y)) if self.weights is None else self.weights
        return np.asarray(weights.reshape(-1, len(self.table)).sum(axis=0))

    def of_rows(self, values: Any) -> NDArray[Any]:
        """Return a value for each of ``y``, of one for each row, with or without those left out."""
        given, rows = np.asarray(values), self.table.index
        if len(given) == len(rows) + self.source["rows_left_out"]:
            given = given[rows]
        return np.tile(given, len(self.y) // len(rows))


def make_model_data(
    data: Any,
    formula: str,
    *,
    weights: str | None = None,
    offset: str | None = None,
    missing: str = "error",
    allow_python: bool = False,
) -> ModelData:
    """Evaluate ``outcome ~ terms`` on a table.

    Unless ``allow_python``, the whole formula is checked before any part has a value: names are
    columns, and functions are those of `Expression`.
    """
    try:
        import formulaic  # noqa: F401
    except ImportError:
        raise MissingExtraError("A formula", "formula") from None
    check_length(formula)
    table = as_pandas(data)
    outcome, right = _split(formula)
    counts = call_arguments(outcome, "cbind")
    for part in () if allow_python else counts or ():
        Expression(part, table.columns)
    if counts is None and outcome.strip("`") not in table.columns:
        _refuse_outcome(outcome, table.columns)
    outcomes = [outcome.strip("`")] if counts is None else names_in(counts)
    extras = [name for name in (weights, offset) if name is not None]
    available = [c for c in table.columns if c not in {*outcomes, *extras}]
    _refuse_one(right, available)
    terms = parse_terms(right, formula, available, allow_python=allow_python)
    variables = columns_of(terms)
    _check_names([*outcomes, *extras, *variables], table.columns)
    _refuse_own_outcome(outcomes if counts is None else counts, variables)
    used = complete_rows(table, [*outcomes, *extras, *variables], missing)
    refuse_stray_text(used, plain_columns(terms))
    plan = specification(terms, allow_python=allow_python)
    matrix = make_matrix(plan, used, formula)
    if not matrix.intercept and not len(matrix.frame.columns):
        raise FirthshotError(f"The formula {formula!r} has no term: name at least one column.")
    shifts = [s for s in (_numbers(used, offset), matrix.offset) if s is not None]
    names = [*([offset] if offset else []), *(e[7:-1] for e in expressions(terms) if is_offset(e))]
    made = ModelData(
        frame=matrix.frame,
        y=np.zeros(0),
        intercept=matrix.intercept,
        weights=_numbers(used, weights),
        offset=np.sum(shifts, axis=0) if shifts else None,
        terms=matrix.terms,
        offset_option=offset,
        first_level=None,
        source={
            "formula": " ".join(formula.split()),
            "weights": weights,
            "offset": " + ".join(names) or None,
            "rows_left_out": len(table) - len(used),
            "reference_levels": _reference_levels(matrix.spec, matrix.frame.columns),
        },
        spec=matrix.spec,
        table=table.loc[used.index].assign(**used),
    )
    if counts is not None:
        made = _expanded(made, counts, used, formula, allow_python)
    else:
        column = used[outcomes[0]]
        made = replace(made, y=_labels(column), first_level=_first(column))
    return _noting_weights(made, outcome)


def _noting_weights(made: ModelData, outcome: str) -> ModelData:
    """Count the rows of weight zero, and refuse weights that leave a single class."""
    if made.weights is None:
        return made
    positive = made.weights > 0.0
    if made.weights.min() >= 0.0 and positive.any() and len(np.unique(made.y[positive])) < 2:
        weights = made.source["weights"]
        where = f" where the weights {weights!r} are positive" if weights else ""
        raise FirthshotError(
            f"The outcome {outcome!r} is always {made.y[positive][0]}{where}: it needs two classes."
        )
    none = 0 if "groups" in made.source else int((~positive).sum())
    return replace(made, source=made.source | {"rows_of_weight_zero": none})


def new_rows(data: ModelData, table: Any) -> tuple[pd.DataFrame, FloatArray | None]:
    """Return the columns and the formula's offset of other rows, with the same levels and knots."""
    rows = as_pandas(table)
    variables = columns_of(data.spec.formula)
    _check_names(variables, rows.columns)
    used = complete_rows(rows, variables, "error", fitting=False) if variables else rows[[]]
    matrix = make_matrix(data.spec, used, data.source["formula"])
    return matrix.frame, matrix.offset


def variables_of(data: ModelData) -> list[str]:
    """Return the columns of the table that the right-hand side reads."""
    return columns_of(data.spec.formula)


def _reference_levels(spec: Any, columns: Iterable[str]) -> dict[str, str]:
    """Return the level of each factor that has no column of its own: the others differ from it."""
    found, shown = {}, set(columns)
    for expression, (_, state) in getattr(spec, "encoder_state", {}).items():
        name = short(expression)
        levels = [str(level) for level in state.get("categories", ())]
        without = [level for level in levels if f"{name}[{level}]" not in shown]
        if len(without) == 1:
            found[name] = without[0]
    return found


def new_offset(data: ModelData, table: Any) -> FloatArray | None:
    """Return the column of other rows that the ``offset`` option of the fit named, if it did."""
    name = data.offset_option
    if name is None:
        return None
    rows = as_pandas(table)
    if name not in rows.columns:
        raise FirthshotError(
            f"The fit had the offset {name!r}: give the new rows that column, or offset=[…]."
        )
    return _numbers(complete_rows(rows, [name], "error", fitting=False), name)


def _split(formula: str) -> tuple[str, str]:
    outcome, tilde, terms = formula.partition("~")
    if not tilde or not outcome.strip() or not terms.strip() or "~" in terms:
        raise FirthshotError(
            f"The formula {formula!r} cannot be read: write it as 'outcome ~ term + term'."
        )
    return outcome.strip(), terms


def _refuse_outcome(outcome: str, columns: Iterable[str]) -> None:
    """Refuse an outcome that is no column, an expression in other words than a wrong name."""
    if re.fullmatch(r"`[^`]+`|[\w. ]+", outcome):
        raise FirthshotError(_unknown(outcome.strip("`"), columns))
    inside = [name for name in re.findall(r"[\w.]+", outcome) if name in set(columns)]
    example = f"{inside[0]!r}" if inside else "a column of classes"
    raise FirthshotError(
        f"The outcome {outcome!r} is an expression: name a plain column, such as {example}, "
        "or write cbind(successes, failures)."
    )


def _refuse_own_outcome(outcomes: Iterable[str], variables: Iterable[str]) -> None:
    """Refuse an outcome that explains itself; n in cbind(y, n - y) may be a term all the same."""
    for name in outcomes:
        if name.strip("`") in set(variables):
            raise FirthshotError(
                f"The outcome {name.strip('`')!r} stands among its own terms: remove it there."
            )


def _refuse_one(right: str, available: Iterable[str]) -> None:
    """Refuse a column called 1, which formulaic would take for the constant and leave out."""
    if "1" in available and ("`1`" in right or "." in re.split(r"[\s+*:/()-]+", right)):
        raise FirthshotError("A column is called '1', which means the constant: rename it.")


def _check_names(names: Iterable[str], columns: Iterable[str]) -> None:
    known = list(columns)
    for name in names:
        if name in {"Intercept", "(Intercept)"}:
            raise FirthshotError(
                f"A column is called {name!r}, the name of the model's constant: rename it."
            )
        if name not in known:
            raise FirthshotError(_unknown(name, known))


def _unknown(name: str, columns: Iterable[str]) -> str:
    known = list(columns)
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {listed(known)}."
    return f"The table has no column {name!r}: {hint}"


def _labels(column: pd.Series[Any]) -> NDArray[Any]:
    outcome, values = column.name, column.to_numpy()
    if column.nunique() < 2:
        raise FirthshotError(f"The outcome {outcome!r} holds 1 class only: it needs two at least.")
    if values.dtype.kind == "f":
        if np.any(values != np.floor(values)):
            raise FirthshotError(
                f"The outcome {outcome!r} is a measurement, not a class: choose another column, "
                "or write cbind(successes, failures) for counts."
            )
        return np.asarray(values.astype(np.int64))
    _check_spellings(column)
    return np.asarray(values.astype(str) if values.dtype == object else values)


def _check_spellings(column: pd.Series[Any]) -> None:
    """Refuse classes that differ in case or in spaces around them alone."""
    classes = [str(one) for one in column.unique()]
    plain = [one.strip().casefold() for one in classes]
    twice = [one for one, like in zip(classes, plain, strict=True) if plain.count(like) > 1]
    if twice:
        raise FirthshotError(
            f"The outcome {column.name!r} has classes that differ in case or spaces alone "
            f"({', '.join(map(repr, twice))}): write them alike."
        )


def _first(column: pd.Series[Any]) -> Any:
    return column.cat.categories[0] if hasattr(column, "cat") else None


def _numbers(used: pd.DataFrame, name: str | None) -> FloatArray | None:
    if name is None:
        return None
    if used[name].dtype.kind not in "iuf":
        raise FirthshotError(f"Column {name!r} holds no numbers: weights and offsets must.")
    return np.asarray(used[name].to_numpy(), dtype=np.float64)


def _expanded(
    made: ModelData, counts: Sequence[str], used: pd.DataFrame, formula: str, allow_python: bool
) -> ModelData:
    """Turn each row with counts of successes and failures into two weighted rows."""
    import pandas as pd

    if len(counts) != 2:
        raise FirthshotError(
            f"cbind has {len(counts)} part{'s' * (len(counts) != 1)}: write cbind(successes, "
            "failures); for more classes use one row per group and class, with weights."
        )
    frequencies = np.concatenate([_counts(part, used, formula, allow_python) for part in counts])
    n = len(used)
    if made.weights is not None:
        frequencies = frequencies * np.tile(made.weights, 2)
    return replace(
        made,
        frame=pd.concat([made.frame, made.frame], ignore_index=True),
        y=np.repeat([SUCCESS, FAILURE], n),
        weights=frequencies,
        offset=None if made.offset is None else np.tile(made.offset, 2),
        source=made.source | {"groups": n},
    )


def _counts(part: str, used: pd.DataFrame, formula: str, allow_python: bool) -> FloatArray:
    from formulaic.parser.types import Factor, Term

    term = Term([Factor(part, eval_method="python")])
    plan = specification([term], allow_python=allow_python)
    numbers = evaluate(plan, used, formula).to_numpy()
    bad = np.flatnonzero((numbers < 0.0).any(axis=1))
    if numbers.shape[1] != 1:
        raise FirthshotError(f"{part!r} in cbind holds no counts: give columns of numbers.")
    if len(bad):
        raise FirthshotError(
            f"{part!r} in cbind is negative in row {used.index[bad[0]] + 1}: "
            "counts of successes and failures cannot be."
        )
    return np.asarray(numbers[:, 0])
