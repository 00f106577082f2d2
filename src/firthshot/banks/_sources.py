"""Readers of other people's feature files: each returns the rows and the class of each row.

A reader may raise anything; `read_source` turns it into one sentence that names the file.
"""

from __future__ import annotations

import math
import pickle
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from firthshot.banks._pickle import read_pickled_classes
from firthshot.errors import BankError, FirthshotError, MissingExtraError, reason
from firthshot.guard import load_tensors, read_tried, refuse_bomb, refuse_zip_bomb
from firthshot.tables import (
    TABLES,
    are_fractional,
    class_labels,
    header_fault,
    load_table,
    polars_errors,
    why_unreadable,
)

if TYPE_CHECKING:
    import polars as pl


_HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_WRITTEN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy packs with


@dataclass(frozen=True)
class Source:
    """Hold what a file says about one split."""

    features: np.ndarray  # (n, d): the rows in file order
    owners: np.ndarray  # (n,): the class of each row: whole numbers or text
    # when given, ``owners`` are indices into these class names
    names: tuple[str, ...] | None = None
    # when given, the split of each name: the file is a whole bank
    class_splits: tuple[str, ...] | None = None


def read_source(text: str, label: str = "label") -> Source:
    """Read one feature file, or ``features.npy,labels.npy``; the ending says which kind it is."""
    if text.endswith(".npy"):
        return read_npy_pair(text)
    path = Path(text)
    kind = path.suffix.lower()
    if kind not in READERS and kind not in TABLES:
        known = ", ".join((".npy", *READERS, *TABLES))
        raise BankError(f"{path} has the ending {path.suffix!r}: known are {known}.")
    with naming_errors(path):
        if kind in TABLES:
            features, owners, _ = read_table(path, label)
            return _checked(Source(features, owners))
        return _checked(READERS[kind](path))


@contextmanager
def naming_errors(path: Path) -> Iterator[None]:
    """Turn whatever a reader raises into one `BankError` that names the file."""
    if not path.is_file():
        raise BankError(f"There is no file {path}: check the path.")
    try:
        yield
    except MissingExtraError:
        raise
    except FirthshotError as error:
        raise BankError(f"{path} cannot be imported: {str(error).rstrip('.')}.") from None
    except Exception as error:  # noqa: BLE001 - foreign readers raise anything on a bad file
        raise BankError(
            f"{path} cannot be read, it is damaged or foreign: {reason(error)}."
        ) from None


def _checked(source: Source) -> Source:
    X, y = source.features, source.owners
    if X.size == 0 or y.size == 0:
        raise BankError(
            f"it is empty: features of shape {X.shape}, labels of shape {y.shape}; at least one "
            "row is needed"
        )
    if X.ndim > 2:
        raise BankError(
            f"features have the shape {X.shape}, but must be rows × dimensions: flatten or pool "
            "them"
        )
    if X.ndim != 2 or y.ndim != 1 or len(X) != len(y):
        raise BankError(f"features of shape {X.shape} and labels of shape {y.shape} do not fit")
    if y.dtype.kind not in "iuU":
        raise BankError(f"labels have dtype {y.dtype}; whole numbers or text are needed")
    if source.names is not None and (
        y.dtype.kind == "U" or y.min() < 0 or y.max() >= len(source.names)
    ):
        raise BankError(f"labels are not indices into its {len(source.names)} classes")
    return source


def read_npy_pair(text: str) -> Source:
    """Read ``features.npy,labels.npy``."""
    halves = text.split(",")
    if len(halves) != 2:
        raise BankError(f"{text} holds no labels: give features.npy,labels.npy.")
    arrays = []
    for half in halves:
        with naming_errors(Path(half)):
            arrays.append(read_npy(Path(half)))
    with naming_errors(Path(halves[0])):
        features, owners = arrays
        return _checked(Source(features, owners))


def read_npy(path: Path) -> np.ndarray:
    """Read an array of plain numbers or text from a .npy file."""
    with path.open("rb") as file:
        return _read_array(file, path.stat().st_size)


