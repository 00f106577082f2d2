"""What decides a training run, and what each epoch gave."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from firthshot.backbones.training._recipes import Recipe

PRECISIONS = ("float32", "bfloat16")


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
