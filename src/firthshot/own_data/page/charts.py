"""Places of everything that the page draws: reliability, learning curve, gains.

Charts are 640 units wide. Templates turn the places into SVG, whose colours follow the theme.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from firthshot.own_data.assessment import Assessment, binned

WIDTH, HEIGHT = 640.0, 440.0
LEFT, RIGHT, TOP, BOTTOM = 74.0, 20.0, 44.0, 64.0  # room for names of axes on a phone
CURVE_STEPS = 40
SIDES = {"left": LEFT, "right": WIDTH - RIGHT, "bottom": HEIGHT - BOTTOM}
FRAME = {"width": WIDTH, "height": HEIGHT, **SIDES}


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
