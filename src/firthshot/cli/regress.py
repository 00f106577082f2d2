"""``firthshot regress``: exact Firth regression of a table, printed like a statistics package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from firthshot.jeffreys import JeffreysLogisticRegression, Separation, Summary


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

    check_suffix(out)
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
    model.fit(data.frame, data.y, sample_weight=data.weights, offset=data.offset)
    summary = model.summary(level, "profile" if profile else "wald")
    separation = model.separation()
    _show(summary, separation)
    if out is not None:
        _write(out, summary, separation)
    if plot is not None:
        _draw(plot, model, level)


def check_suffix(out: Path | None) -> None:
    """Refuse an output file of a kind that cannot be written, before any work is done."""
    if out is not None and out.suffix.lower() not in (".csv", ".json"):
        raise FirthshotError(f"--out {out} is of no known kind: end its name in .csv or .json.")
    if out is not None and not out.parent.is_dir():
        raise FirthshotError(f"The folder {out.parent} of --out does not exist: create it first.")


def _find_class(y: Any, reference: str | None) -> Any:
    """Return the class whose text is ``reference``, of whatever type the column is."""
    if reference is None:
        return None
    classes = {str(value): value for value in y.tolist()}
    if reference not in classes:
        known = ", ".join(sorted(classes)[:12])
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
