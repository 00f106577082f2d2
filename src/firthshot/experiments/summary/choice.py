"""Choose the coefficient on the validation classes, and say what it does on the novel ones.

With Distribution Calibration, artificial rows and λ are chosen together: one line of
``calibration.csv`` per setting and way of choosing. *Before* is coefficient 0, *after* the best
coefficient, each with the number of artificial rows that is best for it. Both are chosen on the
validation classes (``chosen_on = "val"``), or, to reproduce the paper's Table 1, on the very novel
trials that are reported (``chosen_on = "novel (as published)"``), which favours both and is no
estimate of what a user would get.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl

from firthshot.arrays import Array
from firthshot.experiments.schema import KEYS, grouped
from firthshot.experiments.statistics import first_best, half_width, paired
from firthshot.experiments.summary.classes import ClassDesign
from firthshot.experiments.summary.columns import CHOSEN
from firthshot.experiments.summary.published import published_for
from firthshot.experiments.summary.reading import SCORES, Index, splits
from firthshot.experiments.summary.scores import Scored, label, load_scored

Line = dict[str, Any]


@dataclass(frozen=True)
class LambdaChoice:
    """A coefficient and how it was come by."""

    coefficient: float
    # whether it is the largest candidate of a grid of several: a larger one might be better
    at_edge: bool = False
    # coefficients that could not be compared, for want of an ok row in every trial
    excluded: tuple[float, ...] = ()


@dataclass(frozen=True)
class Chosen:
    """A method at its chosen coefficient on the novel trials, kept for contrasts."""

    key: dict[str, Any]
    coefficient: float
    trials: Array
    scores: dict[str, Array]


def choose(val: Scored) -> LambdaChoice:
    """Return the coefficient with the largest mean accuracy, of equal ones the smallest.

    A candidate has an ok row in every trial that has one at coefficient 0: means over different
    trials cannot be compared. The theory's coefficient is no candidate. Means that differ by less
    than 2⁻²⁴ are equal: accuracies are stored as float32.
    """
    accuracy = val.scores["accuracy"]
    whole = np.isfinite(accuracy).all(axis=1)
    candidates = val.coefficients[whole]
    best = float(candidates[first_best(accuracy[whole].mean(axis=1))])
    at_edge = len(candidates) > 1 and best == candidates[-1]
    return LambdaChoice(best, at_edge, tuple(val.coefficients[~whole].tolist()))


def partner(novel: Scored, vals: list[Scored]) -> Scored | None:
    """Find the val setting of a novel one: the only one, or the one with the same query rule."""
    if len(vals) > 1:
        vals = [val for val in vals if val.key["query_rule"] == novel.key["query_rule"]]
    return vals[0] if len(vals) == 1 else None


def reported_coefficients(index: Index, novel: Scored) -> dict[float, bool]:
    """Return the λ above 0 that a report speaks of, and whether each is the theory's."""
    own = tuple(novel.key.values())
    keys = next(keys for _, keys in splits(index) if own in keys.get("novel", ()))
    vals = [load_scored(index, key) for key in keys.get("val", ())]
    val = partner(novel, [val for val in vals if len(val.trials)])
    found = {choose(val).coefficient: False} if val else {}
    if novel.theory:
        found.setdefault(novel.theory_coefficient, True)
    found.pop(0.0, None)
    return found


def every_line(scored: Scored, pooled: dict[float | None, float]) -> list[Line]:
    """Return the lines of ``all.csv`` for one key: each coefficient, then the theory's."""
    lines = [
        _scores_line(scored, {name: scored.scores[name][l] for name in SCORES})
        | {"coefficient": value, "theory": False, "ece_pooled": pooled.get(value)}
        for l, value in enumerate(scored.coefficients.tolist())
    ]
    if scored.theory:
        about: Line = {"coefficient": scored.theory_coefficient, "theory": True}
        about |= {"ece_pooled": pooled.get(None)}
        lines.append(_scores_line(scored, scored.theory) | about)
    return lines


