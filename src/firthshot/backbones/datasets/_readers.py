"""Folders of pictures (class folders, alone or in splits, or CSV lists), and tables of texts."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from firthshot.backbones.datasets._examples import SPLIT_OF, Example, Found
from firthshot.backbones.images import ENDINGS
from firthshot.errors import FirthshotError, listed, refusing
from firthshot.tables import SEPARATORS, naming_table, read_parquet, refuse_foreign

if TYPE_CHECKING:
    import polars as pl

TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")

_INNER = ("images", "data")  # where CUB and CIFAR-FS keep their class folders


def read_folder(folder: Path) -> Found:
    """Read a folder of pictures in whichever of the usual layouts it is.

    - class folders;
    - ``train/``, ``val/``, ``test/`` (or base, val, novel) of class folders: with the same
      classes in each, the parts are put together; with different classes, the folders are the
      class split;
    - an ``images/`` or ``data/`` folder that holds the class folders;
    - ``train.csv``, ``val.csv``, ``test.csv`` beside ``images/``.
    """
    inside = _folders(folder)
    if lists := split_lists(folder):
        return _read_lists(folder, lists)
    parts = [path for path in inside if path.name.lower() in SPLIT_OF and _folders(path)]
    if len(parts) >= 2:
        return _read_parts(parts)
    if not any(_pictures(path) for path in inside):
        deeper = [path for path in inside if path.name.lower() in _INNER and _folders(path)]
        if len(deeper) == 1:
            return read_folder(deeper[0])
    return Found(_read_classes(folder), "class folders")


def _read_parts(parts: list[Path]) -> Found:
    """Read folders named after splits: these count unless all hold the same classes."""
    examples = [one for part in parts for one in _read_classes(part)]
    homes: dict[str, list[str]] = {}
    for one in examples:
        homes.setdefault(one.owner, []).append(one.part)
    words = ", ".join(part.name for part in parts)
    if all(len(set(own)) == len(parts) for own in homes.values()):
        return Found(examples, f"class folders, the same in {words}")
    for name, own in homes.items():
        if len(set(own)) > 1:
            raise FirthshotError(
                f"Class {name!r} is in {own[0]}/ and {own[-1]}/ but other classes are in one of "
                "them only: give every folder the same classes, or each its own."
            )
    split = [one._replace(split=SPLIT_OF[one.part.lower()]) for one in examples]
    return Found(split, f"class folders in {words}")


def _read_classes(folder: Path) -> list[Example]:
    """Return the pictures of class folders."""
    found = _folders(folder)
    if not found:
        raise FirthshotError(
            f"{folder} holds no class folders: put the pictures of each class into a folder named "
            "after it."
        )
    examples = []
    for own in found:
        pictures = _pictures(own)
        if not pictures:
            raise FirthshotError(
                f"The class folder {own} holds no pictures ({', '.join(sorted(ENDINGS))}): "
                "fill it or remove it."
            )
        examples += [Example(own.name, path.name, path, folder.name) for path in pictures]
    return examples


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] not in "._")


def _pictures(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.iterdir()
        if path.suffix.lower() in ENDINGS and path.name[0] != "." and path.is_file()
    ]


def split_lists(folder: Path) -> list[Path]:
    """Return the CSV files named after splits; beside class folders they are somebody's tables."""
    if _folders(folder) and not (folder / "images").is_dir():
        return []
    return [path for path in sorted(folder.glob("*.csv")) if path.stem.lower() in SPLIT_OF]


def _read_lists(folder: Path, lists: list[Path]) -> Found:
    """Read the layout of Ravi and Larochelle: columns filename and label, pictures in images/."""
    examples = [
        Example(label, name, _place(folder, name, label, path), split=SPLIT_OF[path.stem.lower()])
        for path in lists
        for name, label in read_rows(path)
    ]
    return Found(examples, f"pictures listed in {', '.join(path.name for path in lists)}")


def read_rows(path: Path) -> list[tuple[str, str]]:
    """Return the file name and the label of each row."""
    with refusing(f"{path} cannot be read", (OSError, csv.Error, UnicodeDecodeError)):
        text = path.read_text("utf-8")
        reader = csv.DictReader(text.splitlines(keepends=True))
        columns, lines = list(reader.fieldnames or ()), list(reader)
    if not {"filename", "label"} <= set(columns):
        raise FirthshotError(
            f"{path} has the columns {listed(columns)}: filename and label are needed."
        )
    rows = [(line["filename"] or "", line["label"] or "") for line in lines]
    if not rows or not all(name and label for name, label in rows):
        raise FirthshotError(f"{path} has no rows, or rows without a filename or a label.")
    return rows


def _place(folder: Path, name: str, label: str, listed_in: Path) -> Path:
    tried = [folder / "images" / name, folder / "images" / label / name, folder / name]
    found = next((path for path in tried if path.is_file()), None)
    if found is None:
        raise FirthshotError(f"{listed_in} lists {name}, which is not at {tried[0]}.")
    return found


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
