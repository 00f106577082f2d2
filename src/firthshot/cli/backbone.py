"""``firthshot backbone``: list encoders, train a network on base classes, extract banks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firthshot.cli._backbone_train import train
from firthshot.cli._options import Count, Device, Precision, PublishedSplit, Side
from firthshot.cli._screen import say, screen
from firthshot.cli._screen import table as make_table
from firthshot.errors import FirthshotError, MissingExtraError, install_line

if TYPE_CHECKING:
    from rich.console import Console

    from firthshot.banks import Bank

app = typer.Typer(help="Networks that turn pictures and texts into features.", no_args_is_help=True)


@app.command("list")
@app.command("ls", hidden=True)
def list_all() -> None:
    """List the encoders that have weights, and the architectures that can be trained."""
    from firthshot.backbones.encoders import WORDS

    console = screen()
    console.print(_encoder_table())
    console.print(f"A missing one comes with its extra: {install_line('EXTRA')}.", markup=False)
    for kind, words in WORDS.items():
        _recommend(console, kind, words)
    console.print(_architecture_table())
    console.print(
        "An encoder can be any model of the hub (hf:OWNER/NAME, st:NAME, timm:NAME, "
        "open-clip:ARCHITECTURE/TAG, with @REVISION to pin it), or a path: a checkpoint or the "
        "folder of a training, a TorchScript file, an .onnx file, a transformers folder.",
        soft_wrap=True,
    )


def _recommend(console: Console, kind: str, words: str) -> None:
    """List the recommended encoders of a kind: what each is good for, and whether it is here."""
    from firthshot.backbones.encoders import RECOMMENDED

    say(console, f"Recommended for {words}, downloaded when first used:")
    for one in RECOMMENDED:
        if one.kind == kind:
            state = "not here yet" if one.installed else f"needs the extra {one.extra}"
            state = "on this machine" if one.available else state
            facts = f"{one.dim}-d, {one.megabytes:,} MB, {one.licence}, {state}"
            say(console, f"  {one.name} ({facts})")
            say(console, f"    {one.good_for}; {one.source}")
    console.print()


def _encoder_table() -> Any:
    from rich.text import Text

    from firthshot.backbones.encoders import DEFAULTS, ENCODERS, describe_weights, find_weights

    table = make_table(
        "encoder", "takes", "dims", "MB", "licence", "weights", right=("dims", "MB"), one_line=True
    )
    for one in ENCODERS.values():
        state = "installed" if one.available else f"extra {one.extra}"
        state += ", default" if one.name in DEFAULTS.values() else ""
        table.add_row(
            one.name,
            f"pictures {one.side} px" if one.kind == "image" else "texts",
            str(one.dim),
            str(one.megabytes),
            one.licence or "not stated",
            Text(state),
        )
    for name, path in find_weights().items():
        side, dim = describe_weights(path)
        megabytes = f"{path.stat().st_size / 1e6:.0f}"
        table.add_row(name, f"pictures {side} px", str(dim), megabytes, "", f"in {path.parent}/")
    return table


def _architecture_table() -> Any:
    from firthshot.backbones.encoders import installed

    if not installed("torch"):
        return str(MissingExtraError("An architecture", "torch"))
    import torch

    from firthshot.backbones.architectures import ARCHITECTURES, make_backbone

    table = make_table(
        "architecture", "dims", "million weights", right=("dims", "million weights"), one_line=True
    )
    for name in ARCHITECTURES:
        with torch.device("meta"):  # weights have shapes only: quick, whatever their size
            network = make_backbone(name)
        count = sum(weight.numel() for weight in network.parameters())
        table.add_row(name, str(network.features_dim), f"{count / 1e6:.1f}")
    return table


app.command("train")(train)


@app.command()
def extract(
    source: Path,
    out: Annotated[Path, typer.Option()],
    encoder: str | None = None,
    dataset: PublishedSplit = None,
    split_file: Path | None = None,
    size: Side = None,
    resize: Side = None,
    mean: str | None = None,
    std: str | None = None,
    rows_per_class: list[str] | None = None,
    bn_train_sorted: bool = False,
    architecture: str | None = None,
    text: str | None = None,
    label: str = "label",
    name: str | None = None,
    licence: str | None = None,
    provenance: str | None = None,
    dtype: Precision = "float16",
    skip_bad: bool = False,
    threads: Count = None,
    device: Device = "auto",
    offline: bool = False,
    quiet: bool = False,
) -> None:
    """Encode pictures or texts into a bank; the same command again resumes."""
    from firthshot.backbones.datasets import open_dataset
    from firthshot.backbones.encoders import (
        DEFAULTS,
        EncoderOptions,
        load_encoder,
        three_numbers,
    )
    from firthshot.backbones.extract import extract as run
    from firthshot.cli._progress import ScreenProgress

    limits = _limits(rows_per_class or [])
    given = {"name": name, "licence": licence, "provenance": provenance}
    console = screen(quiet=quiet)
    data = open_dataset(source, split_file=split_file, dataset=dataset, text=text, label=label)
    say(console, f"{data.name}: {len(data):,} {data.kind}s, {data.notes['layout']}.")
    say(console, f"Classes: {data.notes['class split']}.")
    chosen = encoder or DEFAULTS[data.kind]
    options = EncoderOptions(
        size, resize, three_numbers(mean, "--mean"), three_numbers(std, "--std"), architecture
    )
    with ScreenProgress(console) as progress:
        where: dict[str, Any] = {"device": device, "offline": offline, "listener": progress}
        loaded = load_encoder(chosen, kind=data.kind, **where, **options.given)
        what = f" ({loaded.description})" if loaded.description else ""
        say(console, f"Encoder: {chosen}{what}.")
        if loaded.kind == "image":
            say(console, f"Pictures: {loaded.pictures}.")
        bank = run(
            data,
            loaded,
            out,
            rows_per_class=limits,
            bn_train_sorted=bn_train_sorted,
            skip_bad=skip_bad,
            threads=threads,
            listener=progress,
            dtype=dtype,
            **{key: value for key, value in given.items() if value is not None},
        )
    _tell(console, bank, out)


def _limits(options: list[str]) -> dict[str, int]:
    """Read ``100`` or ``val=150``; a number alone is for every split."""
    limits: dict[str, int] = {}
    for option in options:
        split, equals, count = option.rpartition("=")
        splits = (split,) if equals else ("base", "val", "novel")
        if not count.isdigit() or not set(splits) <= {"base", "val", "novel"}:
            raise FirthshotError(
                f"--rows-per-class {option} is not a number nor SPLIT=NUMBER: write for instance "
                "--rows-per-class base=100."
            )
        limits |= dict.fromkeys(splits, int(count))
    return limits


def _tell(console: Console, bank: Bank, out: Path) -> None:
    import json

    n, d = bank.features.shape
    megabytes = out.stat().st_size / 1e6
    say(console, f"Wrote {out}: {n:,} rows x {d} dimensions, {megabytes:.1f} MB.")
    if "left out" in bank.meta.notes:
        bad = json.loads(bank.meta.notes["left out"])
        say(console, f"Left out {len(bad)} that cannot be decoded, the first being {bad[0]}.")
    say(console, f"Next: firthshot bank check {out}")
