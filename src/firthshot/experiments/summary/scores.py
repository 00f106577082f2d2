"""Matched scores: trials × coefficients, of the trials that have a coefficient 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from firthshot.arrays import Array
from firthshot.errors import FirthshotError
from firthshot.experiments.schema import KEYS
from firthshot.experiments.spec.shots import shots_in_words
from firthshot.experiments.summary.reading import SCORES, Index, Key

# How far the scores of one trial and coefficient may differ between two runs, by rounding: with
# another number of coefficients beside it, or on another kind of CPU, products are summed in
# another order. Accuracy jumps by whole queries.
_ROUNDING = {"accuracy": 0.02, "nll": 1e-4, "brier": 1e-4}


@dataclass(frozen=True)
class Scored:
    """The trials of one key that have a coefficient 0, as matrices."""

    key: dict[str, Any]  # the values of KEYS by name
    coefficients: Array  # (L,) the grid, ascending
    trials: Array  # (T,) ascending
    scores: dict[str, Array]  # name → (L, T), NaN where a trial did not end well
    # name → (T,), the same for the tuning-free coefficient; empty where it was not trained
    theory: dict[str, Array] = field(default_factory=dict)
    # of the theory's rows
    theory_coefficient: float = float("nan")
    theory_exact: bool = False
    dropped: int = 0  # trials left out because coefficient 0 is missing or did not end well
    # (coefficient, status) → rows that did not end well
    failures: dict[tuple[float, str], int] = field(default_factory=dict)
    separable: int = 0  # trials without an optimum at coefficient 0, scored at a tiny ridge

    def at(self, coefficient: float) -> int:
        """Return the row of a coefficient of the grid, -1 where it is not in it."""
        found = np.flatnonzero(self.coefficients == coefficient)
        return int(found[0]) if len(found) else -1

    def gains(self, coefficient: float, theory: bool = False) -> Array:
        """Return the improvement of every trial over λ = 0, at a λ of the grid or the theory's."""
        accuracy = self.scores["accuracy"]
        ours = self.theory["accuracy"] if theory else accuracy[self.at(coefficient)]
        return np.asarray(ours - accuracy[self.at(0.0)])


def ignores_coefficient(scored: Scored) -> bool:
    """Tell whether a head is the same at every coefficient: it has no λ to choose."""
    nll = scored.scores["nll"]
    return len(nll) > 1 and bool((nll == nll[:1]).all())


def load_scored(index: Index, key: Key) -> Scored:
    """Read the rows of a key and match them by trial."""
    named = dict(zip(KEYS, key, strict=True))
    frame = index.load(key)
    grid, beside = frame.filter(~pl.col("theory")), frame.filter(pl.col("theory"))
    coefficients, row = np.unique(grid["coefficient"].to_numpy(), return_inverse=True)
    trials, scores = _matrix(grid, row, len(coefficients), named)
    matched = np.isfinite(scores["accuracy"][coefficients == 0]).any(axis=0)
    return Scored(
        named,
        coefficients,
        trials[matched],
        {name: values[:, matched] for name, values in scores.items()},
        dropped=frame["trial"].n_unique() - int(matched.sum()),
        failures=_failures(frame),
        separable=frame.filter(pl.col("status") == "separable")["trial"].n_unique(),
        **_theory(beside, trials[matched], named),
    )


def _failures(frame: pl.DataFrame) -> dict[tuple[float, str], int]:
    bad = frame.filter(~pl.col("ok")).group_by("coefficient", "status").len()
    return {(coefficient, status): n for coefficient, status, n in bad.sort(pl.all()).iter_rows()}


def _matrix(
    frame: pl.DataFrame, row: Array, rows: int, named: dict[str, Any]
) -> tuple[Array, dict[str, Array]]:
    """Put scores into (coefficients, trials) matrices; rows told twice must agree."""
    trials, column = np.unique(frame["trial"].to_numpy(), return_inverse=True)
    place = row * len(trials) + column
    ok = frame["ok"].to_numpy()
    _refuse_disagreement(frame, place, rows * len(trials), named)
    scores = {}
    for name in SCORES:
        flat = np.full(rows * len(trials), np.nan)
        flat[place[ok]] = frame[name].to_numpy()[ok]
        scores[name] = flat.reshape(rows, len(trials))
    return trials, scores


def _refuse_disagreement(
    frame: pl.DataFrame, place: Array, size: int, named: dict[str, Any]
) -> None:
    if len(place) == 0 or np.bincount(place, minlength=size).max() <= 1:
        return
    told = frame.select("status", *_ROUNDING).with_columns(place=place)
    apart = [
        pl.col(name).max() - pl.col(name).min() > most * (1 + pl.col(name).max().abs())
        for name, most in _ROUNDING.items()
    ]
    differ = pl.any_horizontal(pl.col("status").n_unique() > 1, *apart).fill_null(value=False)
    if told.group_by("place").agg(differ=differ)["differ"].any():
        raise FirthshotError(
            f"{label(named)}, {named['split']}: the same trial and coefficient have different "
            "scores in different parts, so they are not the same experiment: summarise them apart."
        )


def _theory(frame: pl.DataFrame, trials: Array, named: dict[str, Any]) -> dict[str, Any]:
    if frame.is_empty():
        return {}
    there, scores = _matrix(frame, np.zeros(len(frame), np.int64), 1, named)
    at = np.clip(np.searchsorted(there, trials), 0, len(there) - 1)
    known = there[at] == trials
    exact = frame.filter(pl.col("status") != "invalid")["theory_exact"]
    return {
        "theory": {name: np.where(known, found[0, at], np.nan) for name, found in scores.items()},
        "theory_coefficient": float(frame["coefficient"].to_numpy().mean()),
        "theory_exact": len(exact) > 0 and bool(exact.all()),
    }


def label(key: dict[str, Any]) -> str:
    """Name a setting in a sentence."""
    drawn = f", {key['artificial']} artificial rows" if key["source"] else ""
    return f"{place_label(key)}, {key['head']} ({key['solver']}), {penalty_label(key)}{drawn}"


def penalty_label(key: dict[str, Any]) -> str:
    """Name a penalty, with its prior where that is not the uniform one."""
    return key["penalty"] if key["prior"] == "uniform" else f"{key['penalty']} ({key['prior']})"


def place_label(key: dict[str, Any]) -> str:
    """Name where a setting's trials are drawn: bank, ways and shots."""
    shots = shots_in_words(key["shots"], key["shots_scheme"])
    return f"{key['bank']}, {key['ways']}-way {shots}"
