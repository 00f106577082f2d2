"""The bank in memory: features, labels and what they mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from firthshot.banks._meta import SPLITS, BankMeta, Split, build_meta, digest
from firthshot.errors import BankError

DEALT = "dealt"  # the note of a bank whose novel classes were divided, in words


@dataclass(frozen=True, eq=False, repr=False)
class Bank:
    """Hold the features of all splits of a data set; nothing in it can be changed.

    Made by `load_bank`, `save_bank` or `make_bank`, which check what they are given.

    Attributes
    ----------
    path : Path or None
        The file, or None for a bank that lives in memory only.
    meta : BankMeta
        What the bank says about itself.
    features : ndarray, shape (n, d), float16 or float32
        Memory-mapped and read-only when the bank comes from a file.
    labels : ndarray, shape (n,), integer
        Index of each row's class in ``meta.classes``.
    """

    path: Path | None
    meta: BankMeta
    features: np.ndarray
    labels: np.ndarray

    def __repr__(self) -> str:
        n, d = self.features.shape
        return f"<Bank {self.name!r}: {n} x {d} {self.features.dtype}, {', '.join(self.splits)}>"

    @property
    def name(self) -> str:
        """Name of the bank."""
        return self.meta.name

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits present, in the order base, val, novel."""
        return tuple(split for split in SPLITS if split in self.meta.class_splits)

    def classes(self, split: str) -> tuple[str, ...]:
        """Return the names of the split's classes, in the order of ``meta.classes``."""
        return tuple(self.meta.classes[index] for index in self._class_indices(split))

    def class_rows(self, split: str) -> list[np.ndarray]:
        """Return, per class of the split, its rows in `features`, ascending.

        The index arrays are cached and read-only.
        """
        return [self._rows_by_class[index] for index in self._class_indices(split)]

    def rows(self, split: str, class_name: str | None = None) -> np.ndarray:
        """Return the rows of a split, or of one class of it, ascending."""
        if class_name is not None:
            return self.class_rows(split)[self._position(split, class_name)]
        wanted = np.zeros(len(self.meta.classes), bool)
        wanted[self._class_indices(split)] = True
        return np.flatnonzero(wanted[self.labels])

    def select(self, split: str, class_name: str | None = None) -> np.ndarray:
        """Return the features of a split, or of one class of it.

        Rows that stand together in the file come as a view (nothing is read or copied); others
        are gathered into a new array.
        """
        rows = self.rows(split, class_name)
        together = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
        chosen = slice(int(rows[0]), int(rows[-1]) + 1) if together else rows
        return np.asarray(self.features[chosen])

    def verify(self) -> None:
        """Recompute the sha256; raise `BankError` when it differs from the one on record."""
        found = digest(self.features, self.labels, self.meta)
        if found != self.meta.sha256:
            raise BankError(
                f"Bank {self.name!r} ({self.path or 'in memory'}) does not match its sha256 "
                f"(recorded {self.meta.sha256[:12]}…, found {found[:12]}…): fetch it again."
            )

    def _class_indices(self, split: str) -> list[int]:
        indices = [i for i, own in enumerate(self.meta.class_splits) if own == split]
        if not indices:
            raise BankError(
                f"Bank {self.name!r} has no split {split!r}: it has {', '.join(self.splits)}."
            )
        return indices

    def _position(self, split: str, class_name: str) -> int:
        names = self.classes(split)
        if class_name not in names:
            raise BankError(
                f"Split {split!r} of bank {self.name!r} has no class {class_name!r}: "
                f"its {len(names)} classes begin with {', '.join(names[:3])}."
            )
        return names.index(class_name)

    @cached_property
    def _rows_by_class(self) -> list[np.ndarray]:
        order = np.argsort(self.labels, kind="stable")
        order.flags.writeable = False
        ends = np.cumsum(np.bincount(self.labels, minlength=len(self.meta.classes)))
        return np.split(order, ends[:-1])


def make_bank(
    features: ArrayLike,
    labels: ArrayLike,
    meta: BankMeta | None = None,
    *,
    dtype: DTypeLike | None = None,
    **fields: Any,
) -> Bank:
    """Return a bank in memory, its digest computed.

    Parameters
    ----------
    features : array-like, shape (n, d)
        Kept in the order given. float16 stays float16, other numbers become float32.
    labels : array-like of int, shape (n,)
        Index of each row's class in ``classes``.
    meta : BankMeta, optional
        The description; or give its fields as keywords.
    dtype : {"float16", "float32"}, optional
        Store in this precision. A finite value that would become infinite is refused.
    **fields
        Fields of `BankMeta`. Unless given, classes are named by their numbers, all classes are
        novel, and the name is "bank".

    Raises
    ------
    BankError
        When arrays and description do not fit together, or a value is not finite.
    """
    bank = build_bank(features, labels, meta, dtype=dtype, **fields)
    broken = ~np.isfinite(bank.features).all(axis=1)
    if broken.any():
        raise BankError(
            f"Row {int(broken.argmax())} of the features has a value that is not finite "
            f"({int(broken.sum())} such rows): leave them out, or fill them in."
        )
    return bank