def _scores_line(scored: Scored, scores: dict[str, Array]) -> Line:
    """Summarise one row of trials against coefficient 0 of the same trials."""
    ok = np.isfinite(scores["accuracy"])
    line: Line = {**scored.key, "trials": int(ok.sum())}
    if not line["trials"]:
        return line
    accuracy = scores["accuracy"][ok]
    differences = accuracy - scored.scores["accuracy"][scored.at(0.0)][ok]
    line |= {name: float(scores[name][ok].mean()) for name in SCORES}
    line |= {"accuracy_ci": half_width(accuracy), "improvement": float(differences.mean())}
    line["improvement_ci"] = half_width(differences) if differences.any() else 0.0
    return line


def chosen_line(
    novel: Scored,
    choice: LambdaChoice,
    design: ClassDesign | None,
    pooled: dict[float | None, float],
) -> tuple[Line, Chosen]:
    """Return the line of ``chosen.csv`` for one method, and what contrasts need of it."""
    at, zero = novel.at(choice.coefficient), novel.at(0.0)
    ok = np.isfinite(novel.scores["accuracy"][at])
    trials = novel.trials[ok]
    ours = {name: novel.scores[name][at, ok] for name in SCORES}
    base = {name: novel.scores[name][zero, ok] for name in SCORES}
    line: Line = {**novel.key, "coefficient": choice.coefficient, "at_edge": choice.at_edge}
    line |= paired_line("improvement", ours["accuracy"] - base["accuracy"], trials, design)
    line |= {name: float(values.mean()) for name, values in ours.items()}
    line |= {f"base_{name}": float(values.mean()) for name, values in base.items()}
    if line["base_accuracy"]:
        line["relative_improvement"] = line["improvement"] / line["base_accuracy"]
    line["accuracy_ci"] = half_width(ours["accuracy"])
    line["base_accuracy_ci"] = half_width(base["accuracy"])
    line |= {"ece_pooled": pooled.get(choice.coefficient), "base_ece_pooled": pooled.get(0.0)}
    line |= _theory_line(novel, design) | published_line(novel.key)
    kept = {name: values.astype(np.float32) for name, values in ours.items()}
    return line, Chosen(novel.key, choice.coefficient, trials, kept)


def paired_line(name: str, differences: Array, trials: Array, design: ClassDesign | None) -> Line:
    """Return the columns of matched differences, with an interval that also resamples classes."""
    found = paired(differences)
    mine = design.only(trials) if design is not None else None
    low, high = (mine.interval(differences) if mine is not None else None) or (None, None)
    return {
        "trials": found.trials,
        name: found.mean,
        f"{name}_ci": found.ci,
        f"{name}_classes_low": low,
        f"{name}_classes_high": high,
        "share_won": found.share_won,
        "share_lost": found.share_lost,
        "p_wilcoxon": found.p,
    }


def _theory_line(novel: Scored, design: ClassDesign | None) -> Line:
    if not novel.theory:
        return {}
    ok = np.isfinite(novel.theory["accuracy"])
    line: Line = {
        "theory_coefficient": novel.theory_coefficient,
        "theory_exact": novel.theory_exact,
        "theory_trials": int(ok.sum()),
    }
    if not ok.any():
        return line
    base = novel.scores["accuracy"][novel.at(0.0), ok]
    differences = novel.theory["accuracy"][ok] - base
    found = paired_line("improvement", differences, novel.trials[ok], design)
    line |= {f"theory_{name}": value for name, value in found.items()}
    return line | {f"theory_{name}": float(novel.theory[name][ok].mean()) for name in SCORES}


def published_line(key: dict[str, Any]) -> Line:
    """Return the published numbers of the same cell: the paper's table, and the authors' file."""
    line: Line = {}
    for entry in reversed(published_for(key)):  # the closest last, so that it stays
        start = f"published_{entry.source}"
        where = f"{entry.name}: {entry.file}@{entry.commit}"
        line[start] = entry.name if entry.source == "table" else where
        values = ("before", "after", "improvement", "coefficient")
        line |= {f"{start}_{name}": getattr(entry, name) for name in values}
        line[f"{start}_improvement_ci"] = entry.ci
    return line


