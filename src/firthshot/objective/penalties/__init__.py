"""The penalties there are. To add one: its file here, and its line in `PENALTIES`.

The order is that of reports: of two penalties the first is compared with the second.
"""

from __future__ import annotations

from firthshot.objective.penalties._family import PenaltyFamily
from firthshot.objective.penalties.confidence import CONFIDENCE
from firthshot.objective.penalties.firth import FIRTH
from firthshot.objective.penalties.l2 import L2
from firthshot.objective.penalties.label_smoothing import LABEL_SMOOTHING
from firthshot.objective.penalties.none import NONE

PENALTIES: dict[str, PenaltyFamily] = {
    family.name: family
    for family in (
        FIRTH,
        LABEL_SMOOTHING,
        CONFIDENCE,
        L2,
        NONE,
    )
}


def register_penalty(family: PenaltyFamily) -> None:
    """Let `Penalty`, specs and runs name a penalty from outside the package."""
    PENALTIES[family.name] = family