def build_bank(
    features: ArrayLike,
    labels: ArrayLike,
    meta: BankMeta | None = None,
    *,
    dtype: DTypeLike | None = None,
    **fields: Any,
) -> Bank:
    """Return the bank of `make_bank`, also of rows that are not finite: the doctor names them."""
    if meta is not None and fields:
        raise BankError(f"Give either meta or its fields, not both ({', '.join(fields)}).")
    X, y = _checked_features(features, dtype), _checked_labels(labels)
    meta = build_meta(_with_usual(fields, y)) if meta is None else meta
    meta.check()
    check_arrays(X, y, meta)
    X.flags.writeable = y.flags.writeable = False
    return Bank(None, msgspec.structs.replace(meta, sha256=digest(X, y, meta)), X, y)


def _with_usual(fields: dict[str, Any], labels: np.ndarray) -> dict[str, Any]:
    """Return the fields of a description with those that everybody would give."""
    names = tuple(map(str, range(int(labels.max(initial=-1)) + 1)))
    found = {"name": "bank", "classes": names} | fields
    return {"class_splits": ("novel",) * len(found["classes"])} | found


def check_arrays(features: np.ndarray, labels: np.ndarray, meta: BankMeta) -> None:
    """Raise `BankError` unless there are rows, one label each, and a class for every label."""
    if features.ndim != 2 or labels.ndim != 1 or 0 in features.shape:
        raise BankError(
            f"Bank {meta.name!r} has features of shape {features.shape} and labels of shape "
            f"{labels.shape}: (n, d) and (n,) with n and d at least 1 are needed."
        )
    if len(features) != len(labels):
        raise BankError(
            f"Bank {meta.name!r} has {len(features)} rows of features but {len(labels)} labels."
        )
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= len(meta.classes):
        raise BankError(
            f"Bank {meta.name!r} has label {low if low < 0 else high}: labels must lie between "
            f"0 and {len(meta.classes) - 1}, one per class named."
        )


def _checked_features(features: ArrayLike, dtype: DTypeLike | None) -> np.ndarray:
    given = np.asarray(features)
    if given.dtype.kind not in "fiu":
        raise BankError(f"Features must be real numbers; they have dtype {given.dtype}.")
    target = np.dtype(dtype or (np.float16 if given.dtype == np.float16 else np.float32))
    if target not in (np.dtype(np.float16), np.dtype(np.float32)):
        raise BankError(f"A bank stores float16 or float32, not {target}.")
    with np.errstate(over="ignore"):
        stored = np.array(given, dtype=target, order="C")
    overflow = np.isinf(stored) & np.isfinite(given)
    if overflow.any():
        raise BankError(
            f"Value {given[overflow][0]:g} does not fit into {target} (largest "
            f"{np.finfo(target).max:g}): store float32 or scale the features."
        )
    return stored


def _checked_labels(labels: ArrayLike) -> np.ndarray:
    given = np.asarray(labels)
    if given.dtype.kind not in "iu":
        raise BankError(f"Labels must be whole numbers; they have dtype {given.dtype}.")
    if given.size and (given.min() < 0 or given.max() >= 2**31):
        bad = given.min() if given.min() < 0 else given.max()
        raise BankError(f"Label {bad} lies outside 0 … 2147483647: number the classes from 0.")
    return given.astype(np.int32)


def dealt(names: list[str], share: float, seed: int) -> set[str]:
    """Return the classes of val: so large a share of them, drawn by a seed."""
    if not 0 < share < 1:
        raise BankError(f"val_classes = {share} must be a share between 0 and 1.", "val-classes")
    count = min(max(2, round(share * len(names))), len(names) - 2)
    drawn = np.random.default_rng(seed).permutation(len(names))[:count]
    return {names[at] for at in drawn}


def halve_novel(bank: Bank) -> Bank:
    """Return the bank with half of its novel classes, drawn by seed 0, as validation classes.

    Features and file are the same; digest and notes are those of the division.
    """
    novel = bank.classes("novel")
    val = dealt(sorted(novel), 0.5, 0)
    pairs = zip(bank.meta.classes, bank.meta.class_splits, strict=True)
    splits = ["val" if own == "novel" and name in val else own for name, own in pairs]
    words = (
        f"λ is chosen on {len(val)} of its {len(novel)} novel classes, drawn by seed 0, and "
        f"tested on the other {len(novel) - len(val)}"
    )
    notes = bank.meta.notes | {DEALT: words}
    meta = msgspec.structs.replace(bank.meta, class_splits=splits, notes=notes)
    sha256 = digest(bank.features, bank.labels, meta)
    return replace(bank, meta=msgspec.structs.replace(meta, sha256=sha256))
