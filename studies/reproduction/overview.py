"""The tables of studies/reproduction/README.md that run across all studies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from firthshot.report.wording import penalty_name, points
from studies.reproduction.compared import published_entries
from studies.reproduction.kept import ALPHA, Kept, mean
from studies.reproduction.questions import FIRTH, won
from studies.words import change, coefficient, number, short, table

_WAYS_STUDIES = ["lambda-ways", "cosine", "simpleshot"]
_FAMILIES = {
    "chosen": "penalised against λ = 0",
    "contrasts": "method against method, or against a reference head",
    "theory": "λ chosen on the validation classes against the theory's λ",
    "pairs": "study against study: start, solver",
}
Row = dict[str, Any]


def counts(kept: Kept) -> list[str]:
    """Count, study by study, where the penalty helped, harmed, or was not chosen."""
    method = ["study", "bank", "penalty", "prior"]
    rows = []
    for key, some in kept.chosen.group_by(method, maintain_order=True):
        study, bank, penalty, prior = map(str, key)
        held = some.filter(pl.col("p_family") < ALPHA)
        better = held.filter(pl.col("improvement") > 0).height
        rows.append(
            {
                "study": study,
                "penalty": penalty_name(penalty, prior),
                "bank": short(bank),
                "settings": some.height,
                "better": better,
                "worse": held.height - better,
                "λ = 0 chosen": some.filter(pl.col("coefficient") == 0).height,
                "λ at top of grid": int(some["at_edge"].sum()),
                "mean gain": points(mean(some, "improvement")),
                "paper": published_counts(study, penalty, prior),
            }
        )
    return table(rows, left=3)


def published_counts(study: str, penalty: str, prior: str) -> str:
    """Say how many of the paper's gains and losses leave out 0, over all its backbones."""
    found = [
        entry
        for entry in published_entries(study)
        if (entry.penalty, entry.prior) == (penalty, prior)
    ]
    better = sum(entry.improvement > entry.ci for entry in found)
    worse = sum(entry.improvement < -entry.ci for entry in found)
    return f"{better} better, {worse} worse of {len(found)}" if found else ""


def family(kept: Kept) -> list[str]:
    """Say how many tests were made, and how many held after Holm's correction."""
    rows = []
    for name, words in _FAMILIES.items():
        frame: pl.DataFrame = getattr(kept, name)
        column = "improvement" if name == "chosen" else "difference"
        rows.append(
            {
                "comparison": words,
                "tests": frame.height,
                "p < 0.05": frame.filter(pl.col("p_wilcoxon") < ALPHA).height,
                "after Holm": frame.filter(pl.col("p_family") < ALPHA).height,
                "of these": won(frame, column),
            }
        )
    return table(rows)


def classes(kept: Kept) -> list[str]:
    """Count the intervals that leave out 0, over trials and over classes."""
    low, high = pl.col("improvement_classes_low"), pl.col("improvement_classes_high")
    known = kept.chosen.filter(low.is_not_null(), pl.col("coefficient") != 0)
    beyond = pl.col("improvement").abs() > pl.col("improvement_ci")
    return table(
        (
            {
                "study": study,
                "bank": short(str(bank)),
                "settings with λ > 0": some.height,
                "interval over trials leaves out 0": some.filter(beyond).height,
                "interval over classes leaves out 0": some.filter((low > 0) | (high < 0)).height,
            }
            for (study, bank), some in known.group_by(["study", "bank"], maintain_order=True)
        ),
        left=2,
    )


def theory(kept: Kept) -> list[str]:
    """Compare the chosen λ with the theory's, study by study."""
    rows = []
    same = ["study", "bank", "artificial"]
    chosen = kept.chosen.filter(pl.col("theory_improvement").is_not_null())
    for key, some in kept.theory.group_by(same, maintain_order=True):
        mine = chosen.filter(_same(dict(zip(same, key, strict=True)), same))
        study = f"{key[0]}, {key[2]} artificial rows" if "calib" in str(key[0]) else key[0]
        rows.append(
            {
                "study": study,
                "bank": short(str(key[1])),
                "settings": some.height,
                "gain, chosen": points(mean(mine, "improvement")),
                "gain, theory": points(mean(mine, "theory_improvement")),
                "chosen against theory": won(some, "difference"),
                "nll": change(mean(some, "nll_difference")),
                "ECE": change(mean(some, "ece_difference")),
            }
        )
    return table(rows, left=2)


