"""One page of results over all banks, from the summaries of runs of the preset ``rivals``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl

from firthshot.engine import registered_heads
from studies.pages import fill_pages

HERE = Path(__file__).parent
KEYS = ["bank", "ways", "shot", "head"]
FIGURES = [
    "penalty", "coefficient", "trials", "base_accuracy", "accuracy", "accuracy_ci", "improvement",
    "improvement_ci", "p_holm",
]  # fmt: skip
SHOTS = ("1", "5", "10", "unbalanced-8", "unbalanced-15")
PENALTIES = {"firth": " + Firth", "l2": " + L2"}
_LEVEL = 0.05


def collect(folders: Iterable[Path], least: int) -> pl.DataFrame:
    """Return the kept lines with those of runs that have at least so many trials in their place."""
    kept = pl.read_csv(HERE / "results.csv", schema_overrides={"shot": pl.String})
    new = [_lines(folder).filter(pl.col("trials") >= least) for folder in folders]
    return (
        pl.concat([kept, *new], how="vertical_relaxed")
        .sort(*KEYS, "trials")
        .unique(KEYS, keep="last", maintain_order=True)
    )


def _lines(folder: Path) -> pl.DataFrame:
    """Return one line for every method and setting of a run."""
    scheme = pl.col("shots_scheme")
    shot = pl.when(scheme == "balanced").then(pl.col("shots").cast(pl.String)).otherwise(scheme)
    found = pl.read_csv(folder / "summary" / "chosen.csv").with_columns(shot.alias("shot"))
    return found.select(*KEYS, *FIGURES).with_columns(pl.col(pl.Float64).round(5))


def write(results: pl.DataFrame) -> None:
    """Write ``results.csv`` and the tables of the page."""
    results.write_csv(HERE / "results.csv")
    tables = {
        f"{ways} ways {shot}": _table(results.filter(ways=ways, shot=shot))
        for ways in (5, 20)
        for shot in SHOTS
    }
    fill_pages(HERE, tables | {"Firth in TIM": _tim(results)})


def method(head: str, penalty: str) -> str:
    """Return the name of a method."""
    return (registered_heads()[head].words or head) + PENALTIES.get(penalty, "")


def _table(setting: pl.DataFrame) -> list[str]:
    """Return a table of methods by banks, inductive methods first, best mean first."""
    counts = setting.group_by("bank").agg(low=pl.min("trials"), high=pl.max("trials")).sort("bank")
    banks = counts["bank"].to_list()
    titles = [
        f"{bank} ({low})" if low == high else f"{bank} ({low}–{high})"
        for bank, low, high in counts.rows()
    ]
    lines = [f"| method | {' | '.join(titles)} |", "| --- |" + " ---: |" * len(banks)]
    cells = {(row["head"], row["bank"]): row for row in setting.to_dicts()}
    means = setting.group_by("head", "penalty").agg(pl.len(), pl.col("accuracy").mean())
    order = sorted(
        means.rows(),
        key=lambda one: (registered_heads()[one[0]].transductive, -one[2], -one[3], one[0]),
    )
    for head, penalty, *_ in order:
        shown = [_cell(cells.get((head, bank))) for bank in banks]
        lines.append(f"| {method(head, penalty)} | {' | '.join(shown)} |")
    return lines


def _cell(row: dict[str, float] | None) -> str:
    return "–" if row is None else f"{100 * row['accuracy']:.1f} ± {100 * row['accuracy_ci']:.1f}"


def _tim(results: pl.DataFrame) -> list[str]:
    """Return what a chosen λ of Firth adds to TIM over λ = 0."""
    titles = ("ways", "shots", "head", "mean gain, points", "banks with a gain",
              "significant gains", "significant losses")  # fmt: skip
    lines = [f"| {' | '.join(titles)} |", "| ---: | --- | --- |" + " ---: |" * 4]
    for ways in (5, 20):
        for shot in SHOTS:
            for head in ("tim", "tim-gd"):
                own = results.filter(ways=ways, shot=shot, head=head).drop_nulls("improvement")
                if len(own):
                    lines.append(f"| {ways} | {shot} | {head} | {' | '.join(_gains(own))} |")
    return lines


def _gains(own: pl.DataFrame) -> Iterator[str]:
    gain, clear = own["improvement"], own["p_holm"] < _LEVEL
    yield f"{100 * own['improvement'].to_numpy().mean():+.2f}"
    yield f"{int((gain > 0).sum())} of {len(own)}"
    yield str(int((clear & (gain > 0)).sum()))
    yield str(int((clear & (gain < 0)).sum()))


def main(folders: Sequence[Path], least: int) -> None:
    """Take over the results of run folders."""
    write(collect(folders, least))
