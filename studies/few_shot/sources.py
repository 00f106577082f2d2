"""What the study classifies: banks of features by split, and public tables.

Development sources may be looked at while rules are settled: base and validation classes of the
banks, and the tables of `DEVELOPMENT`. Final sources are for the last table: novel classes, and
the tables again with other seeds. Sources in `KEPT_OUT` had no part in any choice.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import os
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from firthshot.banks import load_bank
from firthshot.errors import FirthshotError

BANKS = (
    "clinc150-minilm",
    "cifarfs-efficientnet-lite0",
    "cifarfs-wrn16-2",
    "cub-resnet10",
    "mini-resnet10",
    "banking77-minilm",
    "emoji-minilm",
    "digits-efficientnet-lite0",
    "hwu64-minilm",
    "omniglot-efficientnet-lite0",
    "ag-news-minilm",
    "trec-minilm",
    "emotion-minilm",
)
DEVELOPMENT = (
    "iris",
    "wine",
    "breast-cancer",
    "digits",
    "glass",
    "biopsy",
    "urine",
    "cars",
    "crabs",
    "synth",
    "skulls",
    "kyphosis",
    "participation",
    "nodal",
    "fishing",
    "pima",
    "soils",
    "mroz",
    "heating",
    "bfi",
    "computers",
)
KEPT_OUT_TABLES = (
    "penguins",
    "birthwt",
    "stagec",
    "veteran",
    "turnout",
    "yogurt",
    "mpg",
)
KEPT_OUT = (
    "hwu64-minilm",
    "omniglot-efficientnet-lite0",
    "ag-news-minilm",
    "trec-minilm",
    "emotion-minilm",
    *KEPT_OUT_TABLES,
)
TABLES = (*DEVELOPMENT, *KEPT_OUT_TABLES)


@dataclass(frozen=True)
class Source:
    """Rows (n, d) in float64 and class numbers (n,), by name."""

    name: str
    table: bool
    X: np.ndarray
    y: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """Rows of every class."""
        return np.bincount(self.y)


@cache
def load(name: str, final: bool) -> Source:
    """Return a source; of a bank the novel classes if ``final``, else the other classes."""
    if name in BANKS:
        bank = load_bank(name)
        splits = ["novel"] if final else ["base", "val"]
        wanted = [k for k, s in enumerate(bank.meta.class_splits) if s in splits]
        labels = np.asarray(bank.labels)
        rows = np.flatnonzero(np.isin(labels, wanted))
        X = np.asarray(bank.features[rows], np.float64)
        return Source(name, False, X, np.searchsorted(wanted, labels[rows]))
    X, labels = LOADERS[name]()
    keep = np.isfinite(X).all(axis=1)
    return Source(name, True, X[keep], np.unique(labels[keep], return_inverse=True)[1])


def _scikit(name: str) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    def read() -> tuple[np.ndarray, np.ndarray]:
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return np.asarray(X, np.float64), np.asarray(y)

    return read


def _pydataset(
    folder: str, name: str, labels: list[str], drop: tuple[str, ...] = ()
) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    """Return a reader of one CSV inside pydataset; every column of numbers is a feature."""

    def read() -> tuple[np.ndarray, np.ndarray]:
        with tarfile.open(_packaged("pydataset", "resources.tar.gz")) as file:
            member = file.extractfile(f"resources/rdata/csv/{folder}/{name}.csv")
            assert member is not None
            return _columns(member.read().decode(), labels, ("", "ID", *drop))

    return read


def _penguins() -> tuple[np.ndarray, np.ndarray]:
    path = _packaged("palmerpenguins", "penguins.csv")
    return _columns(path.read_text(), ["species"], ("rowid", "year"))


def _packaged(package: str, name: str) -> Path:
    """Return a file of a PyPI package, installed or unpacked in FEW_SHOT_PACKAGES."""
    spec = importlib.util.find_spec(package)  # nothing of the package is run
    folders = [Path(one) for one in (spec.submodule_search_locations or [])] if spec else []
    if "FEW_SHOT_PACKAGES" in os.environ:
        folders.append(Path(os.environ["FEW_SHOT_PACKAGES"]))
    found = next((path for folder in folders for path in folder.rglob(name)), None)
    if found is None:
        raise FirthshotError(
            f"{name} of the package {package} is not there: run pip install {package}."
        )
    return found


def _columns(text: str, labels: list[str], drop: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    lines = list(csv.DictReader(io.StringIO(text)))
    classes = np.array(["/".join(line[name] for name in labels) for line in lines])
    names = [name for name in lines[0] if name not in (*labels, *drop)]
    columns = [[_number(line[name]) for line in lines] for name in names]
    numbers = [values for values in columns if np.isfinite(values).mean() > 0.8]
    return np.array(numbers).T, classes


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


LOADERS = {
    "iris": _scikit("iris"),
    "wine": _scikit("wine"),
    "breast-cancer": _scikit("breast_cancer"),
    "digits": _scikit("digits"),
    "glass": _pydataset("MASS", "fgl", ["type"]),
    "biopsy": _pydataset("MASS", "biopsy", ["class"]),
    "urine": _pydataset("boot", "urine", ["r"]),
    "cars": _pydataset("MASS", "Cars93", ["Type"]),
    "crabs": _pydataset("MASS", "crabs", ["sp", "sex"], ("index",)),
    "synth": _pydataset("MASS", "synth.tr", ["yc"]),
    "skulls": _pydataset("HSAUR", "skulls", ["epoch"]),
    "kyphosis": _pydataset("rpart", "kyphosis", ["Kyphosis"]),
    "participation": _pydataset("Ecdat", "Participation", ["lfp"]),
    "nodal": _pydataset("boot", "nodal", ["r"], ("m",)),
    "fishing": _pydataset("Ecdat", "Fishing", ["mode"]),
    "stagec": _pydataset("rpart", "stagec", ["pgstat"], ("pgtime",)),
    "pima": _pydataset("MASS", "Pima.te", ["type"]),
    "penguins": _penguins,
    "veteran": _pydataset("survival", "veteran", ["celltype"]),
    "turnout": _pydataset("Zelig", "turnout", ["vote"]),
    "yogurt": _pydataset("Ecdat", "Yogurt", ["choice"], ("id",)),
    "soils": _pydataset("car", "Soils", ["Depth"], ("Group", "Block")),
    "mroz": _pydataset("Ecdat", "Mroz", ["work"], ("hoursw", "hearnw", "wagew")),
    "heating": _pydataset("Ecdat", "Heating", ["depvar"], ("idcase",)),
    "bfi": _pydataset("psych", "bfi", ["gender"]),
    "computers": _pydataset("Ecdat", "Computers", ["premium"]),
    "mpg": _pydataset("ggplot2", "mpg", ["drv"]),
    "birthwt": _pydataset("MASS", "birthwt", ["low"], ("bwt",)),
}
