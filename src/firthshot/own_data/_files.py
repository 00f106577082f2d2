"""Thousands of picture files: embedded part by part, the bad ones left out or all named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firthshot.errors import FirthshotError, listed
from firthshot.own_data._examples import Array, Examples
from firthshot.progress import ProgressListener

if TYPE_CHECKING:
    from firthshot.own_data._encoded import Embedder

PART = 64  # files that are embedded together


class Counting(ProgressListener):
    """Pass on what is done of a whole that was announced before."""

    def __init__(self, listener: ProgressListener) -> None:
        self._advance = listener.advance

    def advance(self, count: int = 1, *, units: int | None = None, words: str = "") -> None:
        """Pass it on."""
        self._advance(count, units=units, words=words)


def embed_files(
    paths: Sequence[Path],
    labels: Array | None,
    source: str,
    embedder: Embedder,
    *,
    skip_bad: bool = False,
    collect: list[str] | None = None,
) -> Examples:
    """Embed picture files; those that cannot be read are left out, or refused together.

    Parameters
    ----------
    paths : sequence of Path
    labels : (n,) or None
    source : what the user calls the files
    skip_bad : leave bad files out: they are named in `Examples.bad`
    collect : add bad files to this list, and leave what to do about them to the caller
    """
    encoder = embedder.encoder("image")
    features: list[np.ndarray] = []
    taken: list[int] = []
    bad: list[str] = []
    for start, rows, part in _parts(paths, embedder):
        features.append(part)
        taken += [start + row for row in rows]
        good = set(rows)
        size = min(PART, len(paths) - start)
        bad += [str(paths[start + row]) for row in range(size) if row not in good]
    if collect is None:
        refuse_bad(bad, len(paths), skip_bad=skip_bad)
    else:
        collect += bad
    kept = np.array(taken, np.intp)
    return Examples(
        source,
        np.concatenate(features) if features else np.empty((0, encoder.dim), np.float32),
        None if labels is None else labels[kept],
        ids=np.array([paths[row].as_posix() for row in taken]),
        id_name="picture",
        kind="image",
        encoder=encoder.spec or encoder.name,
        fingerprint=encoder.fingerprint,
        bad=tuple(bad),
        taken=kept,
    )


def refuse_bad(bad: Sequence[str], total: int, *, skip_bad: bool) -> None:
    """Refuse bad files unless they are to be left out, and then only if nothing is left."""
    if bad and total == 1:
        raise FirthshotError(f"{bad[0]} cannot be read as a picture: mend it or take another.")
    if len(bad) == total:
        raise FirthshotError(f"None of {total} files can be read as a picture: {listed(bad)}.")
    if bad and not skip_bad:
        are = "1 file is no picture" if len(bad) == 1 else f"{len(bad)} files are no pictures"
        raise FirthshotError(
            f"{are} that can be read: {listed(bad, most=20)}. Mend or remove them, or leave such "
            "files out.",
            "skip_bad",
        )


def _parts(
    paths: Sequence[Path], embedder: Embedder
) -> Iterator[tuple[int, list[int], np.ndarray]]:
    """Yield the first place of every part, which of its files are good, and their features."""
    from firthshot.backbones.embed import embed
    from firthshot.backbones.images import PictureError

    encoder, counting = embedder.encoder("image"), Counting(embedder.listener)
    embedder.listener.start(len(paths), "pictures")
    for start in range(0, len(paths), PART):
        part = paths[start : start + PART]
        try:
            rows, found = list(range(len(part))), embed(part, encoder, listener=counting)
        except PictureError:
            each = {row: embedder.try_picture(path) for row, path in enumerate(part)}
            good = {row: one for row, one in each.items() if one is not None}
            nothing = np.empty((0, encoder.dim), np.float32)
            rows, found = list(good), np.concatenate([nothing, *good.values()])
        yield start, rows, found
