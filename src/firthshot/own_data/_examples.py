"""What every source becomes: features, and whatever else the source says of each row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from firthshot.errors import FirthshotError, listed

Array = npt.NDArray[Any]
Kind = Literal["features", "image", "text"]  # what a source holds

GIVEN_TEXT = "The text"  # the source of a text that was given as such


@dataclass(frozen=True)
class Columns:
    """Which columns of a table mean what; all others are features."""

    label: str = "label"  # the class of each row
    id: str | None = None  # what to call each row in predictions; else a column called ``id``
    drop: tuple[str, ...] = ()  # columns to leave away
    # the features that a model asks for, in their order; other columns are then left out
    features: tuple[str, ...] | None = None
    text: str | None = None  # the column of texts to embed, if the rows are texts
    # what a model tells apart: a column of nothing else holds labels, whatever it is called
    classes: frozenset[str] = frozenset()
    model_text: str | None = None  # the texts that a model was fitted to; ``text`` overrides it


def refuse_contradictions(
    label: str | None, drop: Sequence[str] = (), text: str | None = None
) -> None:
    """Refuse one column in two roles; None is a role that nothing was said of."""
    if text is not None and text == label:
        raise FirthshotError(
            f"Column {text!r} cannot be both text and label: name another column.", "text", "label"
        )
    for name, role in ((label, "label"), (text, "text")):
        if name is not None and name in drop:
            raise FirthshotError(
                f"Column {name!r} cannot be both {role} and left out: name another column.",
                role,
                "drop",
            )


@dataclass(frozen=True)
class Examples:
    """Rows of a source."""

    source: str  # what was read, as the user wrote it
    features: Array  # (n, d), floating point and finite
    labels: Array | None = None  # (n,) whole numbers or text, where the source has them
    names: tuple[str, ...] | None = None  # of the d features, unless they are only numbered
    ids: Array | None = None  # (n,), what the source calls its rows …
    id_name: str = "row"  # … and the heading of that
    kind: Kind = "features"  # the features themselves, or pictures or texts embedded here
    encoder: str | None = None  # what made the features, where the source knows
    fingerprint: str | None = None  # of the encoder's weights, where it was loaded here
    unused: tuple[str, ...] = ()  # columns that the model does not ask for, labels apart
    files: Array | None = None  # (n,), the input of each row, where its id does not name it
    label_name: str | None = None  # the column that held the labels …
    text_name: str | None = None  # … and the texts, if they come from one
    notes: tuple[str, ...] = ()  # sentences about how the source was read
    texts: tuple[str, ...] | None = None  # that were embedded
    bad: tuple[str, ...] = ()  # files that were left out because they cannot be read

    def __len__(self) -> int:
        return len(self.features)

    def given_labels(self) -> Array:
        """Return the labels of rows that have them."""
        assert self.labels is not None
        return self.labels

    def coded_labels(self) -> tuple[Array, Array]:
        """Return the classes (K,), sorted, and the number of each row's class (n,)."""
        classes, labels = np.unique(self.given_labels(), return_inverse=True)
        return classes, labels.ravel()

    def row_ids(self) -> Array:
        """Return what to call each row: its id, or its number from 1."""
        return np.arange(1, len(self) + 1) if self.ids is None else self.ids

    def row_names(self) -> list[str]:
        """Return what to call each row in a sentence: its file, its id, or its number."""
        if self.ids is None:
            return [f"row {row}" for row in range(1, len(self) + 1)]
        shown = [str(name) for name in self.ids]
        if self.kind == "image":
            return [name.removeprefix(self.source.rstrip("/") + "/") for name in shown]
        return [repr(name if len(name) <= 40 else name[:39] + "…") for name in shown]

    def as_input(self) -> Any:
        """Return the features as estimators take them: with their names, if they have any."""
        return named_rows(self.features, self.names)


def named_rows(rows: Array, names: Sequence[str] | None) -> Any:
    """Return rows (n, d) as a data frame under their names, if they have any."""
    if names is None:
        return rows
    import polars as pl

    return pl.DataFrame(rows, schema=[str(name) for name in names])


def join_examples(parts: Sequence[Examples]) -> Examples:
    """Put the rows of several sources below one another; labels stay where all have them."""
    if len(parts) == 1:
        return parts[0]
    widths = {part.features.shape[1] for part in parts}
    if len(widths) > 1:
        raise FirthshotError(f"The inputs differ in the number of features: {listed(widths)}.")
    labels = [part.labels for part in parts if part.labels is not None]
    named = all(part.kind == "image" or part.source == GIVEN_TEXT for part in parts)
    return replace(
        parts[0],
        source=", ".join(part.source for part in parts),
        features=np.concatenate([part.features for part in parts]),
        labels=np.concatenate(labels) if len(labels) == len(parts) else None,
        ids=np.concatenate([part.row_ids() for part in parts]),
        files=None if named else _files(parts),
        texts=None,
        bad=tuple(name for part in parts for name in part.bad),
    )


def _files(parts: Sequence[Examples]) -> Array:
    return np.repeat([part.source for part in parts], [len(part) for part in parts])


def unknown_column(name: str, columns: Iterable[str], source: str) -> str:
    """Return the sentence that a column is not there, with the nearest name that is."""
    from difflib import get_close_matches

    known = list(columns)
    lower = {column.lower(): column for column in known}
    close = [lower[match] for match in get_close_matches(name.lower(), list(lower), n=1)]
    hint = f"did you mean {close[0]!r}?" if close else f"its columns are {listed(known)}."
    return f"{source} has no column {name!r}: {hint}"
