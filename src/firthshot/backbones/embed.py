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
from firthshot.backbones.encoders import Encoder, Kind
from firthshot.backbones.images import PictureError, map_ahead
from firthshot.errors import FirthshotError, refusing
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
    encoder = load_encoder(
        _spec_on_record(mark.spec) if given is None else _moved(mark, given), **how
    )
    if encoder.fingerprint != mark.fingerprint:
        raise FirthshotError(
            f"The model was fitted to features of the encoder {mark.spec} with fingerprint "
            f"{mark.fingerprint[:12]}, but {encoder.spec or given or mark.spec} has "
            f"{encoder.fingerprint[:12]}: give the encoder it was fitted with, or fit again."
        )
    return encoder


def _spec_on_record(spec: str) -> str:
    """Return how to load an encoder; a file that is no longer there is refused."""
    from firthshot.backbones.encoders import split_spec

    if spec.startswith("python:"):
        raise FirthshotError(
            f"The model was fitted with the Python function {spec.removeprefix('python:')}: give "
            "it as the encoder.",
            "encoder",
        )
    place = Path(split_spec(spec)[0])
    if place.is_absolute() and not place.exists():  # a name never is
        raise FirthshotError(
            f"The model's encoder {place} is not there: if it has moved, name its place.",
            "encoder",
        )
    return spec


def _moved(mark: EncoderMark, given: Any) -> Any:
    """Return a new place with the options on record, but for those that it names itself."""
    from firthshot.backbones.encoders import join_spec, split_spec

    if not isinstance(given, str | Path) or mark.spec.startswith("python:"):
        return given
    given = str(given)
    place, told = split_spec(given)
    return join_spec(place, replace(split_spec(mark.spec)[1], **told.given))


def embed(
    items: Sequence[Any], encoder: Encoder, *, listener: ProgressListener = SILENT
) -> np.ndarray:
    """Return features (n, dim) float32; what the cache knows is not encoded again.

    The network is loaded only if something is left to encode. Features of a user's function are
    not cached.

    Parameters
    ----------
    items : sequence
        Texts, or pictures: paths, or the bytes of files.
    encoder : Encoder
        From `load_encoder`.
    listener : ProgressListener, optional
    """
    if not encoder.cacheable:
        return encoder.encode(items)
    if encoder.kind == "image":
        keys = list(map_ahead(_picture_key, items))
    else:
        for row, text in enumerate(items, 1):
            if not isinstance(text, str) or not text.strip():
                raise FirthshotError(f"Text {row} is empty: leave it out.")
        keys = [content_key(text.encode("utf-8", "surrogatepass")) for text in items]
    known = recall(encoder.fingerprint, keys, encoder.dim)
    fresh = [row for key, row in {k: r for r, k in enumerate(keys)}.items() if key not in known]
    if fresh:
        _ = encoder.network  # loading is not part of the rate
        listener.start(len(keys), f"{encoder.kind}s", done=len(keys) - len(fresh))
        for rows, features in encoder.encode_ahead([items[row] for row in fresh]):
            found = dict(zip((keys[fresh[row]] for row in rows), features, strict=True))
            remember(encoder.fingerprint, found)
            known |= found
            listener.advance(len(rows))
    if not keys:
        return np.empty((0, encoder.dim), np.float32)
    return np.stack([known[key] for key in keys])


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
    from firthshot.backbones.encoders import DEFAULTS, WORDS, load_encoder

    chosen = encoder or load_encoder(DEFAULTS[kind])
    if chosen.kind != kind:
        raise FirthshotError(
            f"Encoder {chosen.name} takes {WORDS[chosen.kind]}, not {WORDS[kind]}."
        )
    return chosen


def _picture_key(picture: str | Path | bytes) -> str:
    if isinstance(picture, bytes):
        return content_key(picture)
    with refusing(f"{picture} cannot be read", OSError, PictureError):
        return content_key(Path(picture).read_bytes())
