"""Draw docs/images/firth-at-a-glance.png: what Firth does to estimates from few rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from firthshot import regress
from firthshot.figures import COLOURS, GREY, house_style, write_figure
from firthshot.report.plots.style import panels

ROOT = Path(__file__).parents[1]
FIRTH, PLAIN = COLOURS[0], COLOURS[1]
DOSE, CURED = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5], [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]


def draw_curve(axes: Any) -> None:
    """Draw the fitted probability of a separated table."""
    firth = regress("cured ~ dose", {"dose": DOSE, "cured": CURED}).model
    doses = np.linspace(0.5, 5.5, 400)
    shift = np.array([-0.06, 0.06] * 5)
    axes.plot(doses, firth.predict_proba(pl.DataFrame({"dose": doses}))[:, 1], color=FIRTH)
    axes.plot([0.5, 3, 3, 5.5], [0, 0, 1, 1], color=PLAIN, linestyle="--")
    axes.plot(np.array(DOSE) + shift, CURED, "o", color=GREY, clip_on=False, zorder=5)
    axes.text(0.6, 0.42, "Firth: slope 1.7\n95 %: 0.3 to 6.0", color=FIRTH)
    axes.text(3.15, 0.14, "maximum likelihood:\ninfinite slope", color=PLAIN)
    axes.set(xlabel="dose", ylabel="probability of cure", ylim=(-0.03, 1.03), xticks=range(1, 6))
    axes.set_title("A separated table of ten rows", loc="left")


def draw_bias(axes: Any) -> None:
    """Draw the bias of both estimators in the geometric experiment."""
    table = pl.read_csv(ROOT / "studies/reproduction/kept/geometric.csv")
    table = table.filter(pl.col("size").is_between(2, 30))
    for name, colour in (("mle", PLAIN), ("firth", FIRTH)):
        axes.plot(table["size"], table[f"{name}_bias"], color=colour, marker="o", markersize=2)
    axes.text(6.5, 0.05, "maximum likelihood: falls as 1/N", color=PLAIN)
    axes.text(14, -0.0075, "Firth: no bias left", color=FIRTH)
    axes.set(xlabel="number of observations N", ylabel="bias of the estimate", ylim=(-0.012, None))
    axes.set_title("Estimating a probability of 0.5", loc="left")


def main() -> None:
    with house_style():
        figure, (left, right) = panels(1, 2, height=2.5)
        draw_curve(left)
        draw_bias(right)
    write_figure(figure, ROOT / "docs/images/firth-at-a-glance.png")


if __name__ == "__main__":
    main()
