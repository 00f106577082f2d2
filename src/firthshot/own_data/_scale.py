"""Columns of a table brought to one scale, for a linear head that is then one of the columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.own_data._remarks import EMBEDDING, wider_columns

if TYPE_CHECKING:
    from firthshot.own_data._examples import Array, Examples

UNLIKE = 10.0  # times the spread of the median column


@dataclass(frozen=True)
class ColumnScale:
    """What was taken from every column, (d,), and what it was then divided by, (d,)."""

    mean: Array
    spread: Array

    def return_to_columns(self, model: Any) -> None:
        """Let a linear head, fitted to scaled columns, take the columns as they are.

        W (x - mean) / spread + b = (W / spread) x + b - (W / spread) mean.
        """
        model.coef_ = model.coef_ / self.spread
        model.intercept_ = model.intercept_ - model.coef_ @ self.mean


def columns_differ(examples: Examples) -> bool:
    """Tell whether columns, each with a meaning of its own, vary on different scales.

    One ridge for all would then let the widest decide alone.
    """
    if examples.encoder is not None or examples.features.shape[1] >= EMBEDDING:
        return False
    return len(wider_columns(examples.features, UNLIKE)) > 0


def to_one_scale(examples: Examples) -> tuple[Examples, ColumnScale]:
    """Return the rows with columns of mean 0 and spread 1; constant columns become 0."""
    mean, spread = examples.features.mean(axis=0), examples.features.std(axis=0)
    scale = ColumnScale(mean, np.where(spread > 0, spread, 1.0))
    return replace(examples, features=(examples.features - mean) / scale.spread), scale
