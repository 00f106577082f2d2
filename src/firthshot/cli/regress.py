"""``firthshot regress``: exact Firth regression of a table, printed like a statistics package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from firthshot.cli._options import AsJson, check_target
from firthshot.cli._screen import echo, echo_json, plain, screen
from firthshot.errors import FirthshotError, listed, refusing

if TYPE_CHECKING:
    from firthshot.formulas import ModelData
    from firthshot.jeffreys import Regression, Summary


def regress(
    table: Path,
    formula: str,
    reference: str | None = None,
    profile: Annotated[bool | None, typer.Option("--profile/--wald")] = None,
    robust: Literal["HC0", "HC1", "HC2", "HC3"] | None = None,
    clusters: str | None = None,
    level: float = 0.95,
    tau: float = 0.5,
    standard_errors: Literal["inverse-information", "augmented"] = "inverse-information",
    correction: Literal["none", "flic", "flac"] = "none",
    weights: str | None = None,
    offset: str | None = None,
    missing: Literal["error", "drop"] = "error",
    odds_ratios: bool = False,
    collinear: Literal["refuse", "minimal-norm"] = "refuse",
    out: Path | None = None,
    plot: Path | None = None,
    plot_kind: str = "forest",
    as_json: AsJson = False,
) -> None:
    """Fit binary or multinomial logistic regression with Firth's exact penalty."""
    if out is not None:
        check_target("--out", out, {"table": [table]}, (".csv", ".json"))
    if plot is not None:
        check_target("--plot", plot, {"table": [table]}, (".png", ".pdf", ".svg"))
    data = _read(table, formula, weights, offset, missing)
    fitted = _fit(
        data,
        reference=_find_class(data.y, reference),
        tau=tau,
        standard_errors=standard_errors,
        correction=correction,
        collinear=collinear,
    )
    if robust or clusters:
        fitted = fitted.with_covariance(robust or "HC1", clusters)
    method = None if profile is None else "profile" if profile else "wald"
    summary = _summarise(fitted, level, method, odds_ratios)
    if as_json:
        echo_json(summary.to_dict())
    else:
        _show(summary)
    if out is not None:
        _write(out, summary)
        echo(f"Wrote {out}.", err=as_json)
    if plot is not None:
        with refusing(f"--plot {plot} cannot be written, choose another place", OSError):
            fitted.plot(plot, kind=plot_kind, level=level, method=method)
        echo(f"Wrote {plot}.", err=as_json)


def _read(
    table: Path, formula: str, weights: str | None, offset: str | None, missing: str
) -> ModelData:
    """Read the table and evaluate the formula; the result knows the name of the file."""
    from firthshot.formulas import make_model_data, read_table

    data = make_model_data(
        read_table(table), formula, weights=weights, offset=offset, missing=missing
    )
    return replace(data, source={"table": table.name} | data.source)


def _fit(data: ModelData, **options: Any) -> Regression:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from firthshot.jeffreys import fit_model_data

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fit_model_data(data, **options)
    for warning in caught:
        if not issubclass(warning.category, ConvergenceWarning):  # the table says that itself
            echo(str(warning.message), err=True)
    return fitted


def _summarise(fitted: Regression, level: float, method: str | None, odds_ratios: bool) -> Summary:
    """Test and find intervals; who has to wait is told how far it is."""
    from firthshot.cli._progress import PATIENCE_SECONDS, ScreenProgress
    from firthshot.progress import heard_by

    hint = "--wald needs no such search"
    told = ScreenProgress(screen(stderr=True), patience=PATIENCE_SECONDS, hint=hint)
    with told as listener, heard_by(listener):
        return fitted.summary(level, method, odds_ratios=odds_ratios)


def _find_class(y: Any, reference: str | None) -> Any:
    """Return the class whose text is ``reference``, of whatever type the column is."""
    if reference is None:
        return None
    classes = {str(value): value for value in y.tolist()}
    if reference not in classes:
        known = listed(sorted(classes))
        raise FirthshotError(f"--reference {reference!r} is not a class; choose of {known}.")
    return classes[reference]


def _show(summary: Summary) -> None:
    console = screen()
    for line in summary.head_lines():
        console.print(plain(line))
    console.print()
    for make in (summary.table_lines, summary.term_lines):
        if lines := make(console.width):
            for line, is_title in lines:
                console.print(plain(line, "bold" if is_title else ""), soft_wrap=True)
            console.print()
    for note in summary.notes:
        console.print(plain(note, "dim"))
    for note in summary.separation_note():
        console.print(plain(note, "yellow"))


def _write(out: Path, summary: Summary) -> None:
    import json

    import polars as pl

    from firthshot.files import write_whole

    record = summary.to_dict()
    if out.suffix.lower() == ".json":
        content = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    else:
        reference = pl.lit(str(summary.header["reference"])).alias("reference")
        rows = pl.DataFrame(record["coefficients"], infer_schema_length=None)
        content = rows.select("contrast", reference, pl.exclude("contrast")).write_csv()
    with refusing(f"--out {out} cannot be written, choose another place", OSError):
        write_whole(out, content.encode())
