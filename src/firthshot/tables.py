"""What every reader of tables has to know: labels and headers that would be misread, bad files.

Each room reads with its own options; what labels are, what is refused, and in which words, stands
here. polars is imported where it is used: whoever only asks for help does not wait for it.
"""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from firthshot.errors import FirthshotError, reason
from firthshot.guard import Fault, trial_fault

if TYPE_CHECKING:
    import polars as pl
SEPARATORS = {".csv": ",", ".tsv": "\t"}
TABLES = (*SEPARATORS, ".parquet")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # one text for each number, all within int64
_DOT_ZERO = ".0"  # pandas writes so whole numbers of a column that had gaps
_NAMES = {";": "semicolons", "\t": "tabs", ",": "commas"}
_LONGEST_HEADER = 1 << 20
_MAGIC, _SHORTEST = b"PAR1", 12  # of a Parquet file: both ends, and the length of the footer


def load_table(path: Path, texts: Iterable[str]) -> pl.DataFrame:
    """Read one of TABLES; a text file's columns in ``texts`` are its text: 01 is not 1."""
    kind = path.suffix.lower()
    if kind == ".parquet":
        return read_parquet(path)
    return load_separated(path, SEPARATORS[kind], texts)


def read_parquet(path: Path, rows: int | None = None) -> pl.DataFrame:
    """Read a Parquet file, or its first rows, once a child process has read it whole.

    Some damaged files make polars end its process. Whatever is wrong is a ``ComputeError`` of
    polars here, for `naming_table`.
    """
    import polars as pl

    if not path.is_file():
        raise FileNotFoundError(path)
    if (fault := parquet_fault([path])) is not None:
        raise pl.exceptions.ComputeError(fault.words)
    return pl.read_parquet(path, n_rows=rows, glob=False)


def parquet_fault(paths: Sequence[Path]) -> Fault | None:
    """Return the first Parquet file that must not be read here, and why; None if all are sound."""
    for path in paths:
        if (words := _frame_fault(path)) is not None:
            return Fault(path, words)
    return trial_fault(__name__, "try_parquet", paths)


def try_parquet(path: Path) -> None:
    """Read a Parquet file for the sake of its faults; in a child process only."""
    import polars as pl

    try:
        pl.read_parquet(path, glob=False)
    except polars_errors() as error:
        raise FirthshotError(why_unreadable(error)) from None


def _frame_fault(path: Path) -> str | None:
    """Return what is wrong with the first and last bytes of a Parquet file: the cheap check."""
    with path.open("rb") as file:
        head = file.read(len(_MAGIC))
        size = file.seek(0, os.SEEK_END)
        if head != _MAGIC or size < _SHORTEST:
            return "it is no Parquet file, or cut short; write it anew"
        file.seek(size - 8)
        length, tail = int.from_bytes(file.read(4), "little"), file.read(4)
    if tail != _MAGIC or length > size - _SHORTEST:
        return "it is cut short or damaged at its end; write it anew"
    return None


def load_separated(source: Path | BytesIO, separator: str, texts: Iterable[str]) -> pl.DataFrame:
    """Read a text file; its columns in ``texts`` are its text, all rows decide on the others."""
    import polars as pl

    return pl.read_csv(
        source,
        separator=separator,
        infer_schema_length=None,
        schema_overrides=dict.fromkeys(texts, pl.String()),
    )


def class_labels(texts: Sequence[str]) -> NDArray[Any]:
    """Return labels as whole numbers where nothing is lost by it, else as the text they are.

    ``01``, ``1`` and ``007`` are three classes, though a reader of numbers finds two in them: a
    number counts only if its text is the one way to write it. Texts that all end in ``.0`` count
    without it.
    """
    plain = [plain_number(text) for text in texts]
    found = plain if all(text.endswith(_DOT_ZERO) for text in texts) else texts
    if all(_WHOLE.fullmatch(text) for text in found):
        return np.array([int(text) for text in found])
    return np.array(texts)


def plain_number(text: str) -> str:
    """Return a label without the ``.0`` of a whole number that was written as a fraction."""
    return text.removesuffix(_DOT_ZERO)


