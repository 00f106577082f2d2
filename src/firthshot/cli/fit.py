"""``firthshot fit``: a head for the user's own rows, and what they say of it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from rich.console import Console

    from firthshot.own_data import Examples, FitReport
    from firthshot.own_data._scale import ColumnScale

HEADS = ("linear", "cosine", "mlp")
SCALED = (
    "Columns vary on very different scales, so that they were brought to one (mean 0, spread 1) "
    "for fitting; the model takes them as they are. --no-standardize leaves that away."
)


def fit(
    source: Annotated[
        str,
        typer.Argument(
            help="Folder of class folders of pictures, table of texts or of features (.csv, .tsv, "
            ".parquet), feature file (.npz, …), or name of a bank."
        ),
    ],
    model: Annotated[
        Path, typer.Option("--model", help="File to write the model to, such as pets.firth.")
    ],
    label: Annotated[str, typer.Option(help="Column with the class of each row.")] = "label",
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column that names the rows; else one called id.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Column to leave out; may be repeated.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column of texts to embed.")] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Encoder of pictures or texts (see backbone ls); else the default."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Only this split of a bank.")] = None,
    head: Annotated[
        str | None,
        typer.Option(help="linear, cosine or mlp; else cosine for pictures, linear for the rest."),
    ] = None,
    lam: Annotated[
        str | None, typer.Option(help="Firth coefficient: a number, shots, theory or loo.")
    ] = None,
    l2: Annotated[
        str | None,
        typer.Option(help="L2 coefficient, 1/C of scikit-learn: a number, scale or loo."),
    ] = None,
    class_weight: Annotated[
        str | None, typer.Option(help="balanced: let every class weigh the same.")
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
    from firthshot.cli._embedding import embedding_progress
    from firthshot.own_data import Columns, read_examples, report_fit

    _make(head or HEADS[0], lam, l2, class_weight, calibrate)  # refuses before anything is read
    _check_model_path(model, source)
    columns = Columns(label, id_column, tuple(drop or ()), text=text)
    with embedding_progress() as listener:
        examples = read_examples(source, columns, split=split, encoder=encoder, listener=listener)
    head = head or ("cosine" if _are_pictures(examples) else "linear")
    estimator = _make(head, lam, l2, class_weight, calibrate)
    if head == "mlp" and not quiet:
        _say_cost(lam, l2)
    _refuse_equal_rows(examples)
    fitted, scale = _scaled(examples, head, standardize)
    notes = _fit(estimator, fitted)
    report = _name_defaults(report_fit(estimator, fitted, head), lam, l2)
    if scale is not None:
        scale.return_to_columns(estimator)
        if standardize is None:
            notes.append(SCALED)
    _save(estimator, model, examples)
    if as_json:
        typer.echo(json.dumps({**report.to_dict(), "model": str(model)}, ensure_ascii=False))
    else:
        _show(report, notes, model, examples, quiet=quiet)


def _make(
    head: str, lam: str | None, l2: str | None, class_weight: str | None, calibrate: bool
) -> Any:
    """Return the estimator, with its own defaults for what is not given."""
    if head not in HEADS:
        raise FirthshotError(f"--head {head} is unknown: choose from {', '.join(HEADS)}.")
    if class_weight not in (None, "balanced"):
        raise FirthshotError(f"--class-weight {class_weight} is unknown: only balanced is.")
    from firthshot import estimators

    name = {"linear": "FirthClassifier", "cosine": "FirthCosineClassifier"}
    make = getattr(estimators, name.get(head, "FirthMLPClassifier"))
    given = {"lam": _coefficient("--lam", lam), "l2": _coefficient("--l2", l2)}
    chosen = {key: value for key, value in given.items() if value is not None}
    return make(class_weight=class_weight, calibrate=calibrate, **chosen)


def _coefficient(option: str, text: str | None) -> float | str | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        words = ("shots", "theory", "loo") if option == "--lam" else ("scale", "loo")
        if text in words:
            return text
        raise FirthshotError(
            f"{option} {text} is unknown: give a number or {' or '.join(words)}."
        ) from None


def _say_cost(lam: str | None, l2: str | None) -> None:
    """Say how many networks leaving rows out will take."""
    from firthshot.estimators._base import LAM_GRID
    from firthshot.estimators._mlp import FOLDS, L2_GRID

    candidates = (len(LAM_GRID) if lam == "loo" else 1) * (len(L2_GRID) if l2 == "loo" else 1)
    if candidates > 1:
        typer.echo(
            f"Fitting {candidates * (1 + FOLDS)} nets: {candidates} candidates, on all rows and "
            f"without each of {FOLDS} parts …",
            err=True,
        )


def _check_model_path(model: Path, source: str) -> None:
    """Refuse a place that cannot or must not be written to, before any work is done."""
    if Path(source).exists() and model.resolve() == Path(source).resolve():
        raise FirthshotError(f"--model {model} would overwrite the data: give another name.")
    if model.is_dir():
        raise FirthshotError(f"--model {model} is a folder: give the name of a file.")
    if not model.parent.is_dir():
        raise FirthshotError(f"The folder {model.parent} of --model does not exist: create it.")


def _refuse_equal_rows(examples: Examples) -> None:
    if len(examples) > 1 and not (examples.features != examples.features[0]).any():
        raise FirthshotError(
            f"All rows of {examples.source} are equal: nothing can be learned from them."
        )


def _scaled(
    examples: Examples, head: str, standardize: bool | None
) -> tuple[Examples, ColumnScale | None]:
    """Return the rows to fit to, and their scale if it was changed; linear heads alone allow it."""
    from firthshot.own_data._scale import columns_differ, to_one_scale

    if standardize and head != "linear":
        raise FirthshotError(f"--standardize is for --head linear, not for {head}.")
    if standardize is None:
        standardize = head == "linear" and columns_differ(examples)
    return to_one_scale(examples) if standardize else (examples, None)


def _fit(estimator: Any, examples: Examples) -> list[str]:
    """Fit, and return what the estimator warned of."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            estimator.fit(examples.as_input(), examples.labels)
        except FirthshotError as error:
            raise FirthshotError(f"{examples.source} cannot be fitted: {error}") from None
    return [str(warning.message) for warning in caught]


