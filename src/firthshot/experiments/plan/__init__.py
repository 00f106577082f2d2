"""From a spec and its banks to cells, what they cost, and notes on what had to give way."""

from firthshot.experiments.plan.cell import Cell, Note, TrialCondition, condense
from firthshot.experiments.plan.estimate import count_classifiers, estimate
from firthshot.experiments.plan.layout import Plan, make_plan

__all__ = [
    "Cell",
    "Note",
    "Plan",
    "TrialCondition",
    "condense",
    "count_classifiers",
    "estimate",
    "make_plan",
]
