"""``firthshot predict``: what a model says of new rows, with probabilities."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firthshot.cli._options import BankSplit, Drop, IdColumn, check_target
from firthshot.cli._screen import echo, echo_data, plain, screen
from firthshot.cli._screen import table as make_table
from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from firthshot.own_data import Columns, Embedder, Examples, Predictions

SHOWN = 20


def predict(
    model: Annotated[Path, typer.Argument(help="Model that `firthshot fit` wrote.")],
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...",
            help="Pictures or folders of them, tables of texts or features, feature files or "
            "banks, as the model was fitted; - reads standard input.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="File to write: .csv, .tsv, .parquet or .jsonl.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Label column, for the accuracy; else the one that fit had."),
    ] = None,
    id_column: IdColumn = None,
    drop: Drop = None,
    text: Annotated[
        str | None, typer.Option(help="Column of texts to embed; else the one that fit had.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Where the model's encoder is now, if it has moved.")
    ] = None,
    split: BankSplit = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the predictions only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines, not CSV.")] = False,
) -> None:
    """Predict the class of new rows.

    Without --out, standard output gets a table (terminal), CSV (pipe) or JSON lines (--json).
    """
    from firthshot.backbones.embed import EncoderMark
    from firthshot.cli._progress import PATIENCE_SECONDS, ScreenProgress
    from firthshot.estimators import load_model
    from firthshot.own_data import (
        KINDS,
        Columns,
        Embedder,
        join_examples,
        model_features,
        refuse_contradictions,
    )
    from firthshot.own_data import predict as predict_examples

    if out is not None:
        check_target("--out", out, {"input": [*sources], "model": [model]}, KINDS)
    loaded = load_model(model)
    classes = frozenset(map(str, loaded.classes_.tolist()))
    name = label or loaded.label_name_ or "label"
    own_text = loaded.text_name_
    refuse_contradictions(label, drop or (), text or own_text)
    columns = Columns(
        name, id_column, tuple(drop or ()), model_features(loaded), text, classes, own_text
    )
    mark = EncoderMark(loaded.encoder_name_ or "a table of them", loaded.encoder_fingerprint_)
    told = screen(stderr=True)
    with ScreenProgress(told, quiet=quiet, patience=PATIENCE_SECONDS) as listener:
        embedder = Embedder(encoder, mark, listener)
        examples = [
            _read(source, columns, split, embedder, needs_label=label is not None)
            for source in sources
        ]
    predictions = predict_examples(loaded, join_examples(examples))
    if not quiet:
        _remark(examples)
    _write(predictions, out, as_json=as_json)
    if not quiet:
        _say(predictions, out)


def _read(
    source: str, columns: Columns, split: str | None, embedder: Embedder, *, needs_label: bool
) -> Examples:
    """Read one source; pictures and texts go through the encoder that the model remembers."""
    from firthshot.backbones.images import ENDINGS as PICTURES
    from firthshot.own_data import read_examples

    if source == "-":
        return _read_standard_input(columns, embedder, needs_label)
    pictures = Path(source).is_dir() or Path(source).suffix.lower() in PICTURES
    if embedder.takes_texts and " " in source and not Path(source).exists():
        raise FirthshotError(
            f"There is no file {source!r}: to classify one text, pipe it in, as in "
            f'echo "{source}" | firthshot predict MODEL -.'
        )
    labelled = needs_label and not pictures  # whose folders are their labels
    return read_examples(source, columns, split=split, needs_label=labelled, embedder=embedder)


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
    """Say on standard error what was left away."""
    from firthshot.own_data import unused_remarks

    for part in examples:
        for sentence in unused_remarks(part):
            echo(f"Note: {sentence}", err=True)


def _say(predictions: Predictions, out: Path | None) -> None:
    """Say on standard error what is no prediction, so that a pipe stays clean."""
    if out is not None:
        rows = "1 row" if len(predictions) == 1 else f"{len(predictions)} rows"
        echo(f"Wrote {out}: {rows}.", err=True)
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
