"""Rows as the page shows them: name, text or small picture, labels and probabilities."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.own_data._answer import short_name

if TYPE_CHECKING:
    from firthshot.own_data._examples import Examples
    from firthshot.own_data.assessment import Assessment

MOST_DOUBTS, MOST_UNCERTAIN = 40, 12
MOST_CLICKABLE = 2000  # left-out rows that the page can list by cell of the matrix
LONGEST = 240
SIDE, QUALITY = 112, 72  # of small pictures, JPEG
ROOM = 1_800_000  # bytes of small pictures that a page may hold


class RowViews:
    """What the page says of single rows; small pictures are made once and while there is room."""

    def __init__(self, examples: Examples, found: Assessment) -> None:
        self._examples, self._found = examples, found
        self._names, self._thumbs = examples.row_names(), Thumbnails()
        self._made: dict[int, str | None] = {}

    def picture(self, row: int) -> str | None:
        """Return the small picture of a row, if it is one."""
        if self._examples.kind != "image" or self._examples.ids is None:
            return None
        if row not in self._made:
            self._made[row] = self._thumbs.of(str(self._examples.ids[row]))
        return self._made[row]

    def text(self, row: int) -> str | None:
        """Return the text of a row, if it is one that is still known."""
        texts = self._examples.texts
        return None if texts is None else texts[row][:LONGEST]

    def name(self, row: int, label: str) -> str:
        """Return what to call a row beside its label: nothing where its text says it all."""
        same = (
            self._examples.texts is not None and self._examples.id_name == self._examples.text_name
        )
        return "" if same else short_name(self._names[row], label)

    def doubts(self) -> list[dict[str, Any]]:
        """Return the rows whose labels look wrong."""
        classes = self._found.classes
        return [
            {
                "name": self.name(one.row, str(classes[one.label])),
                "picture": self.picture(one.row),
                "text": self.text(one.row),
                "label": str(classes[one.label]),
                "other": str(classes[one.other]),
                "given": f"{100 * one.given:.0f}\u00a0%",
                "better": f"{100 * one.better:.0f}\u00a0%",
            }
            for one in self._found.doubts[:MOST_DOUBTS]
        ]

    def uncertain(self) -> list[dict[str, Any]]:
        """Return the left-out rows whose two most probable classes are closest."""
        left, classes = self._found.left, self._found.classes
        order = np.argsort(-left.probabilities, axis=1)[:, :2]
        return [
            {
                "name": self.name(int(left.rows[at]), str(classes[left.labels[at]])),
                "picture": self.picture(int(left.rows[at])),
                "text": self.text(int(left.rows[at])),
                "label": str(classes[left.labels[at]]),
                "two": [
                    (str(classes[k]), f"{100 * left.probabilities[at, k]:.0f}\u00a0%")
                    for k in order[at]
                ],
            }
            for at in self._found.uncertain[:MOST_UNCERTAIN]
        ]

    def cells(self) -> dict[str, list[dict[str, Any]]]:
        """Return the left-out rows of each cell of the matrix; mistakes get room first."""
        left, classes = self._found.left, self._found.classes
        order = np.argsort(left.right, kind="stable")[:MOST_CLICKABLE]
        cells: dict[str, list[dict[str, Any]]] = {}
        for at in order:
            row = int(left.rows[at])
            wrong = not left.right[at]
            cells.setdefault(f"{left.labels[at]}-{left.predicted[at]}", []).append(
                {
                    "name": short_name(self._names[row], str(classes[left.labels[at]])),
                    "text": self.text(row),
                    "picture": self.picture(row) if wrong else self._made.get(row),
                    "p": round(100 * float(left.probabilities[at, left.predicted[at]])),
                }
            )
        return cells


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