def read_npz(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Read those of the named arrays that a .npz file has."""
    refuse_zip_bomb(path)
    if not zipfile.is_zipfile(path):
        raise BankError("it is no NumPy file of several arrays")
    found = {}
    with zipfile.ZipFile(path) as archive:
        members = {one.filename.removesuffix(".npy"): one for one in archive.infolist()}
        for name in names:
            if name not in members:
                continue
            if members[name].compress_type not in _WRITTEN:
                raise BankError(f"array {name!r} is packed in a way that NumPy does not use")
            with archive.open(members[name]) as file:
                found[name] = _read_array(file, members[name].file_size)  # type: ignore[arg-type]
    return found


def _read_array(file: BinaryIO, size: int) -> np.ndarray:
    """Read an array whose declared shape its bytes can fill; NumPy reserves the memory first."""
    try:
        version = np.lib.format.read_magic(file)
    except ValueError:
        raise BankError("it is no NumPy file") from None
    if version not in _HEADERS:
        raise BankError("it holds an array of a format that plain numbers do not need")
    shape, _, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise BankError("it holds Python objects instead of plain arrays")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size - file.tell():
        raise BankError(f"it declares an array of shape {shape}, for which it is too short")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


def _read_npz(path: Path) -> Source:
    found = read_npz(path, ("X", "y", "classes", "class_splits"))
    missing = [key for key in ("X", "y") if key not in found]
    if missing:
        raise BankError(f"it lacks array {missing[0]!r}; X and y are needed, classes welcome")
    names = tuple(map(str, found["classes"])) if "classes" in found else None
    splits = tuple(map(str, found["class_splits"])) if "class_splits" in found else None
    return Source(found["X"], found["y"], names, splits)


def _read_hdf5(path: Path) -> Source:
    """Read the S2M2 layout once a child process has: a damaged file may end its process."""
    try:
        import h5py  # noqa: F401
    except ImportError:
        raise MissingExtraError(f"Reading {path}", "hdf5") from None
    return read_tried(read_s2m2, path)


def read_s2m2(path: Path) -> Source:
    """Read ``all_feats``, ``all_labels`` and ``count`` without the zero tail."""
    import h5py

    with h5py.File(path, "r") as file:
        for key in ("all_feats", "all_labels"):
            link = file.get(key, getlink=True)
            if not isinstance(link, h5py.HardLink) or not isinstance(file[key], h5py.Dataset):
                raise BankError(f"it lacks the data set {key!r} of the S2M2 layout")
        declared = file["all_feats"].nbytes + file["all_labels"].nbytes
        refuse_bomb(declared, path.stat().st_size)
        features, owners = file["all_feats"][...], file["all_labels"][...]
        count = int(file["count"][(0,) * file["count"].ndim]) if "count" in file else len(features)
    if not 0 < count <= len(features):
        raise BankError(f"its count is {count} but it has {len(features)} rows")
    filled = np.flatnonzero(features[:count].any(axis=1))
    if not len(filled):
        raise BankError("all its rows are zeros")
    return Source(features[: filled[-1] + 1], owners[: filled[-1] + 1])


def _read_torch(path: Path) -> Source:
    """Read the authors' layout: a tuple of features and labels, tensors only."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError(f"Reading {path}", "torch") from None
    try:
        content: Any = load_tensors(path)
    except pickle.UnpicklingError:
        raise BankError(
            "it is damaged or holds more than tensors; save it as (features, labels)"
        ) from None
    if not isinstance(content, tuple | list) or len(content) != 2:
        raise BankError("it does not hold a pair of features and labels")
    if not all(isinstance(part, torch.Tensor) for part in content):
        raise BankError("its features or labels are not tensors")
    features, owners = (part.detach() for part in content)
    refuse_bomb(features.nbytes + owners.nbytes, path.stat().st_size)  # one number may fill them
    if features.dtype == torch.bfloat16:
        features = features.float()
    return Source(features.numpy(), owners.numpy())


def _read_pickle(path: Path) -> Source:
    features, owners = read_pickled_classes(path)
    kinds = {type(owner) for owner in owners}
    if len(kinds) != 1:
        raise BankError("some classes are numbers and some are names")
    return Source(features, np.array(owners))


READERS: dict[str, Callable[[Path], Source]] = {
    ".npz": _read_npz,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
    ".pt": _read_torch,
    ".pth": _read_torch,
    ".pkl": _read_pickle,
    ".plk": _read_pickle,
    ".pickle": _read_pickle,
}


def read_table(
    path: Path, label: str, split: str | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Read a table; every column but the label and the split is a feature.

    Features are numeric columns in table order, or one column of equally long lists. Returned are
    these (n, d), the owners (n,) as whole numbers or text (`firthshot.tables.class_labels`), and
    the splits (n,), None where no column is asked for.
    """
    table = _load(path, [label] if split is None else [label, split])
    for column in (label, split):
        if column is not None and column not in table.columns:
            raise BankError(
                f"it has no column {column!r}; its columns begin with "
                f"{', '.join(table.columns[:4])}"
            )
    empty = [column for column in table.columns if table[column].null_count()]
    if empty or not table.height:
        raise BankError(
            f"column {empty[0]!r} has empty cells" if empty else "the table has no rows"
        )
    splits = None if split is None else np.array(table[split].to_list(), dtype=str)
    owners = _owners(table[label])
    return _features(table.drop([label] + ([split] if split else []))), owners, splits


def _load(path: Path, texts: list[str]) -> pl.DataFrame:
    """Read a table; what is wrong with it is said without the name of the file."""
    if (fault := header_fault(path)) is not None:
        raise BankError(f"it {fault}")
    try:
        return load_table(path, texts)
    except polars_errors() as error:
        raise BankError(why_unreadable(error)) from None


def _owners(column: pl.Series) -> np.ndarray:
    texts = [str(value) for value in column.to_list()]
    if are_fractional(texts):
        raise BankError(f"labels in column {column.name!r} are fractional numbers")
    return class_labels(texts)


def _features(table: pl.DataFrame) -> np.ndarray:
    import polars as pl

    if not table.width:
        raise BankError("it has no feature columns")
    first = table.to_series(0)
    if table.width == 1 and isinstance(first.dtype, pl.List | pl.Array):
        rows = first.to_list()
        if len({len(row) for row in rows}) != 1 or any(None in row for row in rows):
            raise BankError(f"the lists in column {first.name!r} differ in length or have gaps")
        kind = first.dtype.inner
        return np.array(rows, np.float32 if kind == pl.Float32 else np.float64)
    words = [name for name, kind in table.schema.items() if not kind.is_numeric()]
    if words:
        raise BankError(f"column {words[0]!r} is not numeric; remove it or name it as the label")
    return table.to_numpy()
