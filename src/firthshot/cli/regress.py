"""``firthshot regress``: exact Firth regression of a table, printed like a statistics package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from firthshot.jeffreys import JeffreysLogisticRegression, Separation, Summary
    from firthshot.jeffreys._formula import ModelData


def regress(
    table: Annotated[Path, typer.Argument(help="Table: .csv, .tsv, .parquet or .json.")],
    formula: Annotated[str, typer.Argument(help='Model, such as "y ~ x1 + C(group)".')],
    reference: Annotated[
        str | None, typer.Option(help="Baseline class of the outcome; the first if not given.")
    ] = None,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile/--wald", help="Profile intervals and likelihood-ratio tests, or Wald's."
        ),
    ] = True,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    tau: Annotated[float, typer.Option(help="Power of the penalty; 0 is ML.")] = 0.5,
    standard_errors: Annotated[
        str, typer.Option(help="inverse-information (brglm2) or augmented (logistf).")
    ] = "inverse-information",
    correction: Annotated[str, typer.Option(help="none, flic or flac.")] = "none",
    weights: Annotated[str | None, typer.Option(help="Column of frequencies.")] = None,
    offset: Annotated[str | None, typer.Option(help="Column to add to the predictor.")] = None,
    collinear: Annotated[
        str, typer.Option(help="refuse collinear columns, or minimal-norm coefficients.")
    ] = "refuse",
    out: Annotated[
        Path | None, typer.Option(help="Write the table to this .csv or .json file.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the profiles of all slopes into this file.")
    ] = None,
) -> None:
    """Fit binary or multinomial logistic regression with Firth's exact penalty."""
    from firthshot.jeffreys._formula import read_model_data

    _check_target("--out", out, table, (".csv", ".json"))
    _check_target("--plot", plot, table, (".png", ".pdf", ".svg"))
    data = read_model_data(table, formula, weights=weights, offset=offset)
    from firthshot.jeffreys import JeffreysLogisticRegression

    model = JeffreysLogisticRegression(
        reference=_find_class(data.y, reference),
        fit_intercept=data.intercept,
        tau=tau,
        standard_errors=standard_errors,  # type: ignore[arg-type]
        correction=correction,  # type: ignore[arg-type]
        collinear=collinear,  # type: ignore[arg-type]
    )
    _fit(model, data)
    summary = model.summary(level, "profile" if profile else "wald")
    separation = model.separation()
    _show(summary, separation)
    if out is not None:
        _write(out, summary, separation)
    if plot is not None:
        _draw(plot, model, level)


def _check_target(option: str, path: Path | None, table: Path, kinds: tuple[str, ...]) -> None:
    """Refuse an output file that cannot or must not be written, before any work is done."""
    if path is None:
        return
    if path.resolve() == table.resolve():
        raise FirthshotError(f"{option} {path} would overwrite the table: give another name.")
    if path.suffix.lower() not in kinds:
        names = f"{', '.join(kinds[:-1])} or {kinds[-1]}"
        raise FirthshotError(f"{option} {path} is of no known kind: end its name in {names}.")
    if not path.parent.is_dir():
        raise FirthshotError(
            f"The folder {path.parent} of {option} does not exist: create it first."
        )
    if path.is_dir():
        raise FirthshotError(f"{option} {path} is a folder: give the name of a file.")


def _fit(model: JeffreysLogisticRegression, data: ModelData) -> None:
    """Fit, with warnings and refusals in the words of the command line."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(data.frame, data.y, sample_weight=data.weights, offset=data.offset)
        except FirthshotError as error:
            ours, theirs = "set collinear='minimal-norm'", "give --collinear minimal-norm"
            raise FirthshotError(str(error).replace(ours, theirs)) from None
    for warning in caught:
        if not issubclass(warning.category, ConvergenceWarning):  # the table says that itself
            typer.echo(str(warning.message), err=True)


def _find_class(y: Any, reference: str | None) -> Any:
    """Return the class whose text is ``reference``, of whatever type the column is."""
    if reference is None:
        return None
    classes = {str(value): value for value in y.tolist()}
    if reference not in classes:
        from firthshot.jeffreys._text import listed

        known = listed(sorted(classes))
        raise FirthshotError(f"--reference {reference!r} is not a class; choose of {known}.")
    return classes[reference]


def _show(summary: Summary, separation: Separation) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for line in summary.head_lines():
        console.print(Text(line))
    console.print()
    for line, is_title in summary.table_lines(console.width):
        console.print(Text(line, style="bold" if is_title else ""), soft_wrap=True)
    console.print()
    for note in summary.notes:
        console.print(Text(note, style="dim"))
    if separation:
        console.print(Text(str(separation), style="yellow"))


def _write(out: Path, summary: Summary, separation: Separation) -> None:
    plain = summary.to_dict()
    if out.suffix.lower() == ".json":
        import json

        plain["separation"] = {
            "kind": separation.kind,
            "variables": list(separation.variables),
            "directions": separation.directions,
            "rows": int(separation.separated.sum()),
        }
        out.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    import polars as pl

    reference = pl.lit(str(summary.header["reference"])).alias("reference")
    rows = pl.DataFrame(plain["coefficients"], infer_schema_length=None)
    rows.select("contrast", reference, pl.exclude("contrast")).write_csv(out)


def _draw(path: Path, model: JeffreysLogisticRegression, level: float) -> None:
    from firthshot.jeffreys._plots import save_profiles

    save_profiles(path, model, level)
