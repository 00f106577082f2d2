"""Where a network runs: the device, its precision, and batches that fit its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from firthshot.errors import FirthshotError, check_choice

DEVICES = ("auto", "cpu", "cuda", "mps")
_FULL = ("out of memory", "can't allocate memory", "not enough memory")


def place_for(device: str) -> Any:
    """Return the torch device of a name; "auto" takes an accelerator where there is one."""
    import torch

    check_choice("The device", device, DEVICES)
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return torch.device(next((name for name, usable in there.items() if usable), "cpu"))
    if not there.get(device, True):
        raise FirthshotError(
            f"torch sees no {device} device on this machine: use the device cpu, or auto, which "
            "takes what there is.",
            "device",
        )
    return torch.device(device)


@contextmanager
def inference(place: Any) -> Iterator[None]:
    """Compute without gradients; matrix products in half precision on accelerators."""
    import torch

    half = torch.autocast(place.type, torch.float16, enabled=runs_in_half(place))
    with torch.inference_mode(), half:
        yield


def runs_in_half(place: Any) -> bool:
    """Tell whether a device computes in float16.

    A CPU does not: bfloat16, the half that some CPUs are quick at, moves rows of MiniLM by more
    than 1e-3, so that a model would depend on the machine; float16 moves them by 2e-4.
    """
    return bool(place.type != "cpu")


class Shrinking:
    """Run a network on batches that its device's memory holds.

    A batch that does not fit is halved, and later ones are cut to the length that did.
    """

    def __init__(self, run: Callable[[Any], np.ndarray]) -> None:
        self._run = run
        self.most: int | None = None

    def __call__(self, batch: Any) -> np.ndarray:
        """Return the features of a batch, a list or an array."""
        parts, start = [], 0
        while start < len(batch):
            part = batch[start : start + (self.most or len(batch))]
            try:
                parts.append(self._run(part))
            except (RuntimeError, MemoryError) as error:
                words = str(error).lower()
                if not isinstance(error, MemoryError) and not any(sign in words for sign in _FULL):
                    raise
                self._shrink(len(part))
                continue
            start += len(part)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _shrink(self, length: int) -> None:
        import torch

        if length == 1:
            raise FirthshotError(
                "The memory of the device does not hold the network and one input: use another "
                "device, or a smaller encoder.",
                "device",
            )
        self.most = length // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
