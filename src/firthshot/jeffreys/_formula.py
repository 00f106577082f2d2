"""From a table and a formula to a design matrix; anything amiss is named by row and column."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError, MissingExtraError
from firthshot.jeffreys._text import listed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pandas as pd  # type: ignore[import-untyped]
    import polars as pl
    from numpy.typing import NDArray

    from firthshot.jeffreys._kernels import FloatArray

_MISSING = ["NA", "NaN", "nan", ""]


@dataclass(frozen=True)
class ModelData:
    """What a formula makes of a table.

    Attributes
    ----------
    frame : pandas.DataFrame
        The terms of the right-hand side, without the intercept.
    y : ndarray of shape (n,)
    intercept : bool
    weights, offset : ndarray of shape (n,) or None
    """

    frame: pd.DataFrame
    y: NDArray[Any]
    intercept: bool
    weights: FloatArray | None
    offset: FloatArray | None


def read_model_data(
    path: Path, formula: str, *, weights: str | None = None, offset: str | None = None
) -> ModelData:
    """Read a table and evaluate ``outcome ~ terms`` on it.

    Raises
    ------
    FirthshotError
        For an unreadable table or formula, an unknown column, a missing value.
    """
    table = read_table(path)
    outcome, terms = _split(formula)
    wanted = _parsed(terms, formula)
    extras = [name for name in (weights, offset) if name is not None]
    variables = sorted(str(name) for name in wanted.required_variables)
    for name in {"Intercept", "(Intercept)"}.intersection(variables):
        raise FirthshotError(
            f"A column is called {name!r}, the name of the model's constant: rename it in {path}."
        )
    for name in (outcome, *extras, *variables):
        if name not in table.columns:
            raise FirthshotError(_unknown(name, table.columns, path))
        _refuse_missing(table, name)
    matrix = _design(wanted, table, [*variables, *extras, outcome], formula)
    intercept = "Intercept" in matrix.columns
    frame = matrix.drop(columns="Intercept") if intercept else matrix
    if not len(frame.columns):
        raise FirthshotError(f"The formula {formula!r} has no term: name at least one column.")
    return ModelData(
        frame=frame,
        y=_labels(table, outcome),
        intercept=intercept,
        weights=_numbers(table, weights),
        offset=_numbers(table, offset),
    )


def read_table(path: Path) -> pl.DataFrame:
    """Read a table by the suffix of its name."""
    import polars as pl

    readers = {
        ".csv": lambda file: pl.read_csv(file, null_values=_MISSING),
        ".tsv": lambda file: pl.read_csv(file, separator="\t", null_values=_MISSING),
        ".parquet": pl.read_parquet,
        ".json": pl.read_json,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise FirthshotError(f"{path} is of no known kind: give a .csv, .tsv, .parquet or .json.")
    if not path.is_file():
        raise FirthshotError(f"There is no file {path}: check the path.")
    try:
        table = reader(path)
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FirthshotError(
            f"{path} cannot be read as a table ({first}): mend the file."
        ) from None
    if table.height == 0:
        raise FirthshotError(f"{path} has no rows: give a table with data below its header.")
    return table


def _split(formula: str) -> tuple[str, str]:
    outcome, tilde, terms = formula.partition("~")
    outcome = outcome.strip().strip("`")
    if not tilde or not outcome or not terms.strip() or "~" in terms:
        raise FirthshotError(
            f"The formula {formula!r} cannot be read: write it as 'outcome ~ term + term'."
        )
    return outcome, terms


def _parsed(terms: str, formula: str) -> Any:
    try:
        from formulaic import Formula
    except ImportError:
        raise MissingExtraError("A formula", "formula") from None
    try:
        return Formula(terms)
    except Exception as error:  # noqa: BLE001 - formulaic lets tokeniser and syntax errors through
        raise FirthshotError(_bad_formula(formula, error)) from None


def _bad_formula(formula: str, error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    why = lines[0].rstrip(".:") if lines else type(error).__name__
    return f"The formula {formula!r} cannot be evaluated ({why}): mend it."


def _unknown(name: str, columns: Iterable[str], path: Path) -> str:
    known = list(columns)
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {listed(known)}."
    return f"{path.name} has no column {name!r}: {hint}"


def _refuse_missing(table: pl.DataFrame, name: str) -> None:
    import polars as pl

    column = table[name]
    missing = column.is_null()
    if column.dtype == pl.String:
        missing = missing | column.str.strip_chars().is_in(_MISSING)
    if column.dtype.is_float():
        missing = missing | column.is_nan() | column.is_infinite()
    if missing.any():
        row = int(np.flatnonzero(missing.fill_null(True).to_numpy())[0]) + 1
        more = int(missing.fill_null(True).sum()) - 1
        others = f" and {more} more" if more else ""
        raise FirthshotError(
            f"Column {name!r} has no finite value in row {row}{others}: "
            "fill what is missing or remove such rows."
        )


def _design(wanted: Any, table: pl.DataFrame, names: list[str], formula: str) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame({name: table[name].to_numpy() for name in dict.fromkeys(names)})
    try:
        with np.errstate(all="ignore"):  # what is not finite is named below
            made = wanted.get_model_matrix(frame, na_action="ignore")
        matrix = pd.DataFrame(made).astype(float)
        matrix.columns = [_short(str(name)) for name in matrix.columns]
    except Exception as error:  # noqa: BLE001 - a formula is an expression: anything can go wrong
        raise FirthshotError(_bad_formula(formula, error)) from None
    bad = ~np.isfinite(matrix.to_numpy())
    if bad.any():
        row, column = (int(k[0]) for k in np.nonzero(bad))
        raise FirthshotError(
            f"The term {matrix.columns[column]!r} is not finite in row {row + 1}: "
            "transform the column otherwise or remove the row."
        )
    return matrix


def _short(name: str) -> str:
    """Write C(group)[T.b] as group[b]."""
    name = re.sub(r"C\((\w+)(?:,[^()]*(?:\([^()]*\))?[^()]*)?\)", r"\1", name)
    return name.replace("[T.", "[")


def _labels(table: pl.DataFrame, outcome: str) -> NDArray[Any]:
    column = table[outcome]
    values = column.to_numpy()
    if column.n_unique() < 2:
        raise FirthshotError(f"The outcome {outcome!r} holds 1 class only: it needs two at least.")
    if column.dtype.is_float():
        if np.any(values != np.floor(values)):
            raise FirthshotError(
                f"The outcome {outcome!r} is a measurement, not a class: choose another column."
            )
        return np.asarray(values.astype(np.int64))
    return np.asarray(values.astype(str) if values.dtype == object else values)


def _numbers(table: pl.DataFrame, name: str | None) -> FloatArray | None:
    if name is None:
        return None
    if not table[name].dtype.is_numeric():
        raise FirthshotError(f"Column {name!r} holds no numbers: weights and offsets must.")
    return np.asarray(table[name].to_numpy(), dtype=np.float64)
