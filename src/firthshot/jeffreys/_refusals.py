"""Say which entry of a table a model cannot use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST = 1e150  # the square of a larger number, or of its inverse, loses digits or all of them


def explained(error: ValueError, X: Any) -> ValueError:
    """Return an error that names row and column, or the one at hand if X is not to blame."""
    names = [str(name) for name in getattr(X, "columns", [])]
    for k, name in enumerate(names):
        text = _text_in(X.iloc[:, k] if hasattr(X, "iloc") else X[name])
        if text is not None:
            return FirthshotError(
                f"Column {name!r} holds text ({text!r}): code it in numbers, or give a formula to "
                "firthshot.regress, which codes such columns itself."
            )
    try:
        values = np.asarray(X)
        numbers = values.astype(np.float64) if values.dtype.kind in "fiubO" else np.zeros(0)
    except (TypeError, ValueError):
        return error
    if numbers.ndim != 2 or np.isfinite(numbers).all():
        return error
    rows, columns = np.nonzero(~np.isfinite(numbers))
    what = "NaN" if np.isnan(numbers[rows[0], columns[0]]) else "inf"
    more = f" (and {len(rows) - 1} more such values)" if len(rows) > 1 else ""
    label = repr(names[columns[0]]) if names else f"{columns[0]}"
    return FirthshotError(
        f"X contains {what} in row {rows[0] + 1}, column {label}{more}: "
        "fill what is missing or remove such rows."
    )


def refuse_extremes(X: NDArray[np.float64], names: list[str]) -> None:
    """Refuse a column whose squares leave the range of floating-point numbers."""
    largest = np.abs(X).max(axis=0, initial=0.0)
    outside = np.flatnonzero((largest > LARGEST) | ((largest > 0.0) & (largest < 1.0 / LARGEST)))
    for k in outside[:1]:
        raise FirthshotError(
            f"The largest value of column {names[k]!r} is {largest[k]:.0e}: rescale the column to "
            f"between {1.0 / LARGEST:.0e} and {LARGEST:.0e}."
        )


def refuse_lazy(X: Any) -> None:
    """Refuse a query of polars that has no rows yet."""
    if type(X).__name__ == "LazyFrame":
        raise FirthshotError("X is a LazyFrame, which has no rows yet: give X.collect().")


def _text_in(column: Any) -> str | None:
    """Return a text in a column that is no number."""
    for value in column:
        if isinstance(value, str):
            try:
                float(value)
            except ValueError:
                return value
    return None
