"""Small pictures of the rows to look at, as data URIs."""

from __future__ import annotations

import base64
import io
from pathlib import Path

SIDE = 112
QUALITY = 72
ROOM = 1_800_000  # bytes of small pictures that a page may hold


class Thumbnails:
    """Make small pictures while there is room for them."""

    def __init__(self) -> None:
        self._held = 0

    def of(self, path: str) -> str | None:
        """Return a small picture of a file as a data URI; None where there is none."""
        if self._held > ROOM or not Path(path).is_file():
            return None
        content = _small(Path(path))
        if content is None:
            return None
        self._held += len(content)
        return f"data:image/jpeg;base64,{content}"


def _small(path: Path) -> str | None:
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            picture.draft("RGB", (2 * SIDE, 2 * SIDE))  # a large JPEG is decoded small
            turned = ImageOps.exif_transpose(picture).convert("RGB")
        turned.thumbnail((SIDE, SIDE))
        out = io.BytesIO()
        turned.save(out, "JPEG", quality=QUALITY)
    except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError):
        return None
    return base64.b64encode(out.getvalue()).decode()
