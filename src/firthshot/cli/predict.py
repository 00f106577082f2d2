"""``firthshot predict``: what a model says of new rows, with probabilities."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from firthshot.cli._options import AsJson, Device, IdColumn, check_target
from firthshot.cli._progress import listening
from firthshot.cli._screen import echo, echo_data, plain, screen
from firthshot.cli._screen import table as make_table
from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from firthshot.own_data import (
        Columns,
        Embedder,
        Examples,
        FittedModel,
        PictureRun,
        Predictions,
    )

SHOWN = 20


def predict(
    model: Path,
    sources: list[str],
    out: Path | None = None,
    label: str | None = None,
    id_column: IdColumn = None,
    drop: list[str] | None = None,
    text: str | None = None,
    encoder: str | None = None,
    split: str | None = None,
    unknown: float | None = None,
    skip_bad: bool = False,
    device: Device = "auto",
    offline: bool = False,
    quiet: bool = False,
    as_json: AsJson = False,
) -> None:
    """Predict the class of new rows.

    Without --out, standard output gets a table (terminal), CSV (pipe) or JSON lines (--json).
    Pictures go to --out part by part: the same command goes on where it was stopped.
    """
    from firthshot.backbones.encoders import encoding
    from firthshot.own_data import (
        KINDS,
        KINDS_IN_PARTS,
        PictureRun,
        as_predictions,
        join_examples,
        load,
        read_pictures,
        refuse_contradictions,
    )

    if out is not None:
        check_target("--out", out, {"input": [*sources], "model": [model]}, KINDS)
    with listening(f"Reading {model}", quiet=quiet), encoding(device=device, offline=offline):
        loaded = load(model, encoder)
        refuse_contradictions(label, drop or (), text or loaded.estimator.text_name_)
        if unknown is not None:
            loaded.novelty.threshold(unknown)  # refuses before any work
        pictures = split is None and _are_pictures(sources, loaded)
        if pictures and out is not None and out.suffix.lower() in KINDS_IN_PARTS:
            _predict_pictures(PictureRun(loaded, out, unknown, skip_bad), sources, quiet=quiet)
            return
        columns = loaded.columns(label, id=id_column, drop=tuple(drop or ()), text=text)
        if pictures:
            examples = [read_pictures(sources, loaded.embedder, skip_bad=skip_bad)]
        else:
            examples = [
                _read(source, columns, split, loaded.embedder, label is not None, skip_bad)
                for source in sources
            ]
        joined = join_examples(examples)
        answer = loaded.predict_examples(joined, unknown=unknown)
    predictions = as_predictions(joined, loaded.classes_, *answer)
    if not quiet:
        _remark(examples)
    _write(predictions, out, as_json=as_json)
    if not quiet:
        _say(predictions, out)


def _are_pictures(sources: list[str], model: FittedModel) -> bool:
    """Tell whether all inputs are pictures, which are one list of files to a model of pictures."""
    taken = model.embedder.mark is not None and model.embedder.mark.fingerprint is not None
    return taken and all(map(_is_picture, sources))


def _is_picture(source: str) -> bool:
    from firthshot.backbones.images import ENDINGS

    return Path(source).is_dir() or Path(source).suffix.lower() in ENDINGS


def _predict_pictures(run: PictureRun, sources: list[str], *, quiet: bool) -> None:
    from firthshot.own_data import picture_files

    run.predict(*picture_files(sources))
    if quiet:
        return
    echo(f"Wrote {run.out}: {_rows(run.rows)}.", err=True)
    if run.bad:
        echo(f"Left out, as no picture that can be read: {', '.join(run.bad)}.", err=True)
    if run.labelled:
        foreign = f" {run.foreign} others are in folders of no class." if run.foreign else ""
        echo(
            f"Accuracy {100 * run.right / run.labelled:.1f} % by the folders of {run.labelled} "
            f"pictures, which the prediction did not look at.{foreign}",
            err=True,
        )


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _read(
    source: str,
    columns: Columns,
    split: str | None,
    embedder: Embedder,
    needs_label: bool,
    skip_bad: bool,
) -> Examples:
    """Read one source; pictures and texts go through the encoder that the model remembers."""
    from firthshot.own_data import read_examples

    if source == "-":
        return _read_standard_input(columns, embedder, needs_label)
    labelled = needs_label and not _is_picture(source)  # whose folders are their labels
    return read_examples(
        source, columns, split=split, needs_label=labelled, embedder=embedder, skip_bad=skip_bad
    )


def _read_standard_input(columns: Columns, embedder: Embedder, needs_label: bool) -> Examples:
    """Read texts, numbers or, for a model of pictures, the content of a picture file."""
    from firthshot.own_data import decode, embed_lines, embed_picture, parse_items

    content = sys.stdin.buffer.read()
    try:
        text = decode(content)
    except FirthshotError:
        assert embedder.mark is not None  # of the model
        if embedder.mark.fingerprint is None or embedder.takes_texts:
            raise
        return embed_picture(content, embedder)  # of which none is valid UTF-8
    if embedder.takes_texts:
        return embed_lines(text, embedder, columns=columns, needs_label=needs_label)
    return parse_items(text, columns, needs_label=needs_label)


def _write(predictions: Predictions, out: Path | None, *, as_json: bool) -> None:
    """Write to the file, else show a table at a terminal, else print the whole."""
    from firthshot.own_data import render, write

    if out is not None:
        write(predictions, out)
    elif sys.stdout.isatty() and not as_json:
        _show(predictions)
    else:
        kind = ".jsonl" if as_json else ".csv"
        echo_data(render(predictions, kind).decode())


def _show(predictions: Predictions) -> None:
    names = predictions.names()
    table = make_table(*names, "prediction", "probability", "next")
    order = (-predictions.probabilities).argsort(axis=1)
    for at in range(min(SHOWN, len(predictions))):
        p, second = predictions.probabilities[at], order[at, 1]
        table.add_row(
            *(plain(str(each[at])) for each in names.values()),
            plain(str(predictions.predicted[at])),
            f"{predictions.confidence[at]:.3f}",
            plain(f"{predictions.classes[second]} {p[second]:.3f}", "dim"),
        )
    console = screen()
    console.print(table)
    if len(predictions) > SHOWN:
        hidden = len(predictions) - SHOWN
        console.print(plain(f"… and {hidden} more rows; --out FILE writes them all.", "dim"))


def _remark(examples: list[Examples]) -> None:
    """Say on standard error what was left out."""
    from firthshot.own_data import unused_remarks

    for part in examples:
        if part.bad:
            echo(f"Left out, as no picture that can be read: {', '.join(part.bad)}.", err=True)
        for sentence in unused_remarks(part):
            echo(f"Note: {sentence}", err=True)


def _say(predictions: Predictions, out: Path | None) -> None:
    """Say on standard error what is no prediction, so that a pipe stays clean."""
    if out is not None:
        echo(f"Wrote {out}: {_rows(len(predictions))}.", err=True)
    unknown = int(predictions.unknown.sum())
    if unknown and unknown == len(predictions):
        assert predictions.truth is not None
        echo(
            f"No accuracy: the model has no class {str(predictions.truth[0])!r}, nor any other of "
            "the labels; --label names their column.",
            err=True,
        )
    elif predictions.accuracy is not None:
        foreign = f" {unknown} of the labels are no class of the model." if unknown else ""
        echo(
            f"Accuracy {100 * predictions.accuracy:.1f} % by the labels of {len(predictions)} "
            f"rows, which the prediction did not look at.{foreign}",
            err=True,
        )
