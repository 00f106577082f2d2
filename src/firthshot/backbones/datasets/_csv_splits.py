"""Pictures in one folder, their classes in ``train.csv``, ``val.csv``, ``test.csv``."""

from __future__ import annotations

import csv
from pathlib import Path

from firthshot.backbones.datasets._examples import Example, Found
from firthshot.backbones.datasets._splits import SPLIT_OF, Homes
from firthshot.errors import FirthshotError, listed, refusing


def split_files(folder: Path) -> list[Path]:
    """Return the CSV files of a folder that are named after splits, where they list pictures.

    Beside class folders they are somebody's tables and say nothing here.
    """
    if any(path.is_dir() for path in folder.iterdir()) and not (folder / "images").is_dir():
        return []
    return [path for path in sorted(folder.glob("*.csv")) if path.stem.lower() in SPLIT_OF]


def read_csv_splits(folder: Path) -> Found:
    """Read the layout of Ravi and Larochelle: columns filename and label, pictures in images/."""
    examples: list[Example] = []
    homes: Homes = {}
    for path in split_files(folder):
        for name, label in read_rows(path):
            examples.append(Example(label, name, _place(folder, name, label, path)))
            if homes.setdefault(label, SPLIT_OF[path.stem.lower()]) != SPLIT_OF[path.stem.lower()]:
                raise FirthshotError(f"{path} has class {label!r}, which another split has too.")
    words = ", ".join(path.name for path in split_files(folder))
    return Found(examples, f"pictures listed in {words}", homes)


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
