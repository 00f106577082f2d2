"""``firthshot fit``: a head for the user's own rows, and what they say of it."""

from __future__ import annotations

import contextlib
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firthshot.cli._options import (
    Architecture,
    BankSplit,
    Drop,
    EncoderName,
    EncoderSize,
    IdColumn,
    Label,
    PixelMean,
    PixelStd,
    check_target,
    encoder_line,
)
from firthshot.cli._screen import echo, echo_data, screen, with_options
from firthshot.errors import FirthshotError, ScaleWarning

if TYPE_CHECKING:
    from firthshot.own_data import Embedder, Examples, FitReport

SCALED = (
    "Columns vary on very different scales, so that they were brought to one (mean 0, spread 1) "
    "for fitting; the model takes them as they are. --no-standardize leaves that away."
)


def fit(
    source: Annotated[
        str,
        typer.Argument(
            help="Folder of class folders of pictures, table of texts or of features (.csv, .tsv, "
            ".parquet, .jsonl), feature file (.npz, …), or name of a bank."
        ),
    ],
    model: Annotated[
        Path, typer.Option("--model", help="File to write the model to, such as pets.firth.")
    ],
    label: Label = "label",
    id_column: IdColumn = None,
    drop: Drop = None,
    text: Annotated[str | None, typer.Option(help="Column of texts to embed.")] = None,
    encoder: EncoderName = None,
    size: EncoderSize = None,
    mean: PixelMean = None,
    std: PixelStd = None,
    architecture: Architecture = None,
    split: BankSplit = None,
    head: Annotated[
        str | None,
        typer.Option(help="linear, cosine or mlp; else cosine for pictures, linear for the rest."),
    ] = None,
    lam: Annotated[
        str | None,
        typer.Option(help="Firth coefficient: a number, shots (the default), theory or loo."),
    ] = None,
    l2: Annotated[
        str | None,
        typer.Option(
            help="L2 coefficient, 1/C of scikit-learn: a number, scale (the default but for mlp, "
            "whose is 0.1) or loo."
        ),
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(
            help="balanced (the default): every class counts the same; none: every row does, for "
            "new data as uneven as these."
        ),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate/--no-calibrate", help="Fit a temperature to rows that were left out."
        ),
    ] = True,
    standardize: Annotated[
        bool | None,
        typer.Option(
            "--standardize/--no-standardize",
            help="Bring the columns of a table to one scale; else where they differ much.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print warnings only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Fit a classifier to labelled rows and write it to a file."""
    from firthshot.cli._progress import PATIENCE_SECONDS, ScreenProgress
    from firthshot.own_data import (
        Columns,
        Embedder,
        columns_differ,
        read_examples,
        refuse_contradictions,
        report_fit,
    )

    refuse_contradictions(label, drop or (), text)
    _make(head or "linear", lam, l2, class_weight, calibrate)  # refuses before anything is read
    if source == "-":
        raise FirthshotError(
            "fit does not read standard input: write the rows to a file, such as rows.csv."
        )
    check_target("--model", model, {"data": [source]})
    encoder = encoder_line(encoder, size, mean, std, architecture)
    columns = Columns(label, id_column, tuple(drop or ()), text=text)
    told = screen(stderr=True)
    with ScreenProgress(told, quiet=quiet, patience=PATIENCE_SECONDS) as listener:
        embedder = Embedder(encoder, listener=listener)
        examples = read_examples(source, columns, split=split, embedder=embedder)
    head = head or ("cosine" if examples.kind == "image" else "linear")
    scaled = columns_differ(examples) if standardize is None else standardize
    class_weight = class_weight or _usual_weight(examples)
    estimator = _make(head, lam, l2, class_weight, calibrate, scaled)
    if head == "mlp" and not quiet:
        _say_cost(lam, l2)
    _refuse_equal_rows(examples)
    notes = _fit(estimator, examples)
    if scaled and standardize is None:
        notes.append(SCALED)
    report = _name_defaults(report_fit(estimator, examples, head), lam, l2)
    report = replace(report, remarks=[*notes, *map(with_options, report.remarks)])
    estimator.save(
        model,
        encoder=examples.encoder,
        fingerprint=examples.fingerprint,
        label=examples.label_name,
        text=examples.text_name,
    )
    if as_json:
        record = {**report.to_dict(), "model": str(model)}
        echo_data(json.dumps(record, ensure_ascii=False) + "\n")
    else:
        _show(_with_pixels(report, examples, embedder), model, examples, quiet=quiet)


def _make(
    head: str,
    lam: str | None,
    l2: str | None,
    class_weight: str | None,
    calibrate: bool,
    standardize: bool = False,
) -> Any:
    """Return the estimator, with its own defaults for what is not given."""
    from firthshot.engine import registered_heads

    made = {name: kind.estimator for name, kind in registered_heads().items() if kind.estimator}
    if head not in made:
        raise FirthshotError(f"--head {head} is unknown: choose from {', '.join(made)}.")
    if class_weight not in (None, "balanced", "none"):
        raise FirthshotError(
            f"--class-weight {class_weight} is unknown: choose from balanced, none."
        )
    from firthshot import estimators

    make = getattr(estimators, made[head])
    given = {"lam": lam, "l2": l2}
    chosen = {name: _coefficient(name, text) for name, text in given.items() if text is not None}
    weight = None if class_weight == "none" else class_weight
    return make(class_weight=weight, calibrate=calibrate, standardize=standardize, **chosen)


def _usual_weight(examples: Examples) -> str:
    """Balance classes where there is something to balance; equal ones need no weights."""
    import numpy as np

    assert examples.labels is not None  # fit reads no others
    counts = np.unique(examples.labels, return_counts=True)[1]
    return "balanced" if counts.min() < counts.max() else "none"


def _coefficient(name: str, text: str) -> float | str:
    from firthshot.estimators import check_coefficient

    value: float | str = text
    with contextlib.suppress(ValueError):
        value = float(text)
    check_coefficient(name, value)
    return value


def _say_cost(lam: str | None, l2: str | None) -> None:
    from firthshot.estimators import nets_of_search

    candidates, parts = nets_of_search(lam, l2)
    if candidates > 1:
        echo(
            f"Fitting {candidates * (1 + parts)} nets: {candidates} candidates, on all rows and "
            f"without each of {parts} parts …",
            err=True,
        )


def _refuse_equal_rows(examples: Examples) -> None:
    if len(examples) > 1 and not (examples.features != examples.features[0]).any():
        raise FirthshotError(
            f"All rows of {examples.source} are equal: nothing can be learned from them."
        )


def _fit(estimator: Any, examples: Examples) -> list[str]:
    """Fit, and return what the estimator warned of."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ScaleWarning)  # the report has it, with the option
        try:
            estimator.fit(examples.as_input(), examples.labels)
        except FirthshotError as error:
            raise error.reworded(f"{examples.source} cannot be fitted: {error}") from None
    return [_for_the_command(warning, examples) for warning in caught]


def _for_the_command(warning: Any, examples: Examples) -> str:
    """Return a warning with the options of this command in place of Python's."""
    from sklearn.exceptions import ConvergenceWarning

    told = str(warning.message)
    if not issubclass(warning.category, ConvergenceWarning) or "max_iter" not in told:
        return told
    largest = int(abs(examples.features).max(axis=0).argmax())
    column = repr(examples.names[largest]) if examples.names else str(largest + 1)
    return (
        f"The solver stopped before reaching its tolerance; the largest numbers are in column "
        f"{column}: fit with --standardize, or leave the column out with --drop."
    )


def _name_defaults(report: FitReport, lam: str | None, l2: str | None) -> FitReport:
    """Say of a number that the user did not give that it is the default."""
    if lam is None and report.lam_source == "given":
        report = replace(report, lam_source="default")
    if l2 is None and report.l2_source == "given":
        report = replace(report, l2_source="default")
    return report


def _show(report: FitReport, model: Path, examples: Examples, *, quiet: bool) -> None:
    from firthshot.cli._fit_screen import show_next, show_report, show_warnings

    console = screen()
    if not quiet:
        show_report(console, report)
    told = screen(stderr=True) if quiet else console
    show_warnings(told, report.remarks)
    if not quiet:
        usual = ".jpg" if examples.kind == "image" else ".csv"
        again = "new" + (Path(examples.source).suffix or usual)
        command = f"firthshot predict {shlex.quote(str(model))} {again} --out predictions.csv"
        show_next(console, model, command)


def _with_pixels(report: FitReport, examples: Examples, embedder: Embedder) -> FitReport:
    """Say beside the encoder of pictures how large it sees them."""
    if examples.kind != "image" or examples.encoder is None:
        return report
    from firthshot.backbones.encoders import split_spec

    place = split_spec(examples.encoder)[0]
    side = embedder.encoder("image").side
    return replace(report, encoder=f"{place}, pictures of {side} px")
