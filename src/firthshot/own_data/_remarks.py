"""What a user should know about a labelled table before trusting a model of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from firthshot.errors import Advice, listed
from firthshot.estimators import offset_columns, wide_columns
from firthshot.own_data._examples import Array, Examples

UNEVEN = 2  # times as many rows as the smallest class has: less is not worth a word
EMBEDDING = 64  # columns; a table as wide as that is one, and its columns nobody's to mend


def remarks(
    examples: Examples,
    classes: Array,
    counts: Array,
    *,
    standardized: bool = False,
    directions: bool = False,
    left_out: bool = True,
    balanced: bool = False,
) -> list[str]:
    """Return a sentence for everything remarkable, the gravest first.

    ``standardized`` says that the model brings the columns to one scale itself, ``directions`` that
    it sees the direction of rows only, ``left_out`` that rows were left out to test it,
    ``balanced`` that classes weigh the same, however many rows they have.
    """
    return [
        *_contradictions(examples, left_out),
        *_column_remarks(examples, standardized, directions),
        *_likely_misspelt(classes),
        *_class_remarks(classes, counts, balanced),
    ]


def unused_remarks(examples: Examples) -> Iterator[str]:
    """Say how rows were read, and which columns a model does not look at.

    The latter may be features under a wrong name.
    """
    yield from examples.notes
    if examples.unused:
        names = examples.unused
        kind, are = ("Column", "is") if len(names) == 1 else ("Columns", "are")
        yield (
            f"{kind} {listed(map(repr, names))} of {examples.source} {are} not used: the model was "
            "fitted without."
        )


def _class_remarks(classes: Array, counts: Array, balanced: bool) -> Iterator[str]:
    single = classes[counts == 1]
    if len(single):
        kind = "Class" if len(single) == 1 else "Classes"
        have = "has one example" if len(single) == 1 else "have one example each"
        told = "it is" if len(single) == 1 else "they are"
        yield (
            f"{kind} {listed(map(repr, single.tolist()))} {have}: how well {told} told apart "
            "cannot be tested without more."
        )
    if balanced and counts.max() >= UNEVEN * counts.min():
        yield Advice(
            f"Classes have {counts.min()} to {counts.max()} examples and count alike; if new data "
            "will be as uneven, fit without class weights.",
            "class_weight=none",
        )


def _likely_misspelt(classes: Array) -> Iterator[str]:
    """Find two classes whose names differ only in spaces or in capital letters."""
    seen: dict[str, object] = {}
    for name in classes.tolist():
        plain = " ".join(str(name).split()).casefold()
        if plain in seen:
            yield (
                f"Classes {seen[plain]!r} and {name!r} differ only in spaces or capital letters: "
                "give them one name if they are one class."
            )
        seen[plain] = name


def count_torn(examples: Examples) -> int:
    """Return how many groups of equal rows have different labels."""
    _, low, high = _equal_rows(examples)
    return int((low != high).sum())


def _equal_rows(examples: Examples) -> tuple[Array, Array, Array]:
    """Return the group of each row, and the least and the largest class of each group."""
    which = np.unique(examples.features, axis=0, return_inverse=True)[1].ravel()
    labels = examples.coded_labels()[1]
    low, high = np.full(which.max() + 1, len(labels)), np.full(which.max() + 1, -1)
    np.minimum.at(low, which, labels)
    np.maximum.at(high, which, labels)
    return which, low, high


def _contradictions(examples: Examples, left_out: bool) -> Iterator[str]:
    """Find equal rows: with different labels they contradict, otherwise they are copies."""
    which, low, high = _equal_rows(examples)
    torn = np.flatnonzero(low != high)
    if len(torn):
        labels, rows = examples.given_labels(), np.flatnonzero(which == torn[0])
        first = rows[0]
        other = rows[labels[rows] != labels[first]][0]
        one, another = labels[[first, other]].tolist()
        more = f"; {len(torn) - 1} more such groups" if len(torn) > 1 else ""
        names = examples.row_names()
        yield (
            f"{names[first].capitalize() if examples.ids is None else names[first]} and "
            f"{names[other]} are equal but labelled "
            f"{one!r} and {another!r}{more}: "
            "one of the labels is wrong, or the features do not tell these classes apart."
        )
    copies = int((np.bincount(which)[low == high] - 1).sum())
    if copies and left_out:
        are = "row is a copy of another" if copies == 1 else "rows are copies of others"
        yield (
            f"{copies} {are} with the same label, which count as one when rows are left out: "
            f"remove {'it' if copies == 1 else 'them'}."
        )


def _column_remarks(examples: Examples, standardized: bool, directions: bool) -> Iterator[str]:
    if examples.fingerprint is not None or examples.encoder is not None:
        return  # columns of an embedding are nobody's to mend
    X = examples.features
    names = examples.names or tuple(str(j + 1) for j in range(X.shape[1]))
    spread = X.std(axis=0)
    counting = _counting(X)
    if len(counting):
        is_are = "counts the rows: it is probably an index" if len(counting) == 1 else (
            "count the rows: they are probably indices"
        )  # fmt: skip
        drops = (f"drop={names[j]}" for j in counting[:3])
        yield Advice(f"{_columns(names, counting)} {is_are} and no feature: leave it out.", *drops)
    wide = np.setdiff1d(wide_columns(X), counting)
    if len(wide) and not standardized:
        vary, decide = ("varies", "it decides") if len(wide) == 1 else ("vary", "they decide")
        yield Advice(
            f"{_columns(names, wide)} {vary} so much more than most others that {decide} alone: "
            "bring the columns to one scale.",
            "standardize",
        )
    far = offset_columns(X) if directions and not standardized else counting[:0]
    if len(far):
        are = "is" if len(far) == 1 else "are"
        yield Advice(
            f"{_columns(names, far)} {are} so far from zero that all rows have nearly one "
            "direction, which is all that the cosine head sees: bring the columns to one scale.",
            "standardize",
        )
    constant = np.flatnonzero(spread == 0)
    if len(constant) and X.shape[1] < EMBEDDING:
        have = "has" if len(constant) == 1 else "have"
        yield f"{_columns(names, constant)} {have} the same value in every row, which says nothing."


def columns_differ(examples: Examples) -> bool:
    """Tell whether columns of a table, no embedding, vary so differently that few decide."""
    if examples.encoder is not None or examples.features.shape[1] >= EMBEDDING:
        return False
    return len(wide_columns(examples.features)) > 0


def _counting(X: Array) -> Array:
    """Return the columns that go up by one from row to row, as an index does."""
    if len(X) < 4:
        return np.empty(0, np.int64)
    starts = np.isin(X[0], (0.0, 1.0))
    candidates = np.flatnonzero(starts)
    steps = np.diff(X[:, candidates], axis=0)
    return np.asarray(candidates[(steps == 1).all(axis=0)])


def _columns(names: tuple[str, ...], which: Array) -> str:
    shown = listed((repr(names[j]) for j in which), most=3)
    return f"Column {shown}" if len(which) == 1 else f"Columns {shown}"
