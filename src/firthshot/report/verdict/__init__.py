"""What holds, as data: each comparison with its estimate, interval and standing."""

from __future__ import annotations

from firthshot.report.verdict.make import GROUP, Claim, Verdict, find, main_verdicts, make_verdicts
from firthshot.report.verdict.outcomes import (
    Condition,
    Contrast,
    Effect,
    Outcome,
    Row,
    Tested,
    kind_of,
)

__all__ = [
    "GROUP",
    "Claim",
    "Condition",
    "Contrast",
    "Effect",
    "Outcome",
    "Row",
    "Tested",
    "Verdict",
    "find",
    "kind_of",
    "main_verdicts",
    "make_verdicts",
]
