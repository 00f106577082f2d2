"""The table and the figure of README.md, from the kept results."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from firthshot.report.plots.style import (
    Drawing,
    legend_above,
    look_of,
    panels,
    style,
    write_drawing,
)
from studies.jeffreys_bias.simulation import COEFFICIENTS, ESTIMATORS, SIZES, Truth, truths
from studies.pages import fill_pages
from studies.words import table as markdown

FOLDER = Path(__file__).parent
LOOKS = {name: look_of(name, at) for at, name in enumerate(("Firth", "ML", "ridge"))}
PRINTED = (128, 256, 512, 2048)


def write_page(folder: Path = FOLDER) -> None:
    """Fill in the table of the page, and draw its figure."""
    results = pl.read_csv(folder / "results.csv")
    fill_pages(folder, {"bias": bias_table(results)})
    draw(results, folder / "bias.png")
    for model, share in (
        results.group_by("model", maintain_order=True).agg(pl.col("separated").max()).iter_rows()
    ):
        print(f"largest share of separated replicates, {model}: {share:.1e}")


def shown(results: pl.DataFrame, truth: Truth) -> pl.DataFrame:
    """Return the lines of a model's coefficient that table and figure show."""
    contrast, coefficient = truth.shown
    return results.filter(
        model=truth.name, contrast=contrast + 1, coefficient=COEFFICIENTS[coefficient]
    )


def bias_table(results: pl.DataFrame) -> list[str]:
    """Return bias, variance and mean squared error, each times N, as Markdown."""
    rows = [
        {
            "model": row["model"],
            "N": row["N"],
            "estimator": row["estimator"],
            "N × bias (95 %)": f"{row['N_bias']:+.3f} ± {row['N_bias_half_width']:.3f}",
            "N × variance": f"{row['N_variance']:.3f}",
            "N × MSE (95 %)": f"{row['N_mse']:.3f} ± {row['N_mse_half_width']:.3f}",
        }
        for truth in truths()
        for row in shown(results, truth)
        .filter(pl.col("N").is_in(PRINTED))
        .sort("N", "estimator", maintain_order=True)
        .iter_rows(named=True)
    ]
    return markdown(rows, left=6)


def draw(results: pl.DataFrame, path: Path) -> None:
    """Draw bias and mean squared error against the sample size."""
    with style():
        figure, axes = panels(3, 2, sharex=True)
        for column, truth in enumerate(truths()):
            _draw_model(axes[column::2], truth, shown(results, truth))
        axes[0].set_ylabel("N × bias, 95 % intervals")
        axes[2].set_ylabel("N × bias, Firth alone")
        axes[4].set_ylabel("mean squared error, ML = 1")
        legend_above(figure)
        with TemporaryDirectory() as folder:
            drawing = Drawing("bias", "", "", figure)
            shutil.copy(write_drawing(drawing, Path(folder))["png"], path)


def _draw_model(axes: Any, truth: Truth, lines: pl.DataFrame) -> None:
    top, middle, bottom = axes
    middle.axhline(0.0, color="0.8", lw=1)
    top.axhline(0.0, color="0.8", lw=1)
    constant = lines["N_bias_first_order_ML"][0]
    top.axhline(constant, color=LOOKS["ML"][0], lw=1, ls=":", label="first order (Cox and Snell)")
    reference = lines.filter(estimator="ML")["N_mse"].to_numpy()
    for name in ESTIMATORS:
        rows = lines.filter(estimator=name)
        colour, marker = LOOKS[name]
        look = {"color": colour, "marker": marker, "label": name}
        for axis in (top, middle) if name == "Firth" else (top,):
            axis.errorbar(rows["N"], rows["N_bias"], rows["N_bias_half_width"], **look)
        bottom.plot(rows["N"], rows["N_mse"].to_numpy() / reference, **look)
    top.set_title(f"{truth.name}: slope of x1 = {truth.beta[truth.shown]:g}")
    top.set_xscale("log", base=2)
    bottom.set_xlabel("sample size N")
    bottom.set_xticks(SIZES, [str(size) for size in SIZES], rotation=45)
    bottom.minorticks_off()
