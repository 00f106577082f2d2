"""Tables of texts with a label column: CSV, TSV, Parquet, JSON lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from firthshot.backbones.datasets._examples import Example, Found
from firthshot.backbones.datasets._splits import SPLIT_OF
from firthshot.errors import FirthshotError, listed
from firthshot.tables import SEPARATORS, naming_table, read_parquet, refuse_foreign

if TYPE_CHECKING:
    import polars as pl

ENDINGS = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")


def read_texts(
    path: Path, text: str | None = None, label: str = "label", split: str = "split"
) -> Found:
    """Read a table of texts: CSV, TSV, Parquet or JSON lines.

    Without ``text`` the only column of words beside label and split is taken. The column of splits,
    if there is one, says base, val or novel (or train and test); one class may not be in two.
    """
    table = load_table(path)
    if label not in table.columns:
        raise FirthshotError(
            f"{path} has no column {label!r} of labels, but {', '.join(table.columns)}: "
            "name the column of labels.",
            "label",
        )
    column = text_column(table, path, text, (label, split))
    splits = table[split].to_list() if split in table.columns else [None] * len(table)
    width = len(str(len(table)))
    examples = []
    for row, (words, value, home) in enumerate(
        zip(table[column].to_list(), table[label].to_list(), splits, strict=True), start=1
    ):
        owner = str(value)
        if words is None or not words.strip() or owner in ("", "None"):
            raise FirthshotError(
                f"{path} has no text or no label in row {row}: fill it or drop it."
            )
        if split in table.columns and str(home).lower() not in SPLIT_OF:
            raise FirthshotError(f"{path} has the split {home!r}: use base, val, novel.")
        named = SPLIT_OF.get(str(home).lower(), "")
        examples.append(Example(owner, f"row {row:0{width}d}", words, split=named))
    return Found(examples, f"column {column!r} of a table", "text")


def load_table(path: Path, rows: int | None = None) -> pl.DataFrame:
    """Read a table, or its first rows; every column of a CSV comes as text."""
    import polars as pl

    kind = path.suffix.lower()
    with naming_table(path):
        if kind == ".parquet":
            return read_parquet(path, rows)
        if kind in (".jsonl", ".ndjson"):
            return pl.read_ndjson(path, infer_schema_length=None, n_rows=rows)
        refuse_foreign(path)
        return pl.read_csv(path, separator=SEPARATORS[kind], infer_schema=False, n_rows=rows)


def text_column(
    table: pl.DataFrame, path: str | Path, text: str | None, others: tuple[str, ...]
) -> str:
    """Return the column of texts: the one named, else the only column of words."""
    import polars as pl

    words = [name for name, kind in table.schema.items() if kind == pl.String]
    if text is not None:
        if text not in words:
            found = listed(map(repr, words)) or "none"
            raise FirthshotError(
                f"{path} has no column {text!r} of texts, but {found}: name one of these.", "text"
            )
        return text
    rest = [name for name in words if name not in others]
    if "text" in rest:
        return "text"
    if len(rest) != 1:
        found = (
            f"{len(rest)} columns of words ({', '.join(rest)})" if rest else "no column of words"
        )
        raise FirthshotError(f"{path} has {found}: name the column of texts.", "text")
    return rest[0]
