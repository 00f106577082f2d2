"""Pictures and texts of a practitioner to features, with an encoder chosen for them.

    features = embed_texts(["my card is lost", "hello"])

The default encoders come with the extras ``torch`` and ``text``. What was embedded before, by
content, is taken from the cache (`firthshot.backbones.cache`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from firthshot.backbones.cache import content_key, recall, remember
from firthshot.backbones.encoders import (
    DEFAULTS,
    WORDS,
    Encoder,
    Kind,
    check_kind,
    join_spec,
    split_spec,
)
from firthshot.backbones.images import PictureError, map_ahead
from firthshot.errors import FirthshotError, reason
from firthshot.progress import SILENT, ProgressListener


class EncoderMark(NamedTuple):
    """What a model file keeps of its encoder: how to load it, and its fingerprint.

    A model fitted to features that were made elsewhere has words instead of the first, and no
    fingerprint.
    """

    spec: str
    fingerprint: str | None


def recall_encoder(mark: EncoderMark, given: Any = None, **how: Any) -> Encoder:
    """Load the encoder of a model file again; another one, or another revision, is refused.

    ``given`` takes the place of the one on record: the object that the model was fitted with, or a
    name or path, as the file may have moved; options that it does not name are those on record.
    ``how`` is device, offline and listener of `load_encoder`.
    """
    from firthshot.backbones.encoders import load_encoder

    if mark.fingerprint is None:
        raise FirthshotError(
            f"The model was fitted to features ({mark.spec}) whose encoder it does not know: give "
            "features made the same way, or fit it to pictures or texts."
        )
    encoder = load_encoder(_on_record(mark) if given is None else _moved(mark, given), **how)
    if encoder.fingerprint != mark.fingerprint:
        raise FirthshotError(
            f"The model was fitted to features of the encoder {mark.spec} with fingerprint "
            f"{mark.fingerprint[:12]}, but {encoder.spec or given or mark.spec} has "
            f"{encoder.fingerprint[:12]}: give the encoder it was fitted with, or fit again."
        )
    return encoder


def _on_record(mark: EncoderMark) -> str:
    """Return how to load an encoder; a file that is no longer there is refused."""
    kind, _, name = mark.spec.partition(":")
    if kind == "python":
        raise FirthshotError(
            f"The model was fitted with the Python function {name}: give it as the encoder.",
            "encoder",
        )
    place = Path(split_spec(mark.spec)[0])
    if place.is_absolute() and not place.exists():  # a name never is
        raise FirthshotError(
            f"The model's encoder {place} is not there: if it has moved, name its place.",
            "encoder",
        )
    return mark.spec


def _moved(mark: EncoderMark, given: Any) -> Any:
    """Return a new place with the options on record, but for those that it names itself."""
    if not isinstance(given, str | Path) or mark.spec.startswith("python:"):
        return given
    place, told = split_spec(str(given))
    return join_spec(place, replace(split_spec(mark.spec)[1], **told.given))


def embed(
    items: Sequence[Any],
    encoder: Encoder,
    *,
    listener: ProgressListener = SILENT,
    bad: list[int] | None = None,
) -> np.ndarray:
    """Return features (n, dim) float32; what the cache knows is not encoded again.

    The network is loaded only if something is left to encode. Features of a user's function are
    not cached. Items are texts, or pictures: paths, or the bytes of files. ``bad`` gets the places
    of pictures that cannot be read, which then have no row of features; without it, the first of
    them is refused.
    """
    if not encoder.cacheable:
        return encoder.encode(items)
    keys = _picture_keys(items, bad) if encoder.kind == "image" else _text_keys(items)
    known = recall(encoder.fingerprint, [key for key in keys if key is not None], encoder.dim)
    rows = {key: row for row, key in enumerate(keys) if key is not None and key not in known}
    fresh = list(rows.values())
    if fresh:
        _ = encoder.network  # loading is not part of the rate
        listener.start(len(keys), WORDS[encoder.kind], done=len(keys) - len(fresh))
        new = [items[row] for row in fresh]
        for places, features in encoder.encode_ahead(new, skip_bad=bad is not None):
            found = dict(zip((str(keys[fresh[at]]) for at in places), features, strict=True))
            remember(encoder.fingerprint, found)
            known |= found
            listener.advance(len(places))
    if bad is not None:
        bad += [row for row, key in enumerate(keys) if key not in known]
    out = [known[key] for key in keys if key in known]
    return np.stack(out) if out else np.empty((0, encoder.dim), np.float32)


def _text_keys(texts: Sequence[str]) -> list[str | None]:
    for row, text in enumerate(texts, 1):
        if not isinstance(text, str) or not text.strip():
            raise FirthshotError(f"Text {row} is empty: leave it out.")
    return [content_key(text.encode("utf-8", "surrogatepass")) for text in texts]


def _picture_keys(pictures: Sequence[str | Path | bytes], bad: Any) -> list[str | None]:
    """Return the key of each picture; None for a file that cannot be read, where that is asked."""

    def key_of(picture: str | Path | bytes) -> str | None:
        if isinstance(picture, bytes):
            return content_key(picture)
        try:
            return content_key(Path(picture).read_bytes())
        except OSError as error:
            if bad is None:
                raise PictureError(f"{picture} cannot be read: {reason(error)}.") from None
            return None

    return list(map_ahead(key_of, pictures))


def embed_pictures(
    pictures: Sequence[Path | bytes],
    encoder: Encoder | None = None,
    *,
    listener: ProgressListener = SILENT,
) -> np.ndarray:
    """Return features (n, dim) float32 of pictures; the default encoder is EfficientNet-Lite0."""
    return embed(pictures, _of_kind("image", encoder), listener=listener)


def embed_texts(
    texts: Sequence[str], encoder: Encoder | None = None, *, listener: ProgressListener = SILENT
) -> np.ndarray:
    """Return features (n, dim) float32 of texts; the default encoder is MiniLM-L6-v2."""
    return embed(texts, _of_kind("text", encoder), listener=listener)


def _of_kind(kind: Kind, encoder: Encoder | None) -> Encoder:
    from firthshot.backbones.encoders import load_encoder

    chosen = encoder or load_encoder(DEFAULTS[kind])
    check_kind(chosen.name, chosen.kind, kind)
    return chosen
