"""The KL rope (Fig A5): predictions of a real fit on the simplex of three classes as λ grows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import Array
from firthshot.banks import Bank
from firthshot.engine import Converged, Linear, Penalty, train
from firthshot.episodes import sample_episodes
from firthshot.errors import FirthshotError
from firthshot.experiments.run.features import transform_split
from firthshot.objective import softmax, theory_coefficient

if TYPE_CHECKING:
    pass


WAYS, SHOTS, QUERIES = 3, 5, 4
COEFFICIENTS = tuple(np.geomspace(1e-3, 1e3, 61).tolist())


@dataclass(frozen=True)
class Paths:
    """Predictions of one trial along λ."""

    bank: str
    transform: str
    classes: tuple[str, ...]  # names of the three classes
    coefficients: Array  # (L,) ascending
    # (L, N, 3) and (L, Q, 3) probabilities
    support: Array
    query: Array
    # (N,) and (Q,)
    support_labels: Array
    query_labels: Array
    theory: float  # the tuning-free coefficient K rank(X) / (2N) of this support


def fit_paths(bank: Bank, transform: str = "none") -> Paths | None:
    """Train the linear head to its optimum along λ on trial 0 of three classes of a bank.

    Returns None where no split has three classes with enough finite rows.
    """
    split = next((s for s in ("novel", "val", "base") if _is_enough(bank, s)), None)
    if split is None:
        return None
    sampled = sample_episodes(bank, split, ways=WAYS, shots=SHOTS, queries=QUERIES)
    try:
        features = transform_split(bank, split, transform)
    except FirthshotError:
        return None
    episodes = replace(
        sampled,
        support=features.positions(sampled.support),
        query=features.positions(sampled.query),
    )
    trial = episodes[0]
    support, query = (
        features.values[rows].astype(np.float64) for rows in (trial.support, trial.query)
    )
    if not (np.isfinite(support).all() and np.isfinite(query).all()):
        return None
    penalty, solver = Penalty("firth", COEFFICIENTS), Converged(tolerance=1e-8)
    found = train(
        features.values, episodes, Linear(), solver, penalty, dtype="float64", keep=("weights",)
    ).kept["weights"][0]
    predicted = [
        softmax(X @ found["coef"].transpose(0, 2, 1) + found["intercept"][:, None])
        for X in (support, query)
    ]
    names = bank.classes(split)
    return Paths(
        bank.name,
        transform,
        tuple(names[c] for c in trial.classes),
        np.array(COEFFICIENTS),
        predicted[0],
        predicted[1],
        trial.support_labels,
        trial.query_labels,
        float(theory_coefficient(support, WAYS).value),
    )


def _is_enough(bank: Bank, split: str) -> bool:
    if split not in bank.splits:
        return False
    sizes = [len(rows) for rows in bank.class_rows(split)]
    return len(sizes) >= WAYS and min(sizes) >= SHOTS + QUERIES
