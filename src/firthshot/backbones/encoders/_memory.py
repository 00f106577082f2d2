"""Batches that fit the memory of a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from firthshot.errors import FirthshotError

_FULL = ("out of memory", "can't allocate memory", "not enough memory")


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
