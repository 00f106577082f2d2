"""Which class is base, val or novel: published splits, a file, or a folder of lists."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from firthshot.banks import SPLITS
from firthshot.errors import FirthshotError, refusing

Homes = dict[str, str]  # class -> split

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