def are_fractional(texts: Iterable[str]) -> bool:
    """Tell whether labels are numbers that do not count: no classes, but a measured quantity."""
    try:
        numbers = [float(text) for text in set(texts)]
    except ValueError:
        return False
    return not all(number.is_integer() for number in numbers)


def polars_errors(*others: type[Exception]) -> tuple[type[BaseException], ...]:
    """Return what polars raises on a bad file, to be caught together with other errors.

    A panic, in which some damaged Parquet files end, is no ``Exception``: it passes every other
    handler.
    """
    import polars as pl

    return (pl.exceptions.PolarsError, pl.exceptions.PanicException, *others)


@contextmanager
def naming_table(source: Path | str) -> Iterator[None]:
    """Turn what reading a table raises into one sentence that names the file, or other source."""
    try:
        yield
    except FirthshotError:
        raise
    except FileNotFoundError:
        raise FirthshotError(f"There is no file {source}: check the path.") from None
    except polars_errors(OSError, ValueError) as error:
        raise FirthshotError(
            f"{source} cannot be read as a table: {why_unreadable(error)}."
        ) from None


def parse_separated(
    text: str, separator: str, texts: Iterable[str] | None, source: str
) -> pl.DataFrame:
    """Read a table out of text; its columns in ``texts`` stay text, all do where that is None."""
    import polars as pl

    if (fault := duplicate_fault(text.splitlines()[0], separator)) is not None:
        raise FirthshotError(f"{source} {fault}.")
    content = BytesIO(text.encode())
    with naming_table(source):
        if texts is not None:
            return load_separated(content, separator, texts)
        return pl.read_csv(content, separator=separator, infer_schema=False)


def why_unreadable(error: BaseException) -> str:
    """Return the fault behind an error of polars and the way out, without a full stop."""
    import polars as pl

    words = reason(error)
    if isinstance(error, pl.exceptions.PanicException):
        return "the file is damaged; write it anew"  # the words are of polars' own insides
    if "more fields" in words:
        return "a row has more cells than the header; mend or quote it"
    if "not properly escaped" in str(error):
        return "a quotation mark is not closed; close it, or write it twice within quotes"
    if "utf-8" in words.lower():
        return "it is not in UTF-8; save it as UTF-8"
    return words if ";" in words else f"{words}; mend the file"


def refuse_foreign(path: Path) -> None:
    """Refuse a .csv or .tsv file whose header is in UTF-16, separated otherwise or ambiguous."""
    if (fault := header_fault(path)) is not None:
        raise FirthshotError(f"{path} {fault}.")


def header_fault(path: Path) -> str | None:
    """Return what is wrong with the header of a .csv or .tsv file, None where nothing is.

    It reads like "separates its columns by …": the caller puts the file's name before it. Other
    kinds of files have no such header.
    """
    separator = SEPARATORS.get(path.suffix.lower())
    if separator is None:
        return None
    with path.open("rb") as file:
        header = file.readline(_LONGEST_HEADER)
    if b"\0" in header:
        return "is not in UTF-8 but, it seems, in UTF-16: save it as UTF-8"
    line = header.decode(errors="replace")
    return _separator_fault(line, separator) or duplicate_fault(line, separator)


def _separator_fault(header: str, separator: str) -> str | None:
    found = [mark for mark in _NAMES if mark in header]
    if separator in found or not found:
        return None
    renamed = ", or name it .tsv" if found[0] == "\t" else ""
    return (
        f"separates its columns by {_NAMES[found[0]]}: save it with {_NAMES[separator]} (and "
        f"numbers with a decimal point){renamed}"
    )


def duplicate_fault(header: str, separator: str) -> str | None:
    """Return the fault of a header in which two columns have one name, if it has one."""
    try:
        names = next(csv.reader([header.strip("\ufeff\r\n")], delimiter=separator), [])
    except csv.Error as error:
        if "\r" in header.strip("\r\n"):
            return "has a carriage return within its header: save it with plain line ends"
        return f"has a header that cannot be read ({reason(error)}): mend it"
    twice = [name for name, count in Counter(names).items() if count > 1 and name.strip()]
    if not twice:
        return None
    return f"has more than one column called {twice[0]!r}: rename or remove all but one"
