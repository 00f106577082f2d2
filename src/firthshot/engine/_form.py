"""The tables of a penalty by the names that the engine has for them, until its files change."""

from firthshot.objective import PenaltyTables as GradientForm

__all__ = ["GradientForm"]
