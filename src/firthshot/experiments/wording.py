"""Words for quantities, as screens, pages and scripts say them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Return a time as people say it: 40 s, 12 min, 3.5 h, 2.1 days, 4.0 years."""
    for limit, unit, name in (
        (90, 1, "s"),
        (5400, 60, "min"),
        (172800, 3600, "h"),
        (63072000, 86400, "days"),
    ):
        if seconds < limit:
            value = seconds / unit
            return f"{value:.0f} {name}" if value >= 10 or unit <= 60 else f"{value:.1f} {name}"
    return f"{seconds / 31557600:.1f} years"
