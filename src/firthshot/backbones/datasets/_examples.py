"""A labelled collection of pictures or texts, in an order that no file system can change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from firthshot.backbones.datasets._splits import Homes
from firthshot.banks import SPLITS
from firthshot.errors import FirthshotError

Kind = Literal["image", "text"]
_ORDER = {str(split): place for place, split in enumerate(SPLITS)}


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
