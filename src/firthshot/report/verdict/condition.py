"""Ways and shots of a setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, order=True)
class Condition:
    """Ways and shots of a setting; balanced shots sort before unbalanced ones."""

    ways: int
    unbalanced: bool
    shots: int
    scheme: str

    @staticmethod
    def of(row: Mapping[str, Any]) -> Condition:
        """Return the condition of a line of a summary's table."""
        scheme = row["shots_scheme"]
        return Condition(row["ways"], scheme != "balanced", row["shots"], scheme)

    @property
    def label(self) -> str:
        """Return the shots as charts and tables name them."""
        return self.scheme if self.unbalanced else str(self.shots)
