"""No penalty: the cross-entropy CE(y‖p) = −log p_y alone (Eq. cekldef), gradient p − y."""

from __future__ import annotations

from firthshot.objective.penalties._family import PenaltyFamily

NONE = PenaltyFamily("none", title="no penalty")
