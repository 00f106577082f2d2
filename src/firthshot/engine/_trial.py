"""One trial as the heads see it: its rows, its labels and the products that training needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._queries import Queries
from firthshot.errors import FirthshotError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Trial:
    """Support rows X (N, d) with labels, the queries, and the key of the trial's streams.

    ``query`` may be given as rows (Q, d).
    """

    number: int
    key: int
    n_classes: int
    support: Array
    labels: Array
    query: Queries

    def __post_init__(self) -> None:
        if isinstance(self.query, np.ndarray):
            object.__setattr__(self, "query", Queries((self.query,)))
        if self.labels.min() < 0 or self.labels.max() >= self.n_classes:
            raise FirthshotError(f"It has labels outside 0 … {self.n_classes - 1}.")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the precision in which everything is computed."""
        return self.support.dtype

    @property
    def padded_queries(self) -> int:
        """Return the number of columns of the logits."""
        return self.query.padded


@dataclass(frozen=True)
class Fitted:
    """What a head hands back: logits and squared parameter norms of every coefficient."""

    logits: Array  # (C, L, Q + padding)
    norms: Array  # (L,)
    weights: dict[str, Array] = field(default_factory=dict)  # on request, leading axis L
    status: Array | None = None  # (L,) codes of firthshot.engine.results.Status, None: all well


def pad_columns(values: Array, columns: int) -> Array:
    """Append zero columns to the last axis."""
    padded = np.zeros((*values.shape[:-1], columns), values.dtype)
    padded[..., : values.shape[-1]] = values
    return padded


def products(trial: Trial, right: Array) -> tuple[Array, Array]:
    """Return (X right (N, m), query rows times right (Q + padding, m)); padding rows are zero."""
    return trial.support @ right, trial.query.times(right)
