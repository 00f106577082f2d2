"""Lines of a summary with known numbers, and the verdicts on them."""

from __future__ import annotations

from typing import Any

import polars as pl

from experiments.summary_folders import KEY
from firthshot.experiments.schema import BINS
from firthshot.experiments.summary import RunSummary
from firthshot.experiments.summary.columns import ALL, CHOSEN, CONTRASTS
from firthshot.report.gather import Gathered
from firthshot.report.verdict import Verdict

ZERO = {"coefficient": 0.0, "p_holm": 1.0}  # of a setting that chose λ = 0
REFERENCE = {"against_penalty": "none", "against_head": "centroid"}


def setting(ways: int, shots: int, gain: float, ci: float = 0.2, **other: Any) -> dict[str, Any]:
    """Return a line of ``chosen``; gains in points. It is significant where |gain| > ci."""
    line = dict.fromkeys(CHOSEN) | {k: v for k, v in KEY.items() if k != "split"}
    gain, ci = gain / 100, ci / 100
    line |= {"ways": ways, "actual_ways": ways, "shots": shots, "coefficient": 1.0}
    line |= {"at_edge": False, "trials": 100, "base_accuracy": 0.6, "accuracy": 0.6 + gain}
    line |= {"improvement": gain, "improvement_ci": ci, "p_holm": 0.001 if abs(gain) > ci else 0.6}
    line |= {"base_nll": 1.0, "nll": 1.0, "base_ece_pooled": 0.2, "ece_pooled": 0.2}
    return line | other


def contrast(ways: int, shots: int, gain: float, ci: float = 0.2, **other: Any) -> dict[str, Any]:
    line = dict.fromkeys(CONTRASTS) | {k: v for k, v in KEY.items() if k != "split"}
    line |= {"ways": ways, "actual_ways": ways, "shots": shots, "coefficient": 1.0, "trials": 100}
    line |= {"against_head": "linear", "against_prior": "uniform", "against_penalty": "l2"}
    line |= {"difference": gain / 100, "difference_ci": ci / 100, "accuracy": 0.6}
    line |= {"against_accuracy": 0.6 - gain / 100, "p_holm": 0.001 if abs(gain) > ci else 0.6}
    return line | {"nll_difference": 0.0, "ece_difference": 0.0} | other


def theory(mean: float, ci: float | None) -> dict[str, float | None]:
    """Return what a line of ``chosen`` has of the tuning-free λ, in points."""
    width = None if ci is None else ci / 100
    return {"theory_improvement": mean / 100, "theory_improvement_ci": width}


class Fixed(Gathered):
    """Tables written by hand."""

    bins = pl.DataFrame(schema={name: getattr(pl, kind) for name, kind in BINS.items()})


def verdicts(
    *chosen: dict[str, Any],
    contrasts: tuple[dict[str, Any], ...] = (),
    lines: tuple[dict[str, Any], ...] = (),
    bins: dict[tuple[int, int], tuple[float, float]] | None = None,
) -> list[Verdict]:
    """Return the verdicts on lines of ``chosen``, ``contrasts`` and ``all``.

    ``bins`` are confidence and accuracy in per cent without penalty by ways and shots.
    """
    row = {**KEY, "coefficient": 0.0, "theory": False, "bin": 3, "count": 100}
    binned = [
        {**row, "ways": ways, "shots": shots, "confidence_sum": sure, "correct_sum": right}
        for (ways, shots), (sure, right) in (bins or {}).items()
    ]

    class Binned(Fixed):
        bins = pl.DataFrame(binned, schema=Fixed.bins.schema)

    summary = RunSummary(
        pl.DataFrame(list(lines), schema=ALL),
        pl.DataFrame(list(chosen), schema=CHOSEN),
        pl.DataFrame(list(contrasts), schema=CONTRASTS),
        [],
    )
    return Binned(summary, ()).verdicts
