"""What decides a training run: recipe, size, seed and precision; and what each epoch gave."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from firthshot.errors import FirthshotError

PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Stage:
    """A number of epochs with one objective, one optimiser and one schedule."""

    objective: str  # a name in `OBJECTIVES`
    epochs: int  # passes over the training pictures
    optimiser: str  # sgd (momentum .9) or adam
    rate: float  # learning rate: at the start, or the peak of one cycle
    weight_decay: float = 0.0  # coefficient of the optimiser's L2 decay
    nesterov: bool = False  # Nesterov's momentum, with SGD
    schedule: str = "constant"  # or steps (a tenth after every ``step_every``), or one-cycle
    step_every: int = 30  # epochs

    def rate_at(self, epochs_done: float) -> float:
        """Return the learning rate after ``epochs_done`` epochs (a fraction counts batches)."""
        if self.schedule == "steps":
            return float(self.rate * 0.1 ** (int(epochs_done) // self.step_every))
        if self.schedule == "one-cycle":
            return self.rate * _one_cycle(epochs_done / self.epochs)
        return self.rate


def _one_cycle(progress: float, rise: float = 0.3, start: float = 0.04, end: float = 1e-4) -> float:
    """Return the share of the peak rate: cosine up during ``rise``, cosine down after it."""
    if progress < rise:
        return start + (1 - start) * (1 - math.cos(math.pi * progress / rise)) / 2
    return end + (1 - end) * (1 + math.cos(math.pi * (progress - rise) / (1 - rise))) / 2


@dataclass(frozen=True)
class Recipe:
    """Stages with what they share."""

    name: str  # standard or s2m2
    stages: tuple[Stage, ...]  # one after the other, each with a fresh optimiser
    batch: int  # pictures per step
    head: str = "linear"  # or cosine
    smallest_crop: float = 0.08  # least share of a picture's area that a random crop keeps
    jitter: float = 0.0  # largest relative change of brightness, contrast and saturation

    @property
    def epochs(self) -> int:
        """Return the epochs of all stages."""
        return sum(stage.epochs for stage in self.stages)

    def stage_of(self, epoch: int) -> tuple[Stage, int]:
        """Return the stage of a global epoch (from 0) and the epoch's place in that stage."""
        for stage in self.stages:
            if epoch < stage.epochs:
                return stage, epoch
            epoch -= stage.epochs
        raise FirthshotError(f"The recipe {self.name!r} has only {self.epochs} epochs.")


def standard(dataset: str | None = None, *, one_cycle: bool = False) -> Recipe:
    """Return the recipe of the paper's ResNets: cross-entropy on the base classes.

    tiered-ImageNet and CIFAR-FS were trained with Adam, 400 epochs in batches of 16; mini-ImageNet,
    and here everything else, with SGD in batches of 256 for 90 epochs, a tenth of the rate after
    every 30. ``one_cycle`` is the modern option for short trainings: SGD with Nesterov's momentum,
    one cycle of the rate, milder crops.
    """
    if one_cycle:
        cycle = _cycle("cross-entropy", 15, 0.1)
        return Recipe("standard", (cycle,), batch=128, smallest_crop=0.25)
    if dataset in ("tiered-imagenet", "cifar-fs"):
        return Recipe("standard", (Stage("cross-entropy", 400, "adam", 1e-3),), batch=16)
    steps = Stage("cross-entropy", 90, "sgd", 0.1, 3e-4, schedule="steps", step_every=30)
    return Recipe("standard", (steps,), batch=256)


def s2m2(dataset: str | None = None, *, one_cycle: bool = False) -> Recipe:
    """Return the recipe of S2M2_R (Mangla et al., 2020): rotations, then manifold mixup.

    Adam, batches of 64, 400 epochs of the first stage (200 on CUB) and 100 of the second, colours
    changed by up to .4, cosine classifier. ``one_cycle`` is the modern option for short trainings:
    one cycle of the rate per stage, and one rotation per picture in the first.
    """
    if one_cycle:
        stages = (_cycle("one-rotation", 20, 0.1), _cycle("mixup", 10, 0.03))
        return Recipe("s2m2", stages, 128, "cosine", smallest_crop=0.25, jitter=0.4)
    first = Stage("rotation", 200 if dataset == "cub" else 400, "adam", 1e-3)
    return Recipe("s2m2", (first, Stage("mixup", 100, "adam", 1e-3)), 64, "cosine", jitter=0.4)


RECIPES = {"standard": standard, "s2m2": s2m2}


def _cycle(objective: str, epochs: int, peak: float) -> Stage:
    return Stage(objective, epochs, "sgd", peak, 5e-4, nesterov=True, schedule="one-cycle")


@dataclass(frozen=True)
class Setup:
    """Everything that decides the outcome of a run, besides the pictures."""

    architecture: str  # a name that `make_backbone` knows
    recipe: Recipe  # stages, batch size and augmentation
    size: int  # side of the pictures that the network sees
    seed: int = 0  # start of every random stream
    precision: str = "float32"  # or bfloat16, for matrix products; weights stay float32
    lanes: int = 1  # single-threaded parts of each batch, see `Lanes`

    def as_notes(self) -> dict[str, Any]:
        """Return plain values for a checkpoint's header."""
        return asdict(self)

    @classmethod
    def from_notes(cls, notes: dict[str, Any]) -> Setup:
        """Rebuild a setup; a field that the notes lack was written before it existed."""
        return msgspec.convert(notes, cls)


def setup_differences(there: Any, here: Any, name: str = "") -> list[str]:
    """Name the fields in which the notes of two setups differ, with both values."""
    if isinstance(there, dict) and isinstance(here, dict):
        return [
            words
            for key in {**there, **here}
            for words in setup_differences(there.get(key), here.get(key), key)
        ]
    if isinstance(there, list | tuple) and isinstance(here, list | tuple):
        if len(there) == len(here):
            return [
                f"{words} in stage {number}" if len(there) > 1 else words
                for number, (one, other) in enumerate(zip(there, here, strict=True), 1)
                for words in setup_differences(one, other, name)
            ]
        there, here = len(there), len(here)
    return [] if there == here else [f"{name.replace('_', ' ')} ({there} there, {here} here)"]


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch gave."""

    epoch: int  # number of the epoch, from 1
    objective: str  # the stage's objective
    rate: float  # learning rate of the last batch
    # means over the training batches, as they were passed
    loss: float
    accuracy: float
    # on the held-out tenth of the pictures, uncropped, in evaluation mode
    monitored_loss: float
    monitored_accuracy: float
    seconds: float  # wall-clock time


def best_record(history: list[EpochRecord]) -> EpochRecord:
    """Return the record with the highest monitored accuracy; of equals the later."""
    return max(history, key=lambda record: (record.monitored_accuracy, record.epoch))


def best_precision() -> str:
    """Return bfloat16 where the CPU multiplies matrices of it, which is about twice as fast."""
    import torch

    # Elsewhere bfloat16 is emulated, many times slower than float32.
    tests = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    fast = any(getattr(torch.cpu, test, bool)() for test in tests)
    return "bfloat16" if fast else "float32"
