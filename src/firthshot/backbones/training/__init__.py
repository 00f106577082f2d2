"""Training of a backbone on the base classes: recipes, exact resumption, checkpoints."""

from firthshot.backbones.training._files import read_notes, read_tensors, write_history
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
    "PRECISIONS", "RECIPES", "EpochRecord", "Recipe", "Setup", "Stage", "TrainingRun",
    "best_precision", "best_record", "read_notes", "read_tensors", "s2m2", "standard",
    "write_history",
]  # fmt: skip
