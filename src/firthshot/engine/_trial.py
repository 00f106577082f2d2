"""One trial as the heads see it, and what they hand back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.arrays import Array
from firthshot.engine._queries import Logits, Queries
from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from firthshot.objective import PenaltyTables


@dataclass(frozen=True)
class Trial:
    """Support rows X (N, d) with labels, the queries, and the key of the trial's random numbers.

    ``query`` may be given as rows (Q, d), so that a head can hand transformed rows to another one
    by ``dataclasses.replace(trial, support=…, query=…)``. ``columns`` are those of the logits that
    are asked for, where rows in between are read along.
    """

    number: int
    key: int
    n_classes: int
    support: Array
    labels: Array
    query: Queries
    columns: Array | None = None

    def __post_init__(self) -> None:
        if isinstance(self.query, np.ndarray):
            object.__setattr__(self, "query", Queries((self.query,)))
        if self.labels.min() < 0 or self.labels.max() >= self.n_classes:
            raise FirthshotError(f"It has labels outside 0 … {self.n_classes - 1}.")

    @property
    def asked(self) -> Array:
        """Return the rows (Q, d) that are asked for, for heads that see all of them at once."""
        rows = self.query.stack()
        return rows if self.columns is None else rows[self.columns]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the precision in which everything is computed."""
        return self.support.dtype


@dataclass(frozen=True)
class Fitted:
    """What a head hands back: logits and squared parameter norms of every coefficient."""

    outputs: Array | Logits  # logits (C, L, Q + padding); padding is not scored, let it be 0
    norms: Array  # (L,)
    weights: dict[str, Array] = field(default_factory=dict)  # on request, leading axis L
    status: Array | None = None  # (L,) codes of firthshot.engine.results.Status, None: all well

    @property
    def logits(self) -> Array:
        """Return the logits as an array."""
        return self.outputs.whole() if isinstance(self.outputs, Logits) else self.outputs


def fitted_linear(
    trial: Trial,
    coef: Array,
    intercept: Array,
    keep_weights: bool,
    status: Array | None = None,
) -> Fitted:
    """Return what is scored of linear weights coef (L, C, d) and intercept (L, C)."""
    norms = (coef**2).sum((1, 2)) + (intercept**2).sum(1)
    weights = {}
    if keep_weights:
        weights = {"coef": coef.astype(trial.dtype), "intercept": intercept.astype(trial.dtype)}
    return Fitted(_linear_logits(trial, coef, intercept), norms, weights, status)


def fitted_for_all(
    form: PenaltyTables, logits: Array, norm: float, weights: dict[str, Array]
) -> dict[int, Fitted]:
    """Give every coefficient of a head without penalty the same logits (C, 1, Q + padding)."""
    each = len(form.label)
    many = {name: np.repeat(w[None], each, 0).astype(logits.dtype) for name, w in weights.items()}
    return {0: Fitted(np.repeat(logits, each, axis=1), np.full(each, norm), many)}


def scattered(trial: Trial, logits: Array) -> Array:
    """Put logits (L, Q, K) of the asked rows into their columns, shape (K, L, Q + padding)."""
    many, count, n_classes = logits.shape
    placed = np.zeros((n_classes, many, trial.query.padded), trial.dtype)
    columns = np.arange(count) if trial.columns is None else trial.columns
    placed[:, :, columns] = logits.transpose(2, 0, 1)
    return placed


def query_logits(trial: Trial, coef: Array, intercept: Array) -> Array:
    """Return logits (C, L, Q + padding) of the queries, in the trial's precision."""
    return _linear_logits(trial, coef, intercept).whole()


def _linear_logits(trial: Trial, coef: Array, intercept: Array) -> Logits:
    left = np.ascontiguousarray(coef.transpose(1, 0, 2), trial.dtype)
    return Logits(left, trial.query, intercept.T.astype(trial.dtype))
