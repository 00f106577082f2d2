"""What the page shows of rows, and the places of what it draws: reliability, curve, gains.

Charts are 640 units wide. Templates turn the places into SVG, whose colours follow the theme.
"""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np

from firthshot.own_data._examples import Examples
from firthshot.own_data._report import short_name
from firthshot.own_data.assessment import Assessment, binned

WIDTH, HEIGHT = 640.0, 440.0
LEFT, RIGHT, TOP, BOTTOM = 74.0, 20.0, 44.0, 64.0  # room for names of axes on a phone
CURVE_STEPS = 40
SIDES = {"left": LEFT, "right": WIDTH - RIGHT, "bottom": HEIGHT - BOTTOM}
FRAME = {"width": WIDTH, "height": HEIGHT, **SIDES}
MOST_DOUBTS, MOST_UNCERTAIN = 40, 12
MOST_CLICKABLE = 2000  # left-out rows that the page can list by cell of the matrix
LONGEST = 240
SIDE, QUALITY = 112, 72  # of small pictures, JPEG
ROOM = 1_800_000  # bytes of small pictures that a page may hold


class Frame:
    """A rectangle whose axes run from low to high."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        self._x, self._y = x, y

    def x(self, value: float) -> float:
        """Return the place of a value on the horizontal axis."""
        low, high = self._x
        return round(LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        """Return the place of a value on the vertical axis."""
        low, high = self._y
        return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)


def reliability_chart(found: Assessment) -> dict[str, Any]:
    """Return bars of accuracy by confidence of the left-out rows."""
    which, confidence, right = binned(found.left.probabilities, found.left.labels)
    frame, bars = Frame((0, 1), (0, 1)), []
    most = int(np.bincount(which).max())
    for b in np.unique(which):
        chosen = which == b
        n, said, was = int(chosen.sum()), float(confidence[chosen].mean()), right[chosen].mean()
        half = float(1.96 * np.sqrt((was * (1 - was) + 1 / n) / n)) if n else 0.0
        bars.append(
            {
                "x": frame.x(said),
                "y": frame.y(float(was)),
                "low": frame.y(max(float(was) - half, 0.0)),
                "high": frame.y(min(float(was) + half, 1.0)),
                "size": round(4 + 10 * float(np.sqrt(n / most)), 1),
                "words": f"{n} rows: said {100 * said:.0f} %, right {100 * was:.0f} %",
            }
        )
    ticks = [0, 0.25, 0.5, 0.75, 1.0]
    return {
        "bars": bars,
        "xticks": [(frame.x(t), f"{100 * t:.0f} %") for t in ticks],
        "yticks": [(frame.y(t), f"{100 * t:.0f} %") for t in ticks],
        "diagonal": (frame.x(0), frame.y(0), frame.x(1), frame.y(1)),
    }


def curve_chart(found: Assessment) -> dict[str, Any]:
    """Return the learning curve on a logarithmic axis of rows per class, up to twice as many."""
    curve, estimate, more = found.curve, found.estimate, found.more
    now, twice = curve.shots, 2 * curve.shots
    shots = np.geomspace(min(1.0, curve.points[0].shots), twice, CURVE_STEPS)
    lift = estimate.accuracy - curve.accuracy(now)
    lows = [point.accuracy - 2 * point.error for point in curve.points]
    floor = max(0.0, np.floor(10 * min([*lows, estimate.low, more.low]) - 1e-9) / 10)
    frame = Frame((float(np.log2(shots[0])) - 0.15, float(np.log2(twice)) + 0.25), (floor, 1.0))

    def at(s: float, accuracy: float) -> tuple[float, float]:
        return frame.x(float(np.log2(s))), frame.y(float(np.clip(accuracy, floor, 1.0)))

    ahead = np.linspace(now, twice, CURVE_STEPS // 2).tolist()
    share = [(s - now) / now for s in ahead]
    band = [
        [at(s, a + t * (b - a)) for s, t in zip(ahead, share, strict=True)]
        for a, b in ((estimate.low, more.low), (estimate.high, more.high))
    ]
    steps = 0.05 if floor >= 0.75 else (0.1 if floor >= 0.4 else 0.2)
    yticks = np.arange(floor, 1.0 + 1e-9, steps)
    marked = [2.0**j for j in range(12) if 2.0**j <= twice * 1.01]
    return {
        "points": [
            {
                "at": at(point.shots, point.accuracy),
                "low": at(point.shots, point.accuracy - 1.96 * point.error)[1],
                "high": at(point.shots, point.accuracy + 1.96 * point.error)[1],
                "words": f"{point.shots:.3g} rows per class: {100 * point.accuracy:.1f} %",
            }
            for point in curve.points
        ],
        "line": path([at(s, curve.accuracy(s) + lift * s / now) for s in shots if s <= now]),
        "ahead": path([at(s, curve.accuracy(s) + lift) for s in ahead]),
        "band": path([*band[0], *reversed(band[1])]) + " Z",
        "now": {"at": at(now, estimate.accuracy), "words": str(estimate)},
        "twice": {
            "at": at(twice, more.accuracy),
            "words": f"{100 * more.accuracy:.0f} % ({100 * more.low:.0f}–{100 * more.high:.0f})",
        },
        "xticks": [(frame.x(float(np.log2(s))), f"{s:g}") for s in marked],
        "yticks": [(frame.y(float(t)), f"{100 * t:.0f} %") for t in yticks],
    }


def path(points: list[tuple[float, float]]) -> str:
    """Return points as the path of a line."""
    return "M" + " L".join(f"{x:g} {y:g}" for x, y in points)


def gain_bars(found: Assessment) -> list[dict[str, Any]]:
    """Return gains over other methods, each a dot and an interval on one axis."""
    limits = [abs(edge) for one in found.rivals for edge in (one.points.low, one.points.high)]
    reach = max([*limits, 0.02]) * 1.05

    def place(share: float) -> float:
        return round(50 + 50 * share / reach, 2)

    def tone(low: float, high: float) -> str:
        return "good" if low > 0 else ("bad" if high < 0 else "plain")

    return [
        {
            "name": one.name,
            "accuracy": f"{100 * one.accuracy:.1f} %",
            "log_loss": f"{one.log_loss:.3f}" if one.log_loss < 5 else "–",
            "gain": f"{100 * one.points.mean:+.1f}",
            "interval": f"{100 * one.points.low:+.1f} to {100 * one.points.high:+.1f}",
            "dot": place(one.points.mean),
            "from": place(one.points.low),
            "width": round(place(one.points.high) - place(one.points.low), 2),
            "tone": tone(one.points.low, one.points.high),
        }
        for one in found.rivals
    ]


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
