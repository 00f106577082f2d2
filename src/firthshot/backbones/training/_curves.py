"""The curves of a training as a picture and as a table."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from firthshot.backbones.training._recipes import EpochRecord, best_record
from firthshot.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAR = 5.0  # times the highest loss of the training: a common scale would flatten its curve
TRAINED, MONITORED = "#8a8a8a", "#0b6e99"


def write_history(history: list[EpochRecord], path: Path) -> None:
    """Write the records as a table, a line per epoch."""
    import csv

    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(asdict(history[0])))
        writer.writeheader()
        writer.writerows(asdict(record) for record in history)


def draw_curves(history: list[EpochRecord], path: Path, title: str = "") -> None:
    """Draw loss and accuracy over the epochs, of the trained and of the monitored pictures."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_pair(left, history, "loss", 1.0)
    _draw_pair(right, history, "accuracy", 100.0)
    _scale_losses(left, history)
    right.set_ylabel("accuracy (%)")
    best = best_record(history)
    right.annotate(
        f"{100 * best.monitored_accuracy:.1f} %",
        (best.epoch, 100 * best.monitored_accuracy),
        textcoords="offset points",
        xytext=(0, -14 if best.accuracy > best.monitored_accuracy else 6),
        ha="center",  # a rising curve comes from the left
        color=MONITORED,
    )
    left.legend(frameon=False)
    if title:
        figure.suptitle(title, fontsize=10)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=130, format="png")


def _scale_losses(axes: Axes, history: list[EpochRecord]) -> None:
    """Show every loss: from 0 on, or in powers of ten where some would dwarf the others.

    The monitored loss of first epochs, with immature batch norms, may be a thousand times that of
    the training.
    """
    losses = [loss for record in history for loss in (record.loss, record.monitored_loss)]
    if min(losses) > 0 and max(losses) > FAR * max(record.loss for record in history):
        axes.set_yscale("log")
        axes.set_ylabel("loss (log scale)")
    else:
        axes.set_ylim(bottom=max(0.0, axes.get_ylim()[0]))
        axes.set_ylabel("loss")


def _draw_pair(axes: Axes, history: list[EpochRecord], quantity: str, scale: float) -> None:
    from matplotlib.ticker import MaxNLocator

    epochs = [record.epoch for record in history]
    for name, label, colour in (
        (quantity, "training", TRAINED),
        (f"monitored_{quantity}", "held out", MONITORED),
    ):
        values = [scale * getattr(record, name) for record in history]
        axes.plot(epochs, values, label=label, color=colour, marker=".", linewidth=1.5)
    _mark_stages(axes, history)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(y=0.12)
    axes.spines[["top", "right"]].set_visible(False)


def _mark_stages(axes: Axes, history: list[EpochRecord]) -> None:
    """Draw a line where the objective, and with it the meaning of the loss, changes."""
    for before, after in pairwise(history):
        if before.objective != after.objective:
            axes.axvline(before.epoch + 0.5, color="#cccccc", linewidth=1, zorder=0)
            axes.annotate(
                after.objective,
                (before.epoch + 0.5, 0.02),
                xycoords=axes.get_xaxis_transform(),
                textcoords="offset points",
                xytext=(3, 0),
                fontsize=8,
                color="#777777",
            )
