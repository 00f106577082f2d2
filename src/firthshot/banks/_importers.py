"""From other people's files to a bank, and from a bank to npz."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from firthshot.banks._bank import Bank, dealt
from firthshot.banks._file import save_bank
from firthshot.banks._meta import SPLITS, encode_meta
from firthshot.banks._sources import Source, naming_errors, read_source, read_table
from firthshot.errors import BankError, refusing
from firthshot.files import replacing
from firthshot.tables import TABLES


def import_bank(
    out: str | Path,
    files: Mapping[str, str | Path],
    *,
    label: str = "label",
    dtype: DTypeLike | None = None,
    **fields: Any,
) -> Bank:
    """Make one bank of several files, one per split.

    Parameters
    ----------
    out : path
        The bank file to write.
    files : mapping of split to path
        Keys are "base", "val", "novel". Kinds by ending: .npz (``X``, ``y``, perhaps
        ``classes``), ``features.npy,labels.npy``, .csv, .tsv, .parquet, .h5 and .hdf5 (S2M2
        layout), .pt and .pth (pair of tensors), .pkl, .plk and .pickle (class -> vectors).
    label : str
        The label column of tables.
    dtype : {"float16", "float32"}, optional
        Default: float16 when every file is float16, else float32.
    **fields
        Words for `BankMeta`: name, dataset, backbone, extraction, licence, provenance, notes.

    Notes
    -----
    Rows keep their order inside a file; splits follow one another as base, val, novel. Classes
    that a file only numbers are named after their split, "val-3", since number 3 of one file
    need not be number 3 of another. The same class *name* in two splits is refused.
    """
    unknown = [split for split in files if split not in SPLITS]
    if unknown or not files:
        fault = (
            f"Unknown split {unknown[0]!r}: use" if unknown else "There is nothing to import: give"
        )
        raise BankError(f"{fault} base, val, novel, each with its file.")
    _refuse_own_input(out, files.values())
    sources = {str(s): read_source(str(files[s]), label) for s in SPLITS if s in files}
    names: list[tuple[str, str]] = []
    owners = []
    for split, source in sources.items():
        own, index = _name_classes(source, split)
        owners.append(index + len(names))
        names += [(name, split) for name in own]
    widths = {split: source.features.shape[1] for split, source in sources.items()}
    if len(set(widths.values())) > 1:
        words = ", ".join(f"{split} {width}" for split, width in widths.items())
        raise BankError(f"The files differ in the number of dimensions ({words}).")
    X = np.concatenate([source.features for source in sources.values()])
    return _save(out, files.values(), X, np.concatenate(owners), names, dtype=dtype, **fields)


def import_whole(
    out: str | Path,
    path: str | Path,
    *,
    label: str = "label",
    split: str = "split",
    dtype: DTypeLike | None = None,
    **fields: Any,
) -> Bank:
    """Make a bank of one file that knows its splits.

    The file is a table (.csv, .tsv, .parquet) with a label and a split column, or an .npz with
    ``X``, ``y``, ``classes`` and ``class_splits`` as `export_npz` writes it. Other parameters are
    those of `import_bank`.
    """
    path = Path(path)
    _refuse_own_input(out, [path])
    is_table = path.suffix.lower() in TABLES
    found = _whole_table(path, label, split) if is_table else _whole_npz(path)
    return _save(out, [path], *found, dtype=dtype, **fields)


def import_dealt(
    out: str | Path,
    path: str | Path,
    *,
    label: str = "label",
    val_classes: float = 0.5,
    seed: int = 0,
    dtype: DTypeLike | None = None,
    **fields: Any,
) -> Bank:
    """Make a bank of one file without splits: a share of its classes becomes val, the rest novel.

    The share ``val_classes`` is drawn by ``seed`` from the classes in the order of their names, so
    that the same file gives the same bank. Splits that the file has are ignored. Other parameters
    are those of `import_bank`.
    """
    _refuse_own_input(out, [path])
    source = read_source(str(path), label)
    names, owners = _name_classes(source, "class")
    if len(names) < 4:
        raise BankError(f"{path} has {len(names)} classes; 4 or more can be dealt to two splits.")
    val = dealt(sorted(names), val_classes, seed)
    pairs = [(name, "val" if name in val else "novel") for name in names]
    return _save(out, [path], source.features, owners, pairs, dtype=dtype, **fields)


def export_npz(bank: Bank, path: str | Path, split: str | None = None) -> None:
    """Write a bank, or one split of it, as npz.

    The arrays are ``X``, ``y``, ``classes``, ``class_splits`` and ``meta``: ``y`` indexes
    ``classes``, ``meta`` is the JSON text of the whole bank's metadata.
    """
    kept = np.array([split in (None, own) for own in bank.meta.class_splits])
    rows = np.arange(len(bank.labels)) if split is None else bank.rows(split)
    renumbered = np.cumsum(kept) - 1
    arrays = {
        "X": bank.features[rows],
        "y": renumbered[bank.labels[rows]],
        "classes": np.array(bank.meta.classes)[kept],
        "class_splits": np.array(bank.meta.class_splits)[kept],
        "meta": np.array(encode_meta(bank.meta)),
    }
    unwritable = refusing(f"{path} cannot be written", OSError, BankError)
    with unwritable, replacing(Path(path)) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)


def _refuse_own_input(out: str | Path, files: Iterable[str | Path]) -> None:
    """Refuse to write the bank over a file that it is made of."""
    for file in files:
        if Path(out).resolve() in [Path(half).resolve() for half in (file, *str(file).split(","))]:
            raise BankError(f"{out} is one of the files to import: write the bank elsewhere.")


def _whole_table(
    path: Path, label: str, split: str
) -> tuple[np.ndarray, np.ndarray, list[tuple[str, str]]]:
    with naming_errors(path):
        X, owners, splits = read_table(path, label, split)
        assert splits is not None  # a split column was asked for
        rows = list(zip(owners.astype(str).tolist(), splits.tolist(), strict=True))
        pairs = sorted(set(rows), key=_by_split)
    index = {pair: position for position, pair in enumerate(pairs)}
    return X, np.array([index[row] for row in rows]), pairs


def _whole_npz(path: Path) -> tuple[np.ndarray, np.ndarray, list[tuple[str, str]]]:
    source = read_source(str(path))
    names, splits = source.names or (), source.class_splits or ()
    if not names or len(names) != len(splits):
        raise BankError(
            f"{path} does not say which class is in which split ({len(names)} classes, "
            f"{len(splits)} class_splits): import one file per split, or have a share of "
            "the classes drawn for val.",
            "split=SPLIT=FILE",
            "val-classes=0.5",
        )
    return source.features, source.owners, list(zip(names, splits, strict=True))


def _name_classes(source: Source, split: str) -> tuple[list[str], np.ndarray]:
    """Return the split's class names and each row's index into them."""
    if source.names is not None:
        return list(source.names), source.owners.astype(np.int64)
    values, index = np.unique(source.owners, return_inverse=True)
    numbered = values.dtype.kind in "iu"
    return [f"{split}-{v}" if numbered else str(v) for v in values], index


def _save(
    out: str | Path,
    files: Iterable[str | Path],
    X: np.ndarray,
    y: np.ndarray,
    pairs: list[tuple[str, str]],
    **fields: Any,
) -> Bank:
    """Write the bank of these classes, each with its split; refuse a class in two splits."""
    home: dict[str, str] = {}
    for name, split in pairs:
        if home.setdefault(name, split) != split:
            raise BankError(
                f"Class {name!r} is in split {home[name]!r} and in split {split!r}: "
                "give it to one of them."
            )
    provenance = "imported from " + ", ".join(Path(str(file)).name for file in files)
    classes, splits = [name for name, _ in pairs], [split for _, split in pairs]
    fields = {"provenance": provenance, "classes": classes, "class_splits": splits, **fields}
    return save_bank(out, X, y, **fields)


def _by_split(pair: tuple[str, str]) -> tuple[int, str]:
    name, split = pair
    if split not in SPLITS:
        raise BankError(f"Class {name!r} is in split {split!r}: use base, val, novel.")
    return [*SPLITS].index(split), name
