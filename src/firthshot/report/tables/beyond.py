"""Tables beside the first: artificial samples, probabilities, contrasts, the geometric run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firthshot.experiments.schema import PENALTY
from firthshot.experiments.statistics import ALPHA
from firthshot.report.gather import Gathered
from firthshot.report.plots.groups import (
    TRAINED,
    Group,
    Row,
    bank_words,
    distinct,
    drawn_words,
    group,
    labels,
    method_name,
)
from firthshot.report.tables.cells import (
    WIDTH,
    Number,
    Table,
    coefficient,
    finite,
    gain,
    p_value,
    percent,
    place,
    table,
)
from firthshot.report.verdict import Condition
from firthshot.report.wording import head_name

_SIZES = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100, 200, 500, 1000)


def calibration_table(part: Group) -> Table:
    """Return how sure and how right predictions are, before and after."""
    rows = [
        place(row, len(part.banks) > 1)
        | {
            "λ": coefficient(row["coefficient"]),
            "NLL before": finite(row["base_nll"]),
            "NLL after": finite(row["nll"]),
            "Brier before": finite(row["base_brier"]),
            "Brier after": finite(row["brier"]),
            "ECE before": percent(row["base_ece_pooled"]),
            "ECE after": percent(row["ece_pooled"]),
        }
        for row in part.rows
    ]
    words = {"method": part.method, "banks": bank_words(part.rows)}
    return table("calibration", part.label, rows, **words)


def drawn_tables(gathered: Gathered) -> Iterator[Table]:
    """Show artificial samples and λ chosen together, fairly and as the paper chose them."""
    by = tuple(name for name in TRAINED if name != "artificial")
    for part in group(gathered.summary.calibration, by):
        rows = sorted(part.rows, key=lambda row: row["chosen_on"] != "val")
        rows.sort(key=lambda row: (row["bank"], Condition.of(row)))
        lines = [_drawn(row, len(part.banks) > 1) for row in rows]
        words = {"head": head_name(part.key["head"]), "method": method_name(part.key)}
        words |= {"banks": bank_words(rows), "source": part.key["source"]}
        yield table("artificial", part.label, lines, as_published=_AS_PUBLISHED, **words)


_AS_PUBLISHED = "novel classes, as published"


def _drawn(row: Row, many: bool) -> Row:
    return place(row, many) | {
        "Chosen on": "validation classes" if row["chosen_on"] == "val" else _AS_PUBLISHED,
        "Samples before": row["before_artificial"],
        "Before": percent(row["base_accuracy"]),
        "Samples after": row["artificial"],
        "λ": coefficient(row["coefficient"]),
        "After": percent(row["accuracy"]),
        f"After{WIDTH}": percent(row["accuracy_ci"]),
        **gain("Improvement", row["improvement"], row["improvement_ci"]),
        "p": p_value(row["p_wilcoxon"]),
        "Paper before": percent(row["published_before"]),
        "Paper after": percent(row["published_after"]),
        **gain("Paper improvement", row["published_improvement"], row["published_improvement_ci"]),
        "Trials": row["trials"],
    }


def contrast_tables(gathered: Gathered) -> Iterator[Table]:
    """Compare methods and reference heads on the same trials, a table for each head."""
    rows = gathered.summary.contrasts.to_dicts()
    heads = distinct(rows, "head")
    names = labels([{"head": head} for head in heads])
    for head, label in zip(heads, names, strict=True):
        mine = [row for row in rows if row["head"] == head]
        many = len(distinct(mine, "bank")) > 1
        lines = [_contrast(row, many) for row in sorted(mine, key=_contrast_order)]
        yield table("contrasts", label, lines, head=head_name(head))


def _contrast_order(row: Row) -> tuple[Any, ...]:
    return row["bank"], Condition.of(row), method_name(row), row["artificial"], row["against_head"]


def _contrast(row: Row, many: bool) -> Row:
    against = {name: row[f"against_{name}"] for name in ("head", *PENALTY)}
    same = against["head"] == row["head"]
    other = method_name(against) if same else head_name(against["head"])
    return place(row, many) | {
        "Method": f"{method_name(row)}{drawn_words(row)}",
        "Against": other,
        "Accuracy": percent(row["accuracy"]),
        "Theirs": percent(row["against_accuracy"]),
        **gain("Difference", row["difference"], row["difference_ci"]),
        "Sig.": "*" if row["p_holm"] < ALPHA else "",
        "p (Holm)": p_value(row["p_holm"]),
        "Won (%)": Number(100 * row["share_won"], 0),
        "Lost (%)": Number(100 * row["share_lost"], 0),
        "Trials": row["trials"],
    }


def geometric_tables(gathered: Gathered) -> Iterator[Table]:
    """Return the estimates of each geometric run at some sample sizes."""
    for name, result in gathered.named_geometric:
        rows = [
            {
                "N": row["size"],
                "Maximum likelihood": finite(row["mle"], 5),
                f"Maximum likelihood{WIDTH}": finite(row["mle_ci"], 5),
                "Exactly": finite(row["mle_exact"], 5),
                "Firth": finite(row["firth"], 5),
                f"Firth{WIDTH}": finite(row["firth_ci"], 5),
                "t of Firth's bias": finite(row["firth_t"], 2, signed=True),
            }
            for row in result.table.to_dicts()
            if row["size"] in _SIZES
        ]
        number = name.removeprefix("geometric-") if name != "geometric" else None
        yield table("geometric", number, rows, sentences=" ".join(result.sentences()))
