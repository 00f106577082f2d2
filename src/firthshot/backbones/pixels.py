"""Pictures at rest: a split decoded once into one ``uint8`` array that training reads at random."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from firthshot.backbones.datasets import Dataset
from firthshot.backbones.images import Preparation, map_ahead
from firthshot.errors import FirthshotError
from firthshot.files import replacing


@dataclass(frozen=True)
class Pixels:
    """Decoded pictures with their labels."""

    # (n, side, side, 3): the pictures, possibly memory-mapped; those of one class are adjacent
    images: np.ndarray
    labels: np.ndarray  # (n,): the position of each picture's class in ``classes``
    classes: list[str]  # the class names

    @property
    def side(self) -> int:
        """Return the side of the square pictures."""
        return int(self.images.shape[1])

    def __len__(self) -> int:
        return len(self.labels)


def decode_split(
    data: Dataset,
    split: str,
    side: int,
    *,
    cache: str | Path | None = None,
    threads: int | None = None,
    say: Callable[[str], None] | None = None,
) -> Pixels:
    """Decode the pictures of a split in parallel: shorter side to ``side``, centre cropped.

    ``cache`` is a folder for the decoded array, which is then memory-mapped and found there the
    next time: its name is a digest of the pictures' names, sizes and times. ``say`` is told, in a
    line, what takes time.
    """
    rows = data.rows(split)
    if data.kind != "image" or not len(rows):
        raise FirthshotError(f"{data.name} has no pictures of {split} classes: check its split.")
    own = [label for label, home in enumerate(data.class_splits) if home == split]
    labels = np.searchsorted(own, data.labels[rows])
    names = [data.classes[label] for label in own]
    shape = (len(rows), side, side, 3)
    if cache is None:
        images = _decode_into(np.empty(shape, np.uint8), data, rows, threads)
        return Pixels(images, labels, names)
    place = Path(cache) / f"pixels-{_digest(data, rows, side)}.npy"
    if not place.exists():
        if say is not None:
            say(f"Decoding {len(rows):,} pictures into {place} ({np.prod(shape) / 1e6:,.0f} MB).")
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as partial:
            mapped = np.lib.format.open_memmap(partial, mode="w+", dtype=np.uint8, shape=shape)
            _decode_into(mapped, data, rows, threads)
            mapped.flush()
            del mapped  # closed: Windows renames no open file
    return Pixels(np.load(place, mmap_mode="r", allow_pickle=False), labels, names)


def _decode_into(
    images: np.ndarray, data: Dataset, rows: np.ndarray, threads: int | None
) -> np.ndarray:
    preparation = Preparation(images.shape[1])

    def decode(row: int) -> np.ndarray:
        return preparation.pixels(data.contents[row], data.names[row])

    for position, picture in enumerate(map_ahead(decode, rows, threads)):
        images[position] = picture
    return images


def _digest(data: Dataset, rows: np.ndarray, side: int) -> str:
    """Return a digest that tells changed pictures: by size and time of files, or by content."""
    digest = hashlib.sha256(str(side).encode())
    for row in rows:
        picture = data.contents[row]
        if isinstance(picture, Path):
            state = picture.stat()
            identity = f"{state.st_size} {state.st_mtime_ns}"
        else:
            identity = hashlib.sha256(picture).hexdigest()
        digest.update(f"{data.names[row]} {identity}\n".encode())
    return digest.hexdigest()[:16]