def theory_cosine(kept: Kept) -> list[str]:
    """Show the cosine head's gain at the chosen λ and at the theory's, setting by setting."""
    mine = kept.chosen.filter(FIRTH, pl.col("study") == "cosine")
    numbers = sorted(mine["ways"].unique())
    rows = []
    for key, some in mine.group_by(["bank", "shots"], maintain_order=True):
        row: Row = {"bank": short(str(key[0])), "shots": key[1]}
        cells = {
            line["ways"]: f"{points(line['improvement'])} → {points(line['theory_improvement'])}"
            for line in some.iter_rows(named=True)
        }
        rows.append(row | {f"{number} ways": cells.get(number, "") for number in numbers})
    return table(rows)


def probabilities(kept: Kept) -> list[str]:
    """Show nll and ECE at the λ that was chosen for accuracy, and at the theory's."""
    rows = []
    groups = kept.chosen.filter(FIRTH).group_by(["study", "bank"], maintain_order=True)
    for (study, bank), some in groups:
        row: Row = {"study": study, "bank": short(str(bank))}
        row |= {"gain": points(mean(some, "improvement"))}
        for name, digits in (("nll", 2), ("ece", 3)):
            shown = [number(mean(some, f"{w}{name}"), digits) for w in ("base_", "", "theory_")]
            label = name if name == "nll" else "ECE"
            row |= {f"{label}: λ = 0 → chosen → theory": " → ".join(shown)}
            lower = some.filter(pl.col(f"theory_{name}") < pl.col(f"base_{name}")).height
            row |= {f"{label} lower with theory": f"{lower} of {some.height}"}
        rows.append(row)
    return table(rows, left=2)


def ways(kept: Kept) -> list[str]:
    """Show the λ that is chosen, the best for nll, and the theory's, against the ways."""
    mine = kept.chosen.filter(FIRTH, pl.col("study").is_in(_WAYS_STUDIES))
    numbers = sorted(mine["ways"].unique())
    rows = []
    for key, some in mine.group_by(["study", "bank", "shots"], maintain_order=True):
        row: Row = {"study": key[0], "bank": short(str(key[1])), "shots": key[2]}
        cells = {line["ways"]: _three(kept, line) for line in some.iter_rows(named=True)}
        rows.append(row | {f"{number} ways": cells.get(number, "") for number in numbers})
    return table(rows, left=2)


def _three(kept: Kept, row: Row) -> str:
    sharp = _best(_curve(kept, row), "nll", largest=False)
    return " / ".join(map(coefficient, (row["coefficient"], sharp, row["theory_coefficient"])))


def slopes(kept: Kept) -> list[str]:
    """Fit log λ against log ways, on each bank; the theory's slope at 1 shot is 1."""
    mine = kept.chosen.filter(FIRTH, pl.col("study").is_in(_WAYS_STUDIES))
    rows = []
    for key, some in mine.group_by(["study", "bank", "shots"], maintain_order=True):
        lines = list(some.sort("ways").iter_rows(named=True))
        sharp = [_best(_curve(kept, row), "nll", largest=False) for row in lines]
        number_of = [row["ways"] for row in lines]
        rows.append(
            {
                "study": key[0],
                "bank": short(str(key[1])),
                "shots": key[2],
                "ways": f"{min(number_of)} to {max(number_of)}",
                "λ chosen": _slope(number_of, [row["coefficient"] for row in lines]),
                "best λ for nll": _slope(number_of, sharp),
                "theory": _slope(number_of, [row["theory_coefficient"] for row in lines]),
            }
        )
    return table(rows, left=2)


def _slope(x: Sequence[float], y: Sequence[float]) -> str:
    """Return the slope of log y over log x where y is positive, "–" for fewer than three."""
    both = [(a, b) for a, b in zip(x, y, strict=True) if b > 0]
    if len(both) < 3:
        return "–"
    logs = np.log(np.array(both, float))
    return number(float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0]), 2)


def _curve(kept: Kept, row: Row) -> pl.DataFrame:
    """Return the grid of a line of ``chosen`` on the novel classes."""
    names = ["study", "bank", "head", "penalty", "prior", "ways", "shots", "shots_scheme"]
    novel = (pl.col("split") == "novel") & ~pl.col("theory")
    return kept.all.filter(_same(row, [*names, "artificial"]), novel)


def _same(row: Row, names: Sequence[str]) -> pl.Expr:
    return pl.all_horizontal(pl.col(name) == row[name] for name in names)


def _best(curve: pl.DataFrame, score: str, *, largest: bool) -> float:
    """Return the coefficient with the best score, the smaller of equals."""
    ranked = curve.drop_nulls(score).sort(score, "coefficient", descending=[largest, False])
    return float(ranked["coefficient"][0])


TABLES: dict[str, Callable[[Kept], list[str]]] = {
    "counts": counts,
    "family": family,
    "classes": classes,
    "theory": theory,
    "theory-cosine": theory_cosine,
    "probabilities": probabilities,
    "ways": ways,
    "slopes": slopes,
}
