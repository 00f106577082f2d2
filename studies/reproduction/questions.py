"""The tables of studies/reproduction/README.md that answer the questions about Firth's use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from firthshot.report.wording import penalty_name, points
from studies.reproduction.kept import ALPHA, Kept, mean
from studies.words import change, coefficient, gain, percent, short, span, table

EVAL, SORTED = "mini-resnet10", "mini-resnet10-bn-train-sorted"
REFERENCES = ("centroid", "least-squares")
FIRTH = (pl.col("penalty") == "firth") & (pl.col("prior") == "uniform")
Row = dict[str, Any]


def extraction(kept: Kept) -> list[str]:
    """Compare the two ways of extracting the same pictures, study by study."""
    rows = []
    firth = kept.chosen.filter(FIRTH, pl.col("bank").is_in([EVAL, SORTED]))
    for (study, ways), some in firth.group_by(["study", "ways"], maintain_order=True):
        row: Row = {"study": study, "ways": ways, "settings": 0, "chance": percent(1 / int(ways))}
        for bank, words in ((EVAL, "evaluation mode"), (SORTED, "sorted batches")):
            mine = some.filter(pl.col("bank") == bank)
            row["settings"] = max(row["settings"], mine.height)
            row |= {
                f"λ = 0, {words}": _range(mine["base_accuracy"]),
                f"mean gain, {words}": points(mean(mine, "improvement")) if len(mine) else "",
                f"after Holm, {words}": won(mine, "improvement"),
            }
        if some["bank"].n_unique() == 2:
            rows.append(row)
    return table(rows)


def _range(values: pl.Series) -> str:
    low, high = values.min(), values.max()
    return f"{percent(low)} to {percent(high)}"  # type: ignore[arg-type]


def start(kept: Kept) -> list[str]:
    """Compare a start at zero with the random one."""
    gains = _gains(kept)
    mine = kept.pairs.filter(pl.col("study") == "zero-start", pl.col("at") == "0")
    return table(
        {
            "bank": short(row["bank"]),
            "shots": row["shots"],
            "random start, λ = 0": percent(row["against_accuracy"]),
            "zero − random": difference_of(row),
            "spread over trials": f"{100 * row['difference_sd']:.2f}",
            "gain, random start": _gain_in(gains, row, "against_study"),
            "gain, zero start": _gain_in(gains, row, "study"),
        }
        for row in mine.iter_rows(named=True)
    )


def l2(kept: Kept) -> list[str]:
    """Compare Firth with an L2 tuned over a wide grid, on the same trials."""
    mine = kept.contrasts.filter(
        pl.col("study").is_in(["l2-wide", "converged", "cosine-l2"]),
        pl.col("against_penalty") == "l2",
    )
    return table(
        (
            {
                "study": row["study"],
                "bank": short(row["bank"]),
                "ways": row["ways"],
                "shots": row["shots"],
                "λ": coefficient(row["coefficient"]),
                "L2": coefficient(row["against_coefficient"]),
                "accuracy, Firth": percent(row["accuracy"]),
                "accuracy, L2": percent(row["against_accuracy"]),
                "Firth − L2": difference_of(row),
                "nll": change(row["nll_difference"]),
                "ECE": change(row["ece_difference"]),
            }
            for row in mine.iter_rows(named=True)
        ),
        left=2,
    )


def converged(kept: Kept) -> list[str]:
    """Compare the optimum with the published early stopping."""
    gains = _gains(kept)
    mine = kept.pairs.filter(pl.col("study") == "converged", pl.col("penalty") == "firth")
    zero, chosen = (mine.filter(pl.col("at") == at) for at in ("0", "chosen"))
    rows = zero.join(chosen, on=["bank", "shots"], suffix="_chosen").iter_rows(named=True)
    return table(
        {
            "bank": short(row["bank"]),
            "shots": row["shots"],
            "SGD, λ = 0": percent(row["against_accuracy"]),
            "optimum − SGD, λ = 0": difference_of(row),
            "each at its λ": difference_of(_ending(row, "_chosen")),
            "nll, λ = 0": change(row["nll_difference"]),
            "nll, each at its λ": change(row["nll_difference_chosen"]),
            "gain, SGD": _gain_in(gains, row, "against_study"),
            "gain, optimum": _gain_in(gains, row, "study"),
        }
        for row in rows
    )


def longer(kept: Kept) -> list[str]:
    """Compare the cosine head trained for 1,000 passes with the published number of them."""
    gains = _gains(kept)
    mine = kept.pairs.filter(pl.col("study").is_in(["cosine-longer", "cosine-longer-50"]))
    place = ["study", "bank", "ways", "shots"]
    rows = []
    for (study, bank, ways, shots), some in mine.group_by(place, maintain_order=True):
        at = {row["at"]: row for row in some.iter_rows(named=True)}
        rows.append(
            {
                "bank": short(str(bank)),
                "ways": ways,
                "shots": shots,
                "λ = 0": percent(at["0"]["against_accuracy"]),
                "gain, Firth": gains["cosine", bank, ways, shots],
                "gain, longer at λ = 0": difference_of(at["0"]),
                "longer − Firth": difference_of(at["0 against chosen"]),
                "nll": change(at["0 against chosen"]["nll_difference"]),
                "ECE": change(at["0 against chosen"]["ece_difference"]),
                "gain, Firth after longer": gains[study, bank, ways, shots],
            }
        )
    return table(rows)


def references(kept: Kept) -> list[str]:
    """Compare Firth, and the ridge at the optimum, with nearest class mean and least squares."""
    ridge = (pl.col("study") == "converged") & (pl.col("penalty") == "l2")
    mine = kept.contrasts.filter(FIRTH | ridge, pl.col("against_head").is_in(list(REFERENCES)))
    rows = []
    method = ["study", "bank", "penalty"]
    for (study, bank, penalty), some in mine.group_by(method, maintain_order=True):
        means, squares = (some.filter(pl.col("against_head") == head) for head in REFERENCES)
        rows.append(
            {
                "study": f"{study}, L2" if penalty == "l2" else study,
                "bank": short(str(bank)),
                "settings": means.height,
                "head at its λ": percent(mean(means, "accuracy")),
                "nearest mean": percent(mean(means, "against_accuracy")),
                "least squares": percent(mean(squares, "against_accuracy")),
                "against nearest mean": won(means, "difference"),
                "against least squares": won(squares, "difference"),
                "nll − least squares": change(mean(squares, "nll_difference")),
            }
        )
    return table(rows, left=2)


def methods(kept: Kept) -> list[str]:
    """Compare Firth with its rivals of the paper: another prior, the confidence penalty."""
    mine = kept.contrasts.filter(
        pl.col("study").is_in(["imbalanced", "imbalanced-mlp", "confidence"]),
        ~pl.col("against_head").is_in(list(REFERENCES)),
    )
    return table(
        (
            {
                "study": row["study"],
                "bank": short(row["bank"]),
                "against": penalty_name(row["against_penalty"], row["against_prior"]),
                "shots": shots_of(row),
                "Firth − other": difference_of(row),
                "over classes": span(row["difference_classes_low"], row["difference_classes_high"]),
                "nll": change(row["nll_difference"]),
                "ECE": change(row["ece_difference"]),
            }
            for row in mine.iter_rows(named=True)
        ),
        left=3,
    )


def drawn(kept: Kept) -> list[str]:
    """Show Distribution Calibration as Table 1 does: the better of 0 and 750 artificial rows."""
    lines = kept.calibration.sort("study", pl.col("chosen_on") != "val", "ways", "shots")
    return table(
        (
            {
                "study": row["study"],
                "chosen on": row["chosen_on"],
                "ways": row["ways"],
                "shots": row["shots"],
                "artificial rows, before → after": f"{row['before_artificial']} → "
                f"{row['artificial']}",
                "λ": coefficient(row["coefficient"]),
                "before": percent(row["base_accuracy"]),
                "gain": gain(row["improvement"], row["improvement_ci"]),
            }
            for row in lines.iter_rows(named=True)
        ),
        left=2,
    )


def won(some: pl.DataFrame, column: str) -> str:
    """Say how many lines are better and how many worse after Holm's correction."""
    held = some.filter(pl.col("p_family") < ALPHA)
    better = held.filter(pl.col(column) > 0).height
    return f"{better} better, {held.height - better} worse"


