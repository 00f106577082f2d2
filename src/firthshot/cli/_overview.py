"""What a run found as a small table for the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firthshot.experiments.schema import SPLITLESS
from firthshot.experiments.statistics import ALPHA

if TYPE_CHECKING:
    from rich.table import Table

    from firthshot.experiments.summary import Summary

MARK = "*"
MOST_LINES = 40
LONGEST_NAME = 30
_ORDER = ("bank", "source", "head", "penalty", "prior", "ways", "shots", "shots_scheme")


@dataclass(frozen=True)
class Overview:
    """The improvements of a run: what the table shows, the table, and what is to be known of it.

    There is no table where nothing is finished, or where it would be longer than MOST_LINES.
    """

    title: str = ""
    table: Table | None = None
    legend: str = ""


def overview(summary: Summary) -> Overview:
    """Return the improvements in points; without val rows, those of the theory's λ alone.

    Where nothing has a penalty there is nothing to gain, and the accuracies are shown.
    """
    from firthshot.experiments.summary import not_judged, penalised

    if not penalised(summary):
        return _accuracies(summary, "no penalty was trained")
    rows, unjudged = _chosen(summary), not_judged(summary)
    if not rows and not summary.chosen.is_empty():
        return _accuracies(summary, "of the heads without penalty")
    if not rows or len(rows) > MOST_LINES:
        return Overview(legend=" ".join(unjudged))
    if any(row["coefficient"] is not None for row in rows):
        title = "Points of accuracy gained on the novel classes, λ chosen on the val classes:"
    else:
        title = "Accuracy on the novel classes; without val classes no λ (–) was chosen:"
    marked = any(map(_mark, rows))
    legend = f"{MARK} significant: Wilcoxon, Holm-corrected over the table, p < {ALPHA:g}."
    return Overview(title, _table(rows), " ".join([*([legend] if marked else []), *unjudged]))


def _accuracies(summary: Summary, which: str) -> Overview:
    rows = summary.chosen.sort(*_ORDER, "artificial").to_dicts()
    if not rows or len(rows) > MOST_LINES:
        return Overview()
    words = [_place(row) | _accuracy_words(row) for row in rows]
    return Overview(f"Accuracy on the novel classes, {which}:", _lay_out(words))


def _accuracy_words(row: dict[str, Any]) -> dict[str, str]:
    width = row["accuracy_ci"]
    interval = "" if width is None else f" ± {100 * width:.2f}"
    return {
        "artificial": str(row["artificial"]),
        "accuracy %": f"{100 * row['accuracy']:.2f}{interval}",
    }


def _chosen(summary: Summary) -> list[dict[str, Any]]:
    """Return the lines of ``chosen`` that have a penalty, and such settings as have no choice."""
    import polars as pl

    has_penalty = pl.col("penalty") != "none"
    novel = summary.all.filter(has_penalty, pl.col("split") == "novel")
    zero = novel.filter(~pl.col("theory"), pl.col("coefficient") == 0)
    columns = ("coefficient", "improvement", "improvement_ci")
    theory = novel.filter("theory").select(*SPLITLESS, pl.col(*columns).name.prefix("theory_"))
    unchosen = (
        zero.select(*SPLITLESS, base_accuracy="accuracy")
        .join(summary.chosen, on=SPLITLESS, how="anti", nulls_equal=True)
        .join(theory, on=SPLITLESS, how="left", nulls_equal=True)
    )
    both = pl.concat([summary.chosen.filter(has_penalty), unchosen], how="diagonal_relaxed")
    return both.sort(*_ORDER, "artificial").to_dicts()


def _mark(row: dict[str, Any]) -> str:
    """Return the mark of a significant gain or loss."""
    tested = row["coefficient"] and row["improvement"]
    return MARK if tested and row["p_holm"] < ALPHA else ""


def drawn_overview(folder: Path) -> Table | None:
    """Return artificial rows and λ chosen together, where a run has Distribution Calibration."""
    import polars as pl

    file = folder / "summary" / "calibration.csv"
    if not file.is_file():
        return None
    lines = pl.read_csv(file, infer_schema_length=None).sort(*_ORDER)
    # The fair choice first; the paper's is there to compare with its table.
    rows = lines.sort(pl.col("chosen_on") != "val", maintain_order=True).to_dicts()
    return _lay_out([_drawn_words(row) for row in rows]) if 0 < len(rows) <= MOST_LINES else None


def _drawn_words(row: dict[str, Any]) -> dict[str, str]:
    return _place(row) | {
        "chosen on": row["chosen_on"],
        "artificial rows": f"{row['before_artificial']} → {row['artificial']}",
        "base %": f"{100 * row['base_accuracy']:.2f}",
        "λ": f"{row['coefficient']:g}",
        "gain": _gain(row["improvement"], row["improvement_ci"]),
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    words = [_words(row) for row in rows]
    if all(row["theory_coefficient"] is None for row in rows):
        words = [{k: v for k, v in row.items() if not k.startswith("theory")} for row in words]
    return _lay_out(words)


def _lay_out(words: list[dict[str, str]]) -> Table:
    """Return the rows as a table; columns that say the same everywhere are left out."""
    from rich.table import Table

    vary = [name for name in words[0] if len({row[name] for row in words}) > 1]
    silent = ("bank", "source", "penalty", "artificial", "")
    shown = [name for name in words[0] if name in vary or name not in silent]
    table = Table(box=None, padding=(0, 1, 0, 0))
    for name in shown:
        left = name in ("bank", "source", "head", "penalty", "shots", "chosen on", "")
        # A bank may have any name; the numbers beside it must stay readable.
        widest = LONGEST_NAME if name in ("bank", "source") else None
        table.add_column(
            name, justify="left" if left else "right", no_wrap=True, max_width=widest,
            overflow="ellipsis",
        )  # fmt: skip
    for row in words:
        table.add_row(*(row[name] for name in shown))
    return table


def _place(row: dict[str, Any]) -> dict[str, str]:
    balanced = row["shots_scheme"] == "balanced"
    return {
        "bank": row["bank"],
        "source": row["source"] or "",
        "head": row["head"],
        "penalty": "frequency" if row["prior"] == "class-frequency" else row["penalty"],
        "ways": str(row["ways"]),
        "shots": str(row["shots"]) if balanced else row["shots_scheme"],
    }


def _words(row: dict[str, Any]) -> dict[str, str]:
    theory = row["theory_coefficient"]
    return _place(row) | {
        "artificial": str(row["artificial"]),
        "base %": f"{100 * row['base_accuracy']:.2f}",
        "λ": "–" if row["coefficient"] is None else f"{row['coefficient']:g}",
        "gain": _gain(row["improvement"], row["improvement_ci"]),
        "": _mark(row),
        "theory": "" if theory is None else f"{theory:.3g}",
        "theory gain": ""
        if theory is None
        else _gain(row["theory_improvement"], row["theory_improvement_ci"]),
    }


def _gain(mean: float | None, half_width: float | None) -> str:
    """Return points; one trial has no interval, and without a trial there is nothing to tell."""
    if mean is None:
        return "–"
    if not mean and not half_width:
        return "0"
    points = round(100 * mean, 2)
    sign = "+" if points else ""  # as on the page
    return f"{points + 0.0:{sign}.2f}" + (
        "" if half_width is None else f" ± {100 * half_width:.2f}"
    )