def _name_defaults(report: FitReport, lam: str | None, l2: str | None) -> FitReport:
    """Say of a number that the user did not give that it is the default."""
    from dataclasses import replace

    if lam is None and report.lam_source == "given":
        report = replace(report, lam_source="default")
    if l2 is None and report.l2_source == "given":
        report = replace(report, l2_source="default")
    return report


def _save(estimator: Any, model: Path, examples: Examples) -> None:
    estimator.save(model, encoder=examples.encoder, fingerprint=examples.fingerprint)


def _show(
    report: FitReport, notes: list[str], model: Path, examples: Examples, *, quiet: bool
) -> None:
    from rich.console import Console

    from firthshot.cli import _fit_screen as screen

    console = Console(highlight=False)
    if not quiet:
        screen.show_report(console, report)
    _show_warnings(Console(highlight=False, stderr=True) if quiet else console, report, notes)
    if not quiet:
        again = "new" + (Path(examples.source).suffix or _usual_ending(examples))
        command = f"firthshot predict {shlex.quote(str(model))} {again} --out predictions.csv"
        screen.show_next(console, model, command)


def _usual_ending(examples: Examples) -> str:
    return ".jpg" if _are_pictures(examples) else ".csv"


def _are_pictures(examples: Examples) -> bool:
    return examples.id_name == "picture"


def _show_warnings(console: Console, report: FitReport, notes: list[str]) -> None:
    from firthshot.cli import _fit_screen as screen

    screen.show_warnings(console, [*notes, *report.remarks])
