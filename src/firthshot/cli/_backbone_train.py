"""``firthshot backbone train``."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from firthshot.cli._options import Count, PublishedSplit, Side
from firthshot.cli._screen import say, screen
from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from rich.console import Console

    from firthshot.backbones.datasets import Dataset
    from firthshot.backbones.pixels import Pixels
    from firthshot.backbones.training import EpochRecord, Recipe, Setup


def train(
    source: Path,
    out: Annotated[Path, typer.Option()],
    architecture: Annotated[str, typer.Option()],
    recipe: Literal["standard", "s2m2"] = "standard",
    one_cycle: bool = False,
    dataset: PublishedSplit = None,
    split_file: Path | None = None,
    size: Annotated[int, typer.Option(min=8)] = 84,
    stored: Side = None,
    epochs: Annotated[list[int] | None, typer.Option(min=1)] = None,
    batch: Annotated[int | None, typer.Option(min=2)] = None,
    rate: list[float] | None = None,
    weight_decay: Annotated[float | None, typer.Option(min=0)] = None,
    smallest_crop: Annotated[float | None, typer.Option(min=0.01, max=1)] = None,
    seed: int = 0,
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
    lanes: Count = None,
    cache: Path | None = None,
    quiet: bool = False,
) -> None:
    """Train a network on the base classes; the same command again resumes."""
    from firthshot.backbones.datasets import open_dataset, recognise

    console = screen(quiet=quiet)
    data = open_dataset(source, split_file=split_file, dataset=dataset)
    chosen = _recipe(recipe, dataset or recognise(data.classes), one_cycle)
    changes: dict[str, Any] = {"batch": batch, "smallest_crop": smallest_crop}
    chosen = replace(chosen, **{k: v for k, v in changes.items() if v is not None})
    chosen = _with_stages(chosen, epochs or [], rate or [], weight_decay)
    setup = _setup(architecture, chosen, size, seed, precision, lanes)
    say(console, _announce(setup, data))
    pixels = _decode(data, stored or size, cache or out, console)
    try:
        history = _train(setup, pixels, out, console)
    except KeyboardInterrupt:
        _leave(console)
    _tell(console, history, out)
    if cache is None:
        for array in out.glob("pixels-*.npy"):
            array.unlink()


def _recipe(name: str, dataset: str | None, one_cycle: bool) -> Recipe:
    from firthshot.backbones.training import RECIPES

    return RECIPES[name](dataset, one_cycle=one_cycle)


def _with_stages(
    recipe: Recipe, epochs: list[int], rates: list[float], decay: float | None
) -> Recipe:
    stages = recipe.stages
    for option, values in (("epochs", epochs), ("rate", rates)):
        if len(values) not in (0, len(stages)):
            raise FirthshotError(
                f"The recipe {recipe.name} has {len(stages)} stages and --{option} was given "
                f"{len(values)} times: give it once for each."
            )
        if values:
            changes: list[dict[str, Any]] = [{option: value} for value in values]
            stages = tuple(replace(s, **c) for s, c in zip(stages, changes, strict=True))
    if decay is not None:
        stages = tuple(replace(stage, weight_decay=decay) for stage in stages)
    return replace(recipe, stages=stages)


def _setup(
    architecture: str, recipe: Recipe, size: int, seed: int, precision: str, lanes: int | None
) -> Setup:
    from firthshot.backbones.training import Setup, best_precision

    return Setup(
        architecture=architecture,
        recipe=recipe,
        size=size,
        seed=seed,
        precision=best_precision() if precision == "auto" else precision,
        # A lane has batch norms of its own: it should not see too few pictures.
        lanes=lanes or max(1, min(os.cpu_count() or 1, recipe.batch // 32)),
    )


def _announce(setup: Setup, data: Dataset) -> str:
    recipe = setup.recipe
    plan = ", then ".join(f"{stage.epochs} epochs of {stage.objective}" for stage in recipe.stages)
    return (
        f"{setup.architecture} at {setup.size} px on {data.name}: recipe {recipe.name} "
        f"({plan}), batches of {recipe.batch}, {setup.precision}, lanes: {setup.lanes}."
    )


def _decode(data: Dataset, side: int, cache: Path, console: Console) -> Pixels:
    from firthshot.backbones.pixels import decode_split

    say(console, f"Classes: {data.notes['class split']}.")
    split = "base" if "base" in data.class_splits else "novel"
    if split == "novel":
        say(console, "No class is marked as base: training on all of them.")
    return decode_split(data, split, side, cache=cache, say=lambda line: say(console, line))


def _train(setup: Setup, pixels: Pixels, out: Path, console: Console) -> list[EpochRecord]:
    from firthshot.backbones.training import TrainingRun, write_history
    from firthshot.cli._progress import ScreenProgress

    def tell(history: list[EpochRecord]) -> None:
        say(console, _epoch_words(history))
        write_history(history, out / "history.csv")

    with ScreenProgress(console) as progress:
        run = TrainingRun(setup, pixels, out, progress, tell)
        if run.history:
            say(console, f"Resuming after epoch {len(run.history)}.")
        return run.train()


def _epoch_words(history: list[EpochRecord]) -> str:
    from firthshot.backbones.training import best_record
    from firthshot.progress import duration

    record = history[-1]
    best = ", the best so far" if best_record(history) is record else ""
    return (
        f"Epoch {record.epoch} ({record.objective}): loss {record.loss:.3f}, "
        f"accuracy {100 * record.accuracy:.1f} %; monitored {record.monitored_loss:.3f}, "
        f"{100 * record.monitored_accuracy:.1f} %{best} ({duration(record.seconds)})."
    )


def _leave(console: Console) -> NoReturn:
    say(console, f"Stopped. Finished epochs are kept; go on with: {shlex.join(sys.argv)}")
    sys.stdout.flush()
    # The lanes would hold a clean exit up until their batch is done, and checkpoints are whole.
    os._exit(130)


def _tell(console: Console, history: list[EpochRecord], out: Path) -> None:
    from firthshot.backbones.training import best_record
    from firthshot.progress import duration

    best = best_record(history)
    spent = duration(sum(record.seconds for record in history))
    say(
        console,
        f"Best: {100 * best.monitored_accuracy:.1f} % on the monitored tenth, after epoch "
        f"{best.epoch} of {len(history)} ({spent} in all).",
    )
    say(console, f"Use it with: firthshot backbone extract ... --encoder {out}")
