"""From what the user names or holds to `Examples`: the one place that knows kinds of sources."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from firthshot.backbones.datasets import load_table
from firthshot.backbones.images import ENDINGS as PICTURES
from firthshot.banks import (
    READERS,
    list_banks,
    load_bank,
    naming_errors,
    read_npy,
    read_npz,
    read_source,
)
from firthshot.errors import FirthshotError, refusing
from firthshot.own_data._encoded import (
    Embedder,
    embed_files,
    embed_lines,
    embed_table_texts,
    embed_texts,
    holds_texts,
    pictures_of,
)
from firthshot.own_data._examples import GIVEN_TEXT, Columns, Examples
from firthshot.own_data._tables import finite_features, read_examples_table, table_examples
from firthshot.own_data._texts import decode, looks_like_texts, parse_items
from firthshot.tables import TABLES, refuse_foreign

JSON_LINES = (".jsonl", ".ndjson")
FEATURES = (".npy", *READERS)
PYTHON = "the given table"
KINDS_OF_DATA = "an array of shape (rows, features), a data frame, texts or pictures"


def read_examples(
    source: Any,
    columns: Columns | None = None,
    *,
    y: Any = None,
    split: str | None = None,
    needs_label: bool = True,
    embedder: Embedder | None = None,
    skip_bad: bool = False,
) -> Examples:
    """Read the rows of anything: a source, a list of pictures or texts, a frame, an array.

    By name, a source is a folder of class folders of pictures or one picture, a table of texts or
    of features (.csv, .tsv, .parquet, .jsonl), a feature file as `firthshot bank import` takes them
    (.npz with X and y, features.npy,labels.npy, …), or the name or path of a bank, of which
    ``split`` takes one split; for a model of texts that asks for no labels, also a text. ``y`` are
    the labels of data that do not hold them; ``embedder`` gives pictures and texts their features,
    and one may serve several sources.
    """
    reader = _Reader(columns or Columns(), embedder or Embedder(), needs_label, skip_bad)
    if not isinstance(source, str | Path):
        return reader.held(source, y)
    if y is not None:
        raise FirthshotError(f"{source} holds its own labels: leave out y.")
    return reader.named(str(source), split)


@dataclass(frozen=True)
class _Reader:
    """What columns mean, what gives pictures and texts their features, and what is refused."""

    columns: Columns
    embedder: Embedder
    needs_label: bool
    skip_bad: bool

    def named(self, source: str, split: str | None) -> Examples:
        """Return the rows of a file, a folder, a bank, or of a text given as such."""
        path, embedder = Path(source), self.embedder
        kind = path.suffix.lower()
        if embedder.takes_texts and not self.needs_label and split is None and is_text(source):
            return _text_example(source, embedder)
        if split is not None and not _is_bank(source):
            raise FirthshotError(f"{source} is no bank: leave out the split {split}.", "split")
        if source.endswith("/") and not path.exists():
            raise FirthshotError(f"There is no folder {source}: check the path.")
        if path.is_file():
            refuse_foreign(path)
        if kind == ".txt" and embedder.takes_texts:
            return embed_lines(_content(source), embedder, source)
        _refuse_unknown(source, embedder)
        if path.is_dir() or kind in PICTURES:
            paths, labels = pictures_of(path, needs_label=self.needs_label)
            self._refuse_encoded(source, "pictures")
            return embed_files(paths, labels, source, embedder, skip_bad=self.skip_bad)
        if holds_texts(path, self.columns, embedder):
            self._refuse_encoded(source, "texts")
            table = load_table(path)
            return embed_table_texts(table, source, self.columns, embedder, self.needs_label)
        self._refuse_for_features(source)
        if kind in TABLES:
            return read_examples_table(path, self.columns, needs_label=self.needs_label)
        if kind in JSON_LINES:
            text = _content(source)
            return parse_items(text, self.columns, source, needs_label=self.needs_label)
        return _bank_examples(source, split) if _is_bank(source) else self._features(source)

    def _refuse_encoded(self, source: str, held: str) -> None:
        """Refuse pictures and texts for a model of features whose encoder is not known."""
        mark = self.embedder.mark
        if mark is not None and mark.fingerprint is None and self.embedder.given is None:
            raise FirthshotError(
                f"{source} holds {held}, but the model was fitted to features ({mark.spec}): give "
                "features made the same way."
            )

    def _refuse_for_features(self, source: str) -> None:
        """Refuse what only pictures and texts have, naming the options that were given."""
        options = {"encoder": self.embedder.given, "text": self.columns.text}
        given = [name for name, value in options.items() if value is not None]
        if given:
            if _is_bank(source):
                load_bank(source)  # says so if there is none
            raise FirthshotError(
                f"{source} holds features, neither pictures nor texts: leave out "
                f"{' and '.join(given)}.",
                *given,
            )

    def _features(self, source: str) -> Examples:
        """Read a feature file through the importers of banks."""
        bare = None if self.needs_label else _bare_features(source)
        if bare is not None:
            return Examples(source, finite_features(bare, source))
        found = read_source(source)
        labels = found.owners if found.names is None else np.array(found.names)[found.owners]
        return Examples(source, finite_features(found.features, source), labels)

    def held(self, data: Any, y: Any) -> Examples:
        """Return the rows of what is held in memory."""
        try:
            found = self._held(data, y)
        except FirthshotError as error:
            if not str(error).startswith(PYTHON):
                raise
            raise error.reworded(str(error)[0].upper() + str(error)[1:]) from None
        if y is not None and found.kind != "image":  # of which some may be left out
            found = replace(found, labels=_labels(y, len(found)))
        if self.needs_label and found.labels is None:
            raise FirthshotError("The rows have no labels: give y.")
        return found

    def _held(self, data: Any, y: Any) -> Examples:
        if data is None:
            raise FirthshotError(f"The data are None: give {KINDS_OF_DATA}.")
        data = data.toarray() if hasattr(data, "toarray") else data  # of scipy
        if hasattr(data, "columns") and hasattr(data, "__getitem__"):
            return self._frame(_as_polars(data), self.needs_label and y is None)
        if not hasattr(data, "__len__") or not len(data):
            raise FirthshotError(f"The data are empty or no sequence: give {KINDS_OF_DATA}.")
        if not all(isinstance(one, str | Path) for one in data):
            return Examples(PYTHON, _numbers(data))
        pictures = all(Path(one).suffix.lower() in PICTURES for one in data)
        if self.embedder.takes_texts or not pictures:
            return embed_texts([str(one) for one in data], PYTHON, self.embedder)
        labels = None if y is None else _labels(y, len(data))
        paths = [Path(one) for one in data]
        return embed_files(paths, labels, PYTHON, self.embedder, skip_bad=self.skip_bad)

    def _frame(self, frame: pl.DataFrame, needs_label: bool) -> Examples:
        columns, embedder = self.columns, self.embedder
        if columns.text is not None or embedder.takes_texts or looks_like_texts(frame, columns):
            return embed_table_texts(frame, PYTHON, columns, embedder, needs_label)
        return table_examples(frame, PYTHON, columns, needs_label=needs_label)


def _content(source: str) -> str:
    with refusing(f"{source} cannot be read", OSError):
        content = Path(source).read_bytes()
    return decode(content, source)


def _refuse_unknown(source: str, embedder: Embedder) -> None:
    """Refuse a file of no known kind, naming those that the model takes."""
    if _known_ending(source) and not Path(source).exists() and "," not in source:
        raise FirthshotError(f"There is no file {source}: check the path.")
    if _known_ending(source) or Path(source).is_dir() or _may_be_bank(source):
        return
    kind, tables = Path(source).suffix.lower(), (*TABLES, *JSON_LINES)
    mark = embedder.mark
    if mark is None or mark.fingerprint is None:
        taken = (
            f"a table ({', '.join(tables)}), a file of features ({', '.join(FEATURES)}) or a bank"
        )
        if mark is None:
            taken = f"a folder of pictures, {taken}"
    elif embedder.takes_texts:
        taken = f"texts in {', '.join((*tables, '.txt'))}"
    else:
        taken = f"pictures ({', '.join(sorted(PICTURES))}) or folders of them"
    ending = f"the ending {kind!r}" if kind else "no ending"
    raise FirthshotError(f"{source} has {ending}: give {taken}.")


def _text_example(text: str, embedder: Embedder) -> Examples:
    """Embed one text; a single word may have been meant for a file."""
    found = embed_lines(text, embedder, GIVEN_TEXT)
    if len(text.split()) > 1:
        return found
    return replace(found, notes=(f"There is no file {text!r}, so that it was taken for a text.",))


def _known_ending(source: str) -> bool:
    return Path(source).suffix.lower() in {*TABLES, *JSON_LINES, *FEATURES, *PICTURES}


def is_text(source: str) -> bool:
    """Tell whether a source is a text itself: it names no file and no bank, nor looks like one."""
    if os.path.exists(source):  # noqa: PTH110 - a long text is no path at all
        return False
    if _known_ending(source) or Path(source).suffix.lower() in (".bank", ".txt"):
        return False
    if len(source.split()) > 1:
        return True
    return "/" not in source and all(bank.name != source for bank in list_banks())


def _is_bank(source: str) -> bool:
    """Tell whether a source is a bank: by its ending, or because it has none."""
    return Path(source).suffix.lower() in (".bank", "") and not Path(source).is_dir()


def _may_be_bank(source: str) -> bool:
    """Tell whether a source is a bank, but for a file that begins as none."""
    if not _is_bank(source) or not Path(source).is_file() or Path(source).suffix:
        return _is_bank(source)
    with Path(source).open("rb") as file:
        return file.read(9)[8:] == b"{"


def _bank_examples(source: str, split: str | None) -> Examples:
    bank = load_bank(source)
    rows = np.arange(len(bank.labels)) if split is None else bank.rows(split)
    labels = np.array(bank.meta.classes)[bank.labels[rows]]
    features = finite_features(bank.features[rows], source)
    return Examples(source, features, labels, encoder=bank.meta.backbone or None)


def _bare_features(source: str) -> np.ndarray | None:
    """Return the rows of a .npy file, or of a .npz file without y; None for any other source."""
    path = Path(source)
    kind = path.suffix.lower()
    if kind not in (".npy", ".npz") or ("," in source and not path.is_file()):
        return None
    with naming_errors(path):
        if kind == ".npy":
            features = read_npy(path)
        else:
            found = read_npz(path, ("X", "y"))
            if "y" in found:
                return None
            if "X" not in found:
                raise FirthshotError("it lacks array 'X' of features")
            features = found["X"]
        if features.ndim != 2 or not features.size or features.dtype.kind not in "fiub":
            raise FirthshotError(
                f"features of shape {features.shape} and type {features.dtype} are no rows of "
                "numbers"
            )
    return np.asarray(features)


def _as_polars(frame: Any) -> pl.DataFrame:
    if isinstance(frame, pl.DataFrame):
        return frame
    if hasattr(frame, "to_dict") and hasattr(frame, "iloc"):  # of pandas
        return pl.DataFrame([_series(str(name), frame[name]) for name in frame.columns])
    return pl.DataFrame(frame)


def _series(name: str, column: Any) -> pl.Series:
    """Return a column of pandas, in which whatever is missing is null."""
    values = [
        None if gone else value for value, gone in zip(column.tolist(), column.isna(), strict=True)
    ]
    try:
        return pl.Series(name, values)
    except TypeError:
        raise FirthshotError(
            f"Column {name!r} of {PYTHON} holds values of several types: write all as words or all "
            "as numbers."
        ) from None


def _numbers(data: Any) -> np.ndarray:
    try:
        features = np.asarray(data)
        if features.ndim != 2 or not features.size:
            raise FirthshotError(f"Rows of shape {features.shape} are none: give (rows, features).")
        return finite_features(features, PYTHON)
    except FirthshotError:
        raise
    except (TypeError, ValueError):
        raise FirthshotError(f"The rows are no numbers: give {KINDS_OF_DATA}.") from None


def _labels(y: Any, rows: int) -> np.ndarray:
    labels = np.asarray(y)
    gaps = [row for row, one in enumerate(labels.ravel().tolist(), 1) if one is None or one != one]
    if gaps:
        raise FirthshotError(f"y has no label in row {gaps[0]}: fill it in or remove the row.")
    if labels.shape != (rows,):
        raise FirthshotError(f"y has shape {labels.shape}: give one label for each of {rows} rows.")
    return labels
