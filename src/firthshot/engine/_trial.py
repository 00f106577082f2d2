"""One trial as the heads see it: its rows, its labels and the products that training needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._kernels.simd import lanes_of
from firthshot.errors import FirthshotError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Trial:
    """Support rows X (N, d) with labels, query rows (Q, d), and the key of the trial's streams."""

    number: int
    key: int
    n_classes: int
    support: Array
    labels: Array
    query: Array

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the precision in which everything is computed."""
        return self.support.dtype

    @property
    def padded_queries(self) -> int:
        """Return the number of queries rounded up to whole vectors."""
        return round_up(len(self.query), lanes_of(self.dtype))

    def check(self) -> None:
        """Refuse features that are not finite and labels out of range, naming the trial."""
        for name, rows in (("support", self.support), ("query", self.query)):
            # A sum is finite only if all its terms are; it may overflow where the rows do not.
            with np.errstate(over="ignore", invalid="ignore"):
                suspicious = not np.isfinite(rows.sum(dtype=np.float64))
            if suspicious and not np.isfinite(rows).all():
                raise FirthshotError(
                    f"Trial {self.number} has {name} features that are not finite; look at the bank with the doctor."
                )
        if self.labels.min() < 0 or self.labels.max() >= self.n_classes:
            raise FirthshotError(
                f"Trial {self.number} has labels outside 0 … {self.n_classes - 1}."
            )


@dataclass(frozen=True)
class Fitted:
    """What a head hands back for scoring: logits and squared parameter norms of every coefficient."""

    logits: Array  # (C, L, Q + padding)
    norms: Array  # (L,)
    weights: dict[str, Array] = field(default_factory=dict)  # on request, leading axis L
    status: Array | None = None  # (L,) codes of firthshot.engine.results.Status, None: all well


def round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple of ``multiple`` that is at least ``number``."""
    return -(-number // multiple) * multiple


def pad_columns(values: Array, columns: int) -> Array:
    """Append zero columns to the last axis."""
    padded = np.zeros((*values.shape[:-1], columns), values.dtype)
    padded[..., : values.shape[-1]] = values
    return padded


def products(trial: Trial, right: Array) -> tuple[Array, Array]:
    """Return (X right (N, m), query rows times right (Q + padding, m)); padding rows are zero."""
    queries = np.zeros((trial.padded_queries, right.shape[1]), trial.dtype)
    np.matmul(trial.query, right, out=queries[: len(trial.query)])
    return trial.support @ right, queries
