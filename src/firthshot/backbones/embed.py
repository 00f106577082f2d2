"""Pictures and texts of a practitioner to features, with an encoder chosen for them.

    features = embed_texts(["my card is lost", "hello"])

Nothing is downloaded: the default encoders come with the extras ``torch`` and ``text``. What was
embedded before, by content, is taken from the cache (`firthshot.backbones.cache`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firthshot.backbones.cache import content_key, recall, remember
from firthshot.backbones.images import map_ahead
from firthshot.errors import FirthshotError
from firthshot.progress import SILENT, ProgressListener

if TYPE_CHECKING:
    from firthshot.backbones.encoders import Encoder

BATCH = 32


class EncoderMark(NamedTuple):
    """What a model file keeps of its encoder: how to load it, and its fingerprint.

    A model fitted to features that were made elsewhere has words instead of the first, and no
    fingerprint.
    """

    spec: str
    fingerprint: str | None


def recall_encoder(mark: EncoderMark, given: str | None = None) -> Encoder:
    """Load the encoder of a model file again; another one is refused.

    Parameters
    ----------
    mark : EncoderMark
        The encoder that the model was fitted with.
    given : str, optional
        A path or name instead of the one on record: the file may have moved. Options that it
        does not name are those on record.
    """
    from firthshot.backbones.encoders import load_encoder

    if mark.fingerprint is None:
        raise FirthshotError(
            f"The model was fitted to features ({mark.spec}) whose encoder it does not know: give "
            "features made the same way, or fit it to pictures or texts."
        )
    encoder = load_encoder(_spec_on_record(mark.spec) if given is None else _moved(mark, given))
    if encoder.fingerprint != mark.fingerprint:
        raise FirthshotError(
            f"The model was fitted to features of the encoder {mark.spec} with fingerprint "
            f"{mark.fingerprint[:12]}, but {given or mark.spec} has {encoder.fingerprint[:12]}: "
            "give the encoder it was fitted with, or fit again."
        )
    return encoder


def _spec_on_record(spec: str) -> str:
    """Return how to load an encoder; a file that is no longer there is refused."""
    from firthshot.backbones.encoders import split_spec

    place = Path(split_spec(spec)[0])
    if place.is_absolute() and not place.exists():  # a name never is
        raise FirthshotError(
            f"The model's encoder {place} is not there: if it has moved, name its place.",
            "encoder",
        )
    return spec


def _moved(mark: EncoderMark, given: str) -> str:
    """Return a new place with the options on record, but for those that it names itself."""
    from firthshot.backbones.encoders import join_spec, split_spec

    place, told = split_spec(given)
    return join_spec(place, replace(split_spec(mark.spec)[1], **told.given))


def embed_pictures(
    pictures: Sequence[Path | bytes],
    encoder: Encoder | None = None,
    *,
    listener: ProgressListener = SILENT,
) -> np.ndarray:
    """Return features (n, dim) float32 of pictures: paths, or the bytes of files.

    The default encoder is EfficientNet-Lite0.
    """
    chosen = encoder or _default("image")
    if chosen.kind != "image":
        raise FirthshotError(f"Encoder {chosen.name} takes texts, not images.")
    keys = list(map_ahead(_picture_key, pictures))

    def prepare(row: int) -> np.ndarray:
        return chosen.preparation.pixels(pictures[row])

    def encode(rows: list[int]) -> np.ndarray:
        return chosen.encode(np.stack(list(map_ahead(prepare, rows))))

    return _embed(chosen, keys, encode, listener)


def embed_texts(
    texts: Sequence[str], encoder: Encoder | None = None, *, listener: ProgressListener = SILENT
) -> np.ndarray:
    """Return features (n, dim) float32 of texts; the default encoder is MiniLM-L6-v2."""
    chosen = encoder or _default("text")
    if chosen.kind != "text":
        raise FirthshotError(f"Encoder {chosen.name} takes images, not texts.")
    for row, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise FirthshotError(f"Text {row + 1} is empty: leave it out.")
    keys = [content_key(text.encode("utf-8", "surrogatepass")) for text in texts]
    return _embed(chosen, keys, lambda rows: chosen.encode([texts[row] for row in rows]), listener)


def _embed(
    encoder: Encoder,
    keys: list[str],
    encode: Callable[[list[int]], np.ndarray],
    listener: ProgressListener,
) -> np.ndarray:
    """Encode what the cache does not know, each content once."""
    known = recall(encoder.fingerprint, keys, encoder.dim)
    fresh = [row for key, row in {k: r for r, k in enumerate(keys)}.items() if key not in known]
    if fresh:
        listener.start(len(keys), f"{encoder.kind}s", done=len(keys) - len(fresh))
    for start in range(0, len(fresh), BATCH):
        rows = fresh[start : start + BATCH]
        found = dict(zip((keys[row] for row in rows), encode(rows), strict=True))
        remember(encoder.fingerprint, found)
        known |= found
        listener.advance(len(rows))
    if not keys:
        return np.empty((0, encoder.dim), np.float32)
    return np.stack([known[key] for key in keys])


def _default(kind: str) -> Encoder:
    from firthshot.backbones.encoders import DEFAULTS, load_encoder

    return load_encoder(DEFAULTS[kind])


def _picture_key(picture: Path | bytes) -> str:
    if isinstance(picture, bytes):
        return content_key(picture)
    try:
        return content_key(picture.read_bytes())
    except OSError as error:
        raise FirthshotError(f"{picture} cannot be read: {error.strerror}.") from None
