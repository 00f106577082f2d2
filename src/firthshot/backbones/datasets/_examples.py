"""A labelled collection in an order that no file system can change, and which class is where.

Classes are base, val or novel by a published split, a file, or a folder of lists.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from firthshot.banks import SPLITS
from firthshot.errors import FirthshotError, refusing

Homes = dict[str, str]  # class -> split
Kind = Literal["image", "text"]
_ORDER = {str(split): place for place, split in enumerate(SPLITS)}

# What people call the splits, in file names, folders and JSON keys.
_CALLED = {
    "base": "base train meta-train meta_train",
    "val": "val valid validation meta-val meta_val",
    "novel": "novel test meta-test meta_test",
}
SPLIT_OF = {word: split for split, words in _CALLED.items() for word in words.split()}
TITLES = {
    "mini-imagenet": "mini-ImageNet",
    "cifar-fs": "CIFAR-FS",
    "cub": "CUB-200-2011",
    "tiered-imagenet": "tiered-ImageNet",
}


class Example(NamedTuple):
    """One picture or text: its class, its name there, and the part of the source it is in.

    ``split`` is that of the class, where the source says it.
    """

    owner: str
    name: str
    content: Any
    part: str = ""
    split: str = ""

    @property
    def place(self) -> str:
        """Where it is, in one line."""
        return "/".join(word for word in (self.part, self.owner, self.name) if word)


@dataclass(frozen=True)
class Found:
    """What a reader found: examples in any order, and in words how the source was read."""

    examples: list[Example]
    layout: str
    kind: Kind = "image"

    def homes(self) -> Homes:
        """Return the split of each class; empty where the source says none."""
        homes: Homes = {}
        for one in self.examples:
            if one.split and homes.setdefault(one.owner, one.split) != one.split:
                raise FirthshotError(
                    f"{one.place} is of class {one.owner!r} in {homes[one.owner]} and in "
                    f"{one.split}: a class belongs to one split."
                )
        return homes


@dataclass(frozen=True)
class Dataset:
    """Examples sorted by split (base, val, novel), class and name."""

    name: str  # what it is: a published data set, or the name of the source
    kind: Kind  # image, text: what the examples are
    contents: list[Any]  # pictures (path, bytes or pixels) or texts
    names: list[str]  # one per example, for messages and identity
    labels: np.ndarray  # (n,): index of each example's class in ``classes``
    classes: list[str]  # class names, by split, then by name
    class_splits: list[str]  # the split of each class
    notes: dict[str, str] = field(default_factory=dict)  # how it was read and by which split

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, split: str) -> np.ndarray:
        """Return the rows of a split, ascending."""
        own = np.array([home == split for home in self.class_splits])
        return np.flatnonzero(own[self.labels])

    def first_rows(self, per_class: dict[str, int]) -> np.ndarray:
        """Return the first rows of each class, as many as its split is allowed; 0 or more."""
        places = np.empty(len(self), np.int64)
        for label in range(len(self.classes)):
            own = np.flatnonzero(self.labels == label)
            places[own] = np.arange(len(own))
        limits = np.array([per_class.get(home, len(self)) for home in self.class_splits])
        return np.flatnonzero(places < limits[self.labels])


def arrange(found: Found, homes: Homes, name: str, notes: dict[str, str]) -> Dataset:
    """Sort what was found; classes to which ``homes`` gives no split are left out."""
    owners = {example.owner for example in found.examples}
    missing = sorted(set(homes) - owners)
    if missing:
        raise FirthshotError(
            f"The class split names {missing[0]!r} ({len(missing)} such classes), of which "
            f"{name} has no examples: correct the split or the source."
        )
    classes = sorted(homes, key=lambda own: (_ORDER[homes[own]], own))
    left_out = sorted(owners - set(homes))
    if left_out:
        notes = {**notes, "classes left out": f"{len(left_out)} that the split does not name"}
    index = {own: label for label, own in enumerate(classes)}
    kept = [example for example in found.examples if example.owner in index]
    kept.sort(key=lambda example: (index[example.owner], example.name, example.part))
    return Dataset(
        name=name,
        kind=found.kind,
        contents=[example.content for example in kept],
        names=[example.place for example in kept],
        labels=np.array([index[example.owner] for example in kept], np.int64),
        classes=classes,
        class_splits=[homes[own] for own in classes],
        notes=notes,
    )


@cache
def published() -> dict[str, dict[str, Any]]:
    """Return the published class splits that the package carries, by data set."""
    text = Path(__file__).with_name("class_splits.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def published_homes(dataset: str) -> Homes:
    """Return the published split of each class of a data set."""
    if dataset not in published():
        raise FirthshotError(
            f"No class split of {dataset!r} is known: known are {', '.join(published())}; "
            "give a split of your own.",
            "split_file",
        )
    return _homes(published()[dataset], f"the split of {dataset}")


def recognise(classes: Collection[str]) -> str | None:
    """Return the data set that has exactly these classes, if it is one that we know."""
    return next((name for name in published() if set(published_homes(name)) == set(classes)), None)


def read_homes(path: Path) -> Homes:
    """Read a class split.

    A JSON object with lists of classes under base, val and novel (or train, val and test; other
    keys are left alone), or a folder with ``train.txt``, ``val.txt``, ``test.txt`` (a class per
    line) or ``train.csv`` and so on (a column ``label``).
    """
    if path.is_dir():
        return _homes(_read_lists(path), str(path))
    with refusing(f"The split file {path} cannot be read", OSError):
        text = path.read_text(encoding="utf-8")
    with refusing(f"The split file {path} is not valid JSON", ValueError):
        content = json.loads(text)
    if not isinstance(content, dict):
        raise FirthshotError(f"The split file {path} does not hold lists under base, val, novel.")
    return _homes(content, str(path))


def _homes(content: Mapping[str, Any], called: str) -> Homes:
    homes: Homes = {}
    for key, names in content.items():
        split = SPLIT_OF.get(key)
        if split is None:
            continue
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise FirthshotError(f"{called} does not list class names under {key!r}.")
        for name in names:
            if homes.setdefault(name, split) != split:
                raise FirthshotError(
                    f"{called} puts class {name!r} into {homes[name]} and into {split}: "
                    "give it to one of them."
                )
    if not homes:
        raise FirthshotError(f"{called} names no classes under base, val or novel.")
    return homes


def _read_lists(folder: Path) -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {}
    for path in sorted(folder.iterdir()):
        if path.stem not in SPLIT_OF or path.suffix not in (".txt", ".csv"):
            continue
        if path.suffix == ".csv":
            from firthshot.backbones.datasets._readers import read_rows

            names = [label for _, label in read_rows(path)]
        else:
            names = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        lists[path.stem] = sorted({name for name in names if name})
    if not lists:
        raise FirthshotError(f"{folder} holds no train.txt, val.txt, test.txt, nor .csv of these.")
    return lists


def split_counts(homes: Homes) -> str:
    """Return for instance ``64 base, 16 val, 20 novel``."""
    counts = {split: list(homes.values()).count(split) for split in SPLITS}
    return ", ".join(f"{count} {split}" for split, count in counts.items() if count)
