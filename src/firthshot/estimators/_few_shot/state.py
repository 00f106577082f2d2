"""A fitted `FewShotClassifier` as arrays, and back.

The rows that it was fitted to are part of it, in the coordinates of their own space: neighbours
need them. The Gaussian heads are fitted again when a file is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.errors import FirthshotError
from firthshot.estimators._few_shot.heads import (
    FirthHead,
    FirthPenalty,
    Scaled,
    fit_heads,
    rounds_of,
    scaled,
)
from firthshot.estimators._few_shot.rows import KINDS, Coordinates, LabelledRows


@dataclass(frozen=True)
class State:
    """Everything that predictions and explanations need."""

    place: Coordinates
    examples: LabelledRows
    rounds: list[Array]
    penalty: FirthPenalty
    heads: dict[str, Scaled]
    sharpness: Array
    prior: Array


def saved_arrays(
    place: Coordinates,
    examples: LabelledRows,
    rounds: Sequence[Array],
    heads: Mapping[str, Scaled],
    sharpness: Array,
) -> dict[str, Array]:
    """Return the fitted state as arrays of float64 by name."""
    turns = np.full(len(examples.rows), -1.0)
    for number, rows in enumerate(rounds):
        turns[rows] = number
    arrays: dict[str, Any] = {
        "mean": place.mean,
        "spread": place.spread,
        "basis": place.basis,
        "columns": place.columns,
        "rows": examples.rows,
        "labels": examples.labels,
        "weights": examples.weights,
        "turns": turns,
        "sharpness": sharpness,
        "firth": heads["firth"].head.weights if "firth" in heads else None,  # type: ignore[attr-defined]
    }
    return {name: np.asarray(one, np.float64) for name, one in arrays.items() if one is not None}


def restored(
    numbers: Any, arrays: dict[str, Array], names: Sequence[str], n_features: int, K: int
) -> State:
    """Return the fitted state that arrays and numbers describe, or refuse them."""
    try:
        place = _coordinates(numbers, arrays, n_features)
        examples, rounds = _examples(arrays, K)
        penalty = FirthPenalty(float(numbers["lam"]), float(numbers["l2"]))
        _check(arrays, examples, place, penalty, len(names), K, "firth" in names)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError):
        raise FirthshotError("its fitted state is incomplete or impossible") from None
    others = [name for name in names if name != "firth"]
    heads, _ = fit_heads(examples, others, penalty, n_features, [])
    if "firth" in names:
        heads = {"firth": scaled(FirthHead(arrays["firth"]), examples), **heads}
    return State(place, examples, rounds, penalty, heads, arrays["sharpness"], arrays["prior"])


def _coordinates(numbers: Any, arrays: dict[str, Array], n_features: int) -> Coordinates:
    columns = arrays.get("columns")
    if columns is not None:
        columns = columns.astype(np.intp)
        if not ((columns >= 0) & (columns < n_features)).all():
            raise FirthshotError("its columns are not those of its features")
    kind, size = numbers["kind"], float(numbers["size"])
    if kind not in KINDS or not 0 < size < np.inf:
        raise FirthshotError("its columns are brought to no scale that there is")
    place = Coordinates(kind, columns, arrays["mean"], arrays["spread"], arrays.get("basis"), size)
    c = n_features if columns is None else len(columns)
    if place.mean.shape != (c,) or place.spread.shape != (c,) or not (place.spread > 0).all():
        raise FirthshotError("its arrays do not fit its features")
    return place


def _examples(arrays: dict[str, Array], K: int) -> tuple[LabelledRows, list[Array]]:
    labels = arrays["labels"].astype(np.intp)
    examples = LabelledRows(arrays["rows"], labels, arrays["weights"], K)
    if len(np.unique(labels)) != K or labels.min() != 0 or labels.max() != K - 1:
        raise FirthshotError("its rows are not of its classes")
    return examples, rounds_of(arrays["turns"])


def _check(
    arrays: dict[str, Array],
    examples: LabelledRows,
    place: Coordinates,
    penalty: FirthPenalty,
    n_heads: int,
    K: int,
    firth: bool,
) -> None:
    """Refuse arrays whose shapes or values no fit can give."""
    n, width = examples.rows.shape
    r = len(place.mean) if place.basis is None else place.basis.shape[1]
    expected = {
        "labels": (n,),
        "weights": (n,),
        "turns": (n,),
        "sharpness": (n_heads,),
        "prior": (K,),
        "rows": (n, r + 1),
    }
    expected |= {"firth": (width + 1, K)} if firth else {}
    expected |= {"basis": (len(place.mean), r)} if place.basis is not None else {}
    known = {*expected, "mean", "spread", "columns"}
    sound = (
        all(arrays[name].shape == shape for name, shape in expected.items())
        and set(arrays) <= known
        and all(np.isfinite(one).all() for one in arrays.values())
        and all((arrays[name] > 0).all() for name in ("weights", "sharpness", "prior"))
        and 0 <= penalty.lam < np.inf
        and 0 <= penalty.l2 < np.inf
    )
    if not sound:
        raise FirthshotError("its arrays do not fit its classes, features and parameters")
