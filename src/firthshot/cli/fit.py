"""``firthshot fit``: a head for the user's own rows, and what they say of it."""

from __future__ import annotations

import contextlib
import json
import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from firthshot.cli._options import AsJson, Device, IdColumn, check_target
from firthshot.cli._progress import listening
from firthshot.cli._screen import echo, echo_data, facts, pair, plain, screen, with_options
from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from firthshot.own_data import Changes, FitReport, FittedModel

MOST_WARNINGS = 1  # the page has them all


class ExportKind(StrEnum):
    """Files of the head alone."""

    onnx = "onnx"
    skops = "skops"
    sklearn = "sklearn"


def fit(
    source: str,
    model: Path | None = None,
    update: Path | None = None,
    report: Path | None = None,
    label: str | None = None,
    id_column: IdColumn = None,
    drop: list[str] | None = None,
    text: str | None = None,
    encoder: str | None = None,
    split: str | None = None,
    head: Literal["auto", "linear", "cosine", "mlp"] | None = None,
    lam: str | None = None,
    l2: str | None = None,
    class_weight: Literal["balanced", "none"] | None = None,
    calibrate: bool | None = None,
    standardize: bool | None = None,
    skip_bad: bool = False,
    rows: bool = True,
    device: Device = "auto",
    offline: bool = False,
    export: list[ExportKind] | None = None,
    quiet: bool = False,
    as_json: AsJson = False,
) -> None:
    """Fit a classifier to labelled rows, say how good it is, and write it to a file."""
    from firthshot.backbones.encoders import encoding
    from firthshot.own_data import load

    target = _target(source, model, update, report)
    given = {"class_weight": class_weight, "calibrate": calibrate, "standardize": standardize}
    given |= {"lam": _coefficient("lam", lam), "l2": _coefficient("l2", l2)}
    settings = {name: one for name, one in given.items() if one is not None}
    reading: dict[str, Any] = {"text": text, "id": id_column, "drop": tuple(drop or ())}
    reading |= {"split": split, "label": label, "skip_bad": skip_bad}
    if update is not None and (settings or head is not None):
        raise FirthshotError("An update keeps the settings of the model: leave out --head and its.")
    with listening(f"Reading {source}", quiet=quiet), encoding(device=device, offline=offline):
        if update is not None:
            fitted = load(update).update(source, **reading)
        else:
            fitted = _fitted(source, encoder, _head(head, rows=rows), reading, settings)
        fitted.save(target, rows=rows)
        page = report or target.with_suffix(".html")
        fitted.report(page)
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


def _head(head: str | None, *, rows: bool) -> str:
    """Return the name of the head: a file without rows cannot hold the default one."""
    if head == "auto" and not rows:
        raise FirthshotError("Head auto predicts from its rows: leave out --head or --no-rows.")
    return head or ("auto" if rows else "linear")


def _fitted(
    source: str, encoder: str | None, head: str, reading: dict[str, Any], settings: dict[str, Any]
) -> FittedModel:
    from firthshot.own_data import fit as fit_source

    if head == "mlp":
        _say_cost(settings.get("lam"), settings.get("l2"))
    reading |= {"label": reading["label"] or "label"}
    return fit_source(source, head=head, encoder=encoder, **reading, **settings)


def _coefficient(name: str, value: str | None) -> Any:
    """Return a coefficient as a number where it is one; refuse what is none before any work."""
    if value is None:
        return None
    from firthshot.estimators import check_coefficient

    plain: float | str = value
    with contextlib.suppress(ValueError):
        plain = float(value)
    check_coefficient(name, plain)
    return plain


def _say_cost(lam: Any, l2: Any) -> None:
    from firthshot.estimators import nets_of_search

    candidates, parts = nets_of_search(lam, l2)
    if candidates > 1:
        echo(
            f"Fitting {candidates * (1 + parts)} nets: {candidates} candidates, on all rows and "
            f"without each of {parts} parts …",
            err=True,
        )


def _export(fitted: FittedModel, target: Path, kinds: Sequence[str], *, quiet: bool) -> None:
    from firthshot.own_data import EXPORTS

    for kind in kinds:
        path = fitted.export(str(kind), target.with_suffix(EXPORTS[kind]))
        if not quiet:
            echo(f"Wrote {path}: the head alone.", err=True)


def _tell(fitted: FittedModel, model: Path, page: Path, *, quiet: bool, as_json: bool) -> None:
    """Print what was fitted, the answer, the gravest warnings, and what to do next."""
    report = fitted.answer
    warnings = [with_options(one) for one in report.remarks]
    if as_json:
        record = {**report.to_dict(), "model": str(model), "page": str(page), "remarks": warnings}
        echo_data(json.dumps(record, ensure_ascii=False, default=str) + "\n")
        return
    console = screen(stderr=quiet)
    if not quiet:
        show_report(console, report, fitted.changes)
    rest = 0 if quiet else len(warnings[MOST_WARNINGS:])
    for sentence in warnings if quiet else warnings[:MOST_WARNINGS]:
        more = f" ({rest} more on the page.)" if rest else ""
        console.print(pair(plain("warning", "yellow"), plain(sentence + more), 10))
    if not quiet:
        usual = ".jpg" if report.kind == "image" else ".csv"
        again = "new" + (Path(report.source).suffix or usual)
        console.print(plain(f"Wrote {model} and {page}. Next:", "bold"), soft_wrap=True)
        command = f"firthshot predict {shlex.quote(str(model))} {again} --out predictions.csv"
        console.print(plain(f"  {command}"), soft_wrap=True)


def show_report(console: Console, report: FitReport, changes: Changes | None = None) -> None:
    """Print what was fitted, the answer, and what an update changed."""
    from firthshot.own_data import answer_lines, title_line

    console.print(plain(title_line(report), "bold"))
    updated = {} if changes is None else {"update": str(changes)}
    console.print(facts(dict(answer_lines(report)) | updated))
