"""Training of a backbone on the base classes: recipes, exact resumption, checkpoints, curves."""

from firthshot.backbones.training._curves import draw_curves, write_history
from firthshot.backbones.training._files import export_weights, read_notes, read_tensors
from firthshot.backbones.training._loop import TrainingRun
from firthshot.backbones.training._recipes import (
    PRECISIONS,
    RECIPES,
    EpochRecord,
    Recipe,
    Setup,
    Stage,
    best_precision,
    best_record,
    s2m2,
    standard,
)

__all__ = [
    "PRECISIONS",
    "RECIPES",
    "EpochRecord",
    "Recipe",
    "Setup",
    "Stage",
    "TrainingRun",
    "best_precision",
    "best_record",
    "draw_curves",
    "export_weights",
    "read_notes",
    "read_tensors",
    "s2m2",
    "standard",
    "write_history",
]
