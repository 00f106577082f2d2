"""From a spec and its banks to cells, what they cost, and notes on what had to give way."""

from firthshot.experiments.plan.cell import FORMAT, Cell, TrialCondition
from firthshot.experiments.plan.estimate import count_classifiers, estimate
from firthshot.experiments.plan.layout import Plan, Setting, make_plan
from firthshot.experiments.plan.notes import Note, condense

__all__ = [
    "FORMAT",
    "Cell",
    "Note",
    "Plan",
    "Setting",
    "TrialCondition",
    "condense",
    "count_classifiers",
    "estimate",
    "make_plan",
]
