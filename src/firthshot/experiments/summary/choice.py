"""Choose the coefficient on the validation classes, and say what it does on the novel ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.experiments.statistics import first_best, half_width, paired
from firthshot.experiments.summary.classes import ClassDesign
from firthshot.experiments.summary.published import published_for
from firthshot.experiments.summary.reading import SCORES
from firthshot.experiments.summary.scores import Scored, label

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