def remarks(val: Scored, choice: LambdaChoice) -> list[str]:
    """Say what a reader must know about a choice."""
    name, said = label(val.key), []
    if choice.at_edge:
        said.append(
            f"{name}: the chosen coefficient {choice.coefficient:g} is the largest of the grid; "
            "extend the grid."
        )
    if choice.excluded:
        which = ", ".join(f"{value:g}" for value in choice.excluded)
        said.append(
            f"{name}: no candidate for the choice, lacking an ok row in some val trial: {which}."
        )
    if val.key["actual_ways"] != val.key["ways"]:
        said.append(
            f"{name}: val has too few classes, so the coefficient was chosen at "
            f"{val.key['actual_ways']} ways instead of {val.key['ways']}."
        )
    return said


PUBLISHED_WAY = "novel (as published)"
_KEYS = {name: CHOSEN[name] for name in KEYS if name in CHOSEN and name != "artificial"}

CALIBRATION: dict[str, Any] = {
    **_KEYS,
    "chosen_on": pl.String,
    "before_artificial": pl.Int32,
    "artificial": pl.Int32,
    "coefficient": pl.Float64,
    "trials": pl.Int64,
    **dict.fromkeys(
        (
            *("base_accuracy", "accuracy", "accuracy_ci", "improvement", "improvement_ci"),
            *("improvement_ci_as_published", "p_wilcoxon"),
            *("published_before", "published_after"),
            *("published_improvement", "published_improvement_ci"),
        ),
        pl.Float64,
    ),
}


def calibration_lines(drawn: list[tuple[Scored, Scored]]) -> Iterator[Line]:
    """Yield the lines of every setting, both ways of choosing.

    A setting has validation and novel trials for each number of artificial rows.
    """
    setting = itemgetter(*_KEYS)
    for some in grouped(drawn, lambda one: setting(one[1].key)).values():
        vals, novels = zip(*sorted(some, key=lambda one: one[1].key["artificial"]), strict=True)
        yield _line(novels, vals, "val")
        yield _line(novels, novels, PUBLISHED_WAY)


def _line(novels: Sequence[Scored], judged: Sequence[Scored], chosen_on: str) -> Line:
    coefficients = [choose(one).coefficient for one in judged]
    # They stand in the order of their artificial rows: of equals, the fewest.
    before = first_best(np.array([_mean(one, 0.0) for one in judged]))
    pairs = zip(judged, coefficients, strict=True)
    after = first_best(np.array([_mean(one, lam) for one, lam in pairs]))
    lam = coefficients[after]
    ours, base = novels[after], novels[before]
    _, mine, theirs = np.intersect1d(ours.trials, base.trials, return_indices=True)
    at_lam, at_zero = ours.at(lam), ours.at(0.0)
    accuracy = ours.scores["accuracy"][at_lam, mine]
    differences = accuracy - base.scores["accuracy"][base.at(0.0), theirs]
    own = ours.scores["accuracy"][at_lam] - ours.scores["accuracy"][at_zero]
    ok = np.isfinite(differences)
    return {
        **{name: ours.key[name] for name in _KEYS},
        "chosen_on": chosen_on,
        "before_artificial": base.key["artificial"],
        "artificial": ours.key["artificial"],
        "coefficient": lam,
        **paired_line("improvement", differences[ok], ours.trials[mine][ok], None),
        "base_accuracy": float((accuracy - differences)[ok].mean()),
        "accuracy": float(accuracy[ok].mean()),
        "accuracy_ci": half_width(accuracy[ok]),
        "improvement_ci_as_published": half_width(own[np.isfinite(own)]),
        **_published(ours.key),
    }


def _mean(scored: Scored, coefficient: float) -> float:
    return float(np.nanmean(scored.scores["accuracy"][scored.at(coefficient)]))


def _published(key: dict[str, Any]) -> Line:
    """Return the paper's number that is itself a choice among numbers of artificial rows."""
    for entry in published_for(key):
        if entry.artificial is None:
            values = {name: getattr(entry, name) for name in ("before", "after", "improvement")}
            columns: Line = {f"published_{name}": value for name, value in values.items()}
            return columns | {"published_improvement_ci": entry.ci}
    return {}
