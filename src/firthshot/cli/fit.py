"""``firthshot fit``: a head for the user's own rows, and what they say of it."""

from __future__ import annotations

import contextlib
import json
import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firthshot.cli._options import (
    BankSplit,
    Device,
    Drop,
    EncoderName,
    IdColumn,
    Offline,
    SkipBad,
    check_target,
)
from firthshot.cli._progress import listening
from firthshot.cli._screen import echo, echo_data, screen, with_options
from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from firthshot.own_data import FittedModel


class HeadName(StrEnum):
    """Heads that `fit` can take."""

    auto = "auto"
    linear = "linear"
    cosine = "cosine"
    mlp = "mlp"


class ClassWeight(StrEnum):
    """How classes count."""

    balanced = "balanced"
    none = "none"


class ExportKind(StrEnum):
    """Files of the head alone."""

    onnx = "onnx"
    skops = "skops"
    sklearn = "sklearn"


def fit(
    source: Annotated[
        str,
        typer.Argument(
            help="Folder of class folders of pictures, table of texts or of features (.csv, .tsv, "
            ".parquet, .jsonl), feature file (.npz, …), or name of a bank."
        ),
    ],
    model: Annotated[
        Path | None, typer.Option(help="File to write the model to, such as pets.firth.")
    ] = None,
    update: Annotated[
        Path | None, typer.Option(help="Model to add the rows to. Without --model, it is replaced.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Page to write. Default: beside the model, as pets.html.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of classes. Default: label.")
    ] = None,
    id_column: IdColumn = None,
    drop: Drop = None,
    text: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of texts to embed.")
    ] = None,
    encoder: EncoderName = None,
    split: BankSplit = None,
    head: Annotated[
        HeadName | None,
        typer.Option(help="auto (the default) blends several heads; the others are single heads."),
    ] = None,
    lam: Annotated[
        str | None,
        typer.Option(
            metavar="λ", help="Firth coefficient: a number, shots, or (single heads) theory or loo."
        ),
    ] = None,
    l2: Annotated[
        str | None,
        typer.Option(
            metavar="L2", help="L2 coefficient, 1/C of scikit-learn: a number, scale or loo."
        ),
    ] = None,
    class_weight: Annotated[
        ClassWeight | None,
        typer.Option(
            help="balanced (the default) counts every class the same. none counts every row the "
            "same: choose it when new data are as uneven as these."
        ),
    ] = None,
    calibrate: Annotated[
        bool | None,
        typer.Option(
            "--calibrate/--no-calibrate",
            help="Single heads: fit a temperature to left-out rows (the default).",
        ),
    ] = None,
    standardize: Annotated[
        bool | None,
        typer.Option(
            "--standardize/--no-standardize",
            help="Single heads: bring columns to one scale. Default: where their scales differ.",
        ),
    ] = None,
    skip_bad: SkipBad = False,
    rows: Annotated[
        bool,
        typer.Option(
            "--rows/--no-rows",
            help="Keep the rows' features in the model. --update, --unknown and the head auto "
            "need them; --no-rows fits a linear head.",
        ),
    ] = True,
    device: Device = "auto",
    offline: Offline = False,
    export: Annotated[
        list[ExportKind] | None,
        typer.Option(help="Also write the head for use without firthshot; may be repeated."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print warnings only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Fit a classifier to labelled rows, say how good it is, and write it to a file."""
    from firthshot.backbones.encoders import encoding

    target = _target(source, model, update, report)
    given = {
        "lam": lam,
        "l2": l2,
        "class_weight": None if class_weight is None else str(class_weight),
        "calibrate": calibrate,
        "standardize": standardize,
    }
    settings = {name: _plain(name, one) for name, one in given.items() if one is not None}
    reading: dict[str, Any] = {
        "text": text,
        "id": id_column,
        "drop": tuple(drop or ()),
        "split": split,
    }
    reading |= {"label": label, "skip_bad": skip_bad}
    with listening(f"Reading {source}", quiet=quiet), encoding(device=device, offline=offline):
        if update is not None:
            fitted = _grown(update, source, reading, settings, head)
        else:
            fitted = _fitted(source, encoder, _head(head, rows=rows), reading, settings)
        fitted.save(target, rows=rows)
        page = _write_page(fitted, report or target.with_suffix(".html"))
        _export(fitted, target, export or [], quiet=quiet)
    _tell(fitted, target, page, quiet=quiet, as_json=as_json)
    if not rows and not quiet:
        echo("The model holds no rows: it cannot be updated, nor tell unknown rows.", err=True)


def _target(source: str, model: Path | None, update: Path | None, report: Path | None) -> Path:
    """Return the file to write, once everything that was named can be."""
    if source == "-":
        raise FirthshotError(
            "fit does not read standard input: write the rows to a file, such as rows.csv."
        )
    target = model or update
    if target is None:
        raise FirthshotError("No file is named for the model: give --model pets.firth.")
    check_target("--model", target, {"data": [source]}, (".firth",) if model else ())
    if report is not None:
        check_target("--report", report, {"data": [source], "model": [target]}, (".html",))
    return target


def _head(head: HeadName | None, *, rows: bool) -> str:
    """Return the name of the head: a file without rows cannot hold the default one."""
    if head is HeadName.auto and not rows:
        raise FirthshotError("Head auto predicts from its rows: leave out --head or --no-rows.")
    return str(head or (HeadName.auto if rows else HeadName.linear))


def _fitted(
    source: str, encoder: str | None, head: str, reading: dict[str, Any], settings: dict[str, Any]
) -> FittedModel:
    from firthshot.own_data import fit as fit_source

    if head == "mlp":
        _say_cost(settings.get("lam"), settings.get("l2"))
    label = reading.pop("label") or "label"
    return fit_source(source, head=head, encoder=encoder, label=label, **reading, **settings)


def _grown(
    update: Path,
    source: str,
    reading: dict[str, Any],
    settings: dict[str, Any],
    head: HeadName | None,
) -> FittedModel:
    from firthshot.own_data import load

    if settings or head is not None:
        raise FirthshotError("An update keeps the settings of the model: leave out --head and its.")
    return load(update).update(source, **reading)


def _plain(name: str, value: Any) -> Any:
    """Return a coefficient as a number where it is one; refuse what is none before any work."""
    if name not in ("lam", "l2"):
        return value
    from firthshot.estimators import check_coefficient

    with contextlib.suppress(ValueError):
        value = float(value)
    check_coefficient(name, value)
    return value


def _say_cost(lam: Any, l2: Any) -> None:
    from firthshot.estimators import nets_of_search

    candidates, parts = nets_of_search(lam, l2)
    if candidates > 1:
        echo(
            f"Fitting {candidates * (1 + parts)} nets: {candidates} candidates, on all rows and "
            f"without each of {parts} parts …",
            err=True,
        )


def _write_page(fitted: FittedModel, path: Path) -> Path:
    fitted.report(path)
    return path


def _export(fitted: FittedModel, target: Path, kinds: list[ExportKind], *, quiet: bool) -> None:
    from firthshot.own_data import EXPORTS

    for kind in kinds:
        path = fitted.export(str(kind), target.with_suffix(EXPORTS[kind]))
        if not quiet:
            echo(f"Wrote {path}: the head alone.", err=True)


def _tell(fitted: FittedModel, model: Path, page: Path, *, quiet: bool, as_json: bool) -> None:
    from firthshot.cli._fit_screen import show_next, show_report, show_warnings

    report = fitted.answer
    if as_json:
        record = {**report.to_dict(), "model": str(model), "page": str(page)}
        record["remarks"] = [with_options(one) for one in report.remarks]
        echo_data(json.dumps(record, ensure_ascii=False, default=str) + "\n")
        return
    console = screen()
    if not quiet:
        show_report(console, report, fitted.changes)
    told = screen(stderr=True) if quiet else console
    show_warnings(told, [with_options(one) for one in report.remarks], quiet=quiet)
    if not quiet:
        usual = ".jpg" if report.kind == "image" else ".csv"
        again = "new" + (Path(report.source).suffix or usual)
        command = f"firthshot predict {shlex.quote(str(model))} {again} --out predictions.csv"
        show_next(console, model, page, command)
