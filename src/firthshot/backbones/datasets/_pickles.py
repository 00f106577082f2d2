"""The public cache pickles of mini-ImageNet, tiered-ImageNet, CIFAR-FS and CIFAR-100.

They are read through the restricted unpickler of `firthshot.banks`: arrays, bytes and builtin
containers, nothing that runs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from firthshot.backbones.datasets._examples import SPLIT_OF, Example, Found
from firthshot.banks import read_data_pickle
from firthshot.errors import FirthshotError, refusing

_CIFAR100 = "the python version of CIFAR-100, train and test together"
_STRANGE = "is not a cache that firthshot knows"  # any object may be in any place of a pickle
ENDINGS = (".pkl", ".pickle")
_WORD = re.compile(r"(?<![a-z])(train|val|test)(?![a-z])", re.IGNORECASE)


def pickles_in(folder: Path) -> list[Path]:
    """Return the pickles of a folder from which pictures can be read."""
    if is_cifar100(folder):
        return [folder / "train", folder / "test"]
    listed = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in ENDINGS]
    split = [path for path in listed if _WORD.search(path.stem)]  # others are nobody's pictures
    named = [path for path in split if not path.stem.endswith("_labels")]
    # One part of the base classes at a time is published for training, a second for testing.
    return [path for path in named if not re.search(r"phase_(val|test)", path.stem)]


def is_cifar100(folder: Path) -> bool:
    """Tell whether a folder is the python version of CIFAR-100."""
    return all((folder / name).is_file() for name in ("train", "test", "meta"))


def read_pickles(paths: list[Path]) -> Found:
    """Read cache pickles; the word train, val or test in a file's name is its split."""
    if is_cifar100(folder := paths[0].parent):
        with refusing(f"{folder} {_STRANGE}"):
            return Found(_cifar100_examples(folder), _CIFAR100)
    examples: list[Example] = []
    for path in paths:
        split = _split(path)
        with refusing(f"{path} {_STRANGE}"):
            examples += [one._replace(split=split) for one in _known_cache(path, split)]
    return Found(examples, f"cache pickles {', '.join(p.name for p in paths)}")


def _split(path: Path) -> str:
    words = _WORD.findall(path.stem)
    if not words:
        raise FirthshotError(f"{path} has neither train, val nor test in its name: rename it.")
    return SPLIT_OF[words[-1].lower()]


def _known_cache(path: Path, split: str) -> list[Example]:
    content = _plain(read_data_pickle(path))
    if isinstance(content, list) and path.stem.endswith("_images_png"):
        names, labels = _tiered_labels(path.with_name(path.name.replace("_images_png", "_labels")))
        pictures = [np.asarray(one, np.uint8).tobytes() for one in content]
        return _examples(path, pictures, [names[label] for label in labels])
    if isinstance(content, dict) and {"image_data", "class_dict"} <= set(content):
        return _mini_examples(path, content)
    if isinstance(content, dict) and {"data", "labels"} <= set(content):
        owners = [f"{split}-{int(label):03d}" for label in content["labels"]]
        return _examples(path, _pictures(path, content["data"]), owners)
    raise FirthshotError(
        f"{path} {_STRANGE}: image_data and class_dict, data and labels, or a list of PNG bytes "
        "beside a file of labels."
    )


def _mini_examples(path: Path, content: dict[str, Any]) -> list[Example]:
    pictures = _pictures(path, content["image_data"])
    owners = [""] * len(pictures)
    if sum(map(len, content["class_dict"].values())) > len(pictures):
        raise FirthshotError(f"{path} gives more pictures to classes than it has.")
    for name, rows in content["class_dict"].items():
        for row in np.asarray(rows, np.int64).tolist():
            if not 0 <= row < len(pictures):
                raise FirthshotError(f"{path} gives class {name!r} picture {row}, which it lacks.")
            owners[row] = str(name)
    if "" in owners:
        raise FirthshotError(f"{path} gives picture {owners.index('')} no class.")
    return _examples(path, pictures, owners)


def _tiered_labels(path: Path) -> tuple[list[str], list[int]]:
    content = _plain(read_data_pickle(path))
    if not isinstance(content, dict) or not {"label_specific", "label_specific_str"} <= set(
        content
    ):
        raise FirthshotError(f"{path} lacks label_specific and label_specific_str.")
    labels = np.asarray(content["label_specific"], np.int64).tolist()
    names = [str(name) for name in content["label_specific_str"]]
    if not labels or min(labels) < 0 or max(labels) >= len(names):
        raise FirthshotError(f"{path} has labels that its {len(names)} classes do not cover.")
    return names, labels


def _cifar100_examples(folder: Path) -> list[Example]:
    names = [str(one) for one in _plain(read_data_pickle(folder / "meta"))["fine_label_names"]]
    examples: list[Example] = []
    for part in ("train", "test"):
        content = _plain(read_data_pickle(folder / part))
        owners = [names[int(label)] for label in content["fine_labels"]]
        files = [str(name) for name in content.get("filenames", [])]
        pictures = _pictures(folder / part, content["data"])
        examples += _examples(folder / part, pictures, owners, files or None)
    return examples


def _pictures(path: Path, data: Any) -> list[np.ndarray]:
    """Return pixels (height, width, 3); CIFAR keeps its 3 x 32 x 32 in one line."""
    array = np.asarray(data)
    if array.dtype == np.uint8 and array.ndim == 2 and array.shape[1] == 3072:
        array = array.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    if array.dtype != np.uint8 or array.ndim != 4 or array.shape[3] != 3:
        raise FirthshotError(
            f"{path} holds pictures of shape {array.shape}, {array.dtype}: (n, height, width, 3) "
            "of uint8 is needed."
        )
    return list(array)


def _examples(
    path: Path, pictures: list[Any], owners: list[str], names: list[str] | None = None
) -> list[Example]:
    if len(pictures) != len(owners):
        raise FirthshotError(f"{path} has {len(pictures)} pictures but {len(owners)} labels.")
    called = names or [f"{row:08d}" for row in range(len(pictures))]
    rows = zip(owners, called, pictures, strict=True)
    return [Example(owner, name, one, path.stem) for owner, name, one in rows]


def _plain(content: Any) -> Any:
    """Turn byte strings, which Python 2 wrote, into text, in containers too."""
    if isinstance(content, bytes):
        return content.decode("latin1")
    if isinstance(content, dict):
        return {_plain(key): _plain(value) for key, value in content.items()}
    if isinstance(content, list) and content and isinstance(content[0], bytes):
        return [_plain(item) for item in content]
    return content
