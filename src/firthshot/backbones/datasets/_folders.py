"""Folders of class folders, alone or under train, val, test."""

from __future__ import annotations

from pathlib import Path

from firthshot.backbones.datasets._examples import Example, Found
from firthshot.backbones.datasets._splits import SPLIT_OF, Homes
from firthshot.backbones.images import ENDINGS
from firthshot.errors import FirthshotError

_INNER = ("images", "data")  # where CUB and CIFAR-FS keep their class folders


def read_folder(folder: Path) -> Found:
    """Read a folder of pictures in whichever of the usual layouts it is.

    - class folders;
    - ``train/``, ``val/``, ``test/`` (or base, val, novel) of class folders: with the same
      classes in each, the parts are put together; with different classes, the folders are the
      class split;
    - an ``images/`` or ``data/`` folder that holds the class folders.
    """
    inside = _folders(folder)
    parts = [path for path in inside if path.name.lower() in SPLIT_OF and _folders(path)]
    if len(parts) >= 2:
        return _read_parts(parts)
    if not any(_pictures(path) for path in inside):
        deeper = [path for path in inside if path.name.lower() in _INNER and _folders(path)]
        if len(deeper) == 1:
            return read_folder(deeper[0])
    return Found(_read_classes(folder), "class folders")


def _read_parts(parts: list[Path]) -> Found:
    examples = {part.name: _read_classes(part) for part in parts}
    classes = {name: {one.owner for one in own} for name, own in examples.items()}
    together = [one for own in examples.values() for one in own]
    words = ", ".join(examples)
    if len({frozenset(own) for own in classes.values()}) == 1:
        return Found(together, f"class folders, the same in {words}")
    return Found(together, f"class folders in {words}", _homes(classes))


def _homes(classes: dict[str, set[str]]) -> Homes:
    homes: Homes = {}
    owner: dict[str, str] = {}
    for folder, names in classes.items():
        for name in names:
            if owner.setdefault(name, folder) != folder:
                raise FirthshotError(
                    f"Class {name!r} is in {owner[name]}/ and {folder}/ but other classes are in "
                    "one of them only: give every folder the same classes, or each its own."
                )
            homes[name] = SPLIT_OF[folder.lower()]
    return homes


def _read_classes(folder: Path) -> list[Example]:
    """Return the pictures of class folders."""
    found = _folders(folder)
    if not found:
        raise FirthshotError(
            f"{folder} holds no class folders: put the pictures of each class into a folder named "
            "after it."
        )
    examples = []
    for own in found:
        pictures = _pictures(own)
        if not pictures:
            raise FirthshotError(
                f"The class folder {own} holds no pictures ({', '.join(sorted(ENDINGS))}): "
                "fill it or remove it."
            )
        examples += [Example(own.name, path.name, path, folder.name) for path in pictures]
    return examples


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] not in "._")


def _pictures(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.iterdir()
        if path.suffix.lower() in ENDINGS and path.name[0] != "." and path.is_file()
    ]