def gain_of(row: Row) -> str:
    """Return the improvement of a line of ``chosen``."""
    return gain(row["improvement"], row["improvement_ci"], row["p_family"] < ALPHA)


def difference_of(row: Row) -> str:
    """Return the difference of a line of ``contrasts``, ``theory`` or ``pairs``."""
    return gain(row["difference"], row["difference_ci"], row["p_family"] < ALPHA)


def shots_of(row: Row) -> str:
    """Return the shots, or the name of their scheme."""
    balanced = row["shots_scheme"] == "balanced"
    return str(row["shots"]) if balanced else str(row["shots_scheme"])


def _ending(row: Row, ending: str) -> Row:
    """Return the columns of the right side of a join under their own names."""
    return {name.removesuffix(ending): row[name] for name in row if name.endswith(ending)}


def _gains(kept: Kept) -> dict[tuple[Any, ...], str]:
    """Return the gain of Firth by study, bank, ways and shots."""
    rows = kept.chosen.filter(FIRTH, pl.col("shots_scheme") == "balanced").iter_rows(named=True)
    return {(row["study"], row["bank"], row["ways"], row["shots"]): gain_of(row) for row in rows}


def _gain_in(gains: dict[tuple[Any, ...], str], pair: Row, study: str) -> str:
    """Return the gain of Firth in one of the two studies of a pair."""
    return gains[pair[study], pair["bank"], pair["ways"], pair["shots"]]


TABLES: dict[str, Callable[[Kept], list[str]]] = {
    "extraction": extraction,
    "start": start,
    "l2": l2,
    "converged": converged,
    "longer": longer,
    "references": references,
    "methods": methods,
    "drawn": drawn,
}
