"""A fitted head as a module: its numbers are buffers, its rows tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class FittedModule(nn.Module):  # type: ignore[misc]
    """Probabilities of rows (n, d) by a fitted head, shape (n, K) in the type of the rows.

    Parameters
    ----------
    head : callable
        The head on a tensor, with the operations of `firthshot.estimators` as second argument. It
        asks for the same numbers in the same order every time: they become buffers.
    n_features : int
        d.
    """

    def __init__(self, head: Callable[[Tensor, Any], Tensor], n_features: int) -> None:
        super().__init__()
        self._head = head
        head(torch.zeros((1, n_features), dtype=torch.float64), _Registering(self))

    def forward(self, rows: Tensor) -> Tensor:
        """Return probabilities."""
        return self._head(rows.double(), _Reading(self)).to(rows.dtype)


class _Operations:
    """Functions of tensors under the names that the export knows."""

    def columns(self, x: Tensor, which: Any) -> Tensor:
        return x[:, torch.as_tensor(np.asarray(which, np.int64), device=x.device)]

    def joined(self, parts: list[Tensor]) -> Tensor:
        return torch.cat(parts, 1)

    def row_sum(self, x: Tensor) -> Tensor:
        return x.sum(1, keepdim=True)

    def row_min(self, x: Tensor) -> Tensor:
        return x.amin(1, keepdim=True)

    def at_least(self, x: Tensor, least: float) -> Tensor:
        return x.clamp_min(least)

    def sqrt(self, x: Tensor) -> Tensor:
        return x.sqrt()

    def exp(self, x: Tensor) -> Tensor:
        return x.exp()

    def log(self, x: Tensor) -> Tensor:
        return x.log()

    def softmax(self, x: Tensor) -> Tensor:
        return x.softmax(1)


class _Reading(_Operations):
    """Take the numbers of the head from the module's buffers, one after the other."""

    def __init__(self, module: FittedModule) -> None:
        self.module, self.at = module, 0

    def constant(self, _values: Any) -> Tensor:
        self.at += 1
        return self.module.get_buffer(f"numbers_{self.at}")


class _Registering(_Reading):
    """Make a buffer of each of the head's numbers."""

    def constant(self, values: Any) -> Tensor:
        found = torch.as_tensor(np.array(values, np.float64))
        self.module.register_buffer(f"numbers_{self.at + 1}", found)
        return super().constant(values)
