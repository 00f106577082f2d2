"""The tables of a report: Before / After / Improvement as in the paper, with what it leaves out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from firthshot.experiments.checks import OPTIMUM_RIDGE, TRIALS, Check
from firthshot.experiments.schema import PENALTY, SPLITLESS
from firthshot.experiments.statistics import ALPHA
from firthshot.files import write_whole, writing_to
from firthshot.report.gather import Gathered
from firthshot.report.listing import write_listing
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
    TEXTS,
    WIDTH,
    WRITERS,
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
from firthshot.report.tables.rivals import rival_tables
from firthshot.report.verdict import Condition
from firthshot.report.wording import capital, head_name, listed


def make_tables(gathered: Gathered) -> list[Table]:
    """Return every table for which the runs have data."""
    parts = group(gathered.summary.chosen)
    found = [*drawn_tables(gathered), *(_improvement(part, gathered) for part in parts)]
    found += [made for part in parts if (made := _published(part))]
    found += _methods(gathered)
    found += [calibration_table(part) for part in parts]
    found += rival_tables(gathered)
    found += contrast_tables(gathered)
    return [*found, *geometric_tables(gathered)]


def write_tables(tables: Sequence[Table], folder: Path) -> list[Path]:
    """Write each table as CSV, Markdown and LaTeX; return the files."""
    paths = []
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for one in tables:
            for ending, write in WRITERS.items():
                paths.append(folder / f"{one.name}.{ending}")
                write_whole(paths[-1], write(one).encode())
    write_listing(folder, {one.title: one.note for one in tables}, [path.name for path in paths])
    return paths


def _improvement(part: Group, gathered: Gathered) -> Table:
    optima = _optima(gathered)
    rows = [
        place(row, len(part.banks) > 1)
        | {
            "Before": percent(row["base_accuracy"]),
            "After": percent(row["accuracy"]),
            f"After{WIDTH}": percent(row["accuracy_ci"]),
            **gain("Improvement", row["improvement"], row["improvement_ci"]),
            "Sig.": "*" if row["p_holm"] < ALPHA else "",
            "p (Holm)": p_value(row["p_holm"]),
            **_solved(optima, row, "coefficient", "At the optimum"),
            "λ": coefficient(row["coefficient"]),
            "Theory λ": coefficient(row["theory_coefficient"]),
            **gain("Theory improvement", row["theory_improvement"], row["theory_improvement_ci"]),
            **_solved(optima, row, "theory_coefficient", "Theory at the optimum"),
            "Trials": row["trials"],
            "Remark": "λ at the edge of its grid" if row["at_edge"] else "",
        }
        for row in part.rows
    ]
    words = {"method": part.method, "banks": bank_words(part.rows), "alpha": f"{ALPHA:g}"}
    words |= {"optimum": _optimum_note(rows), "theory": _theory_note(part)}
    words["paper"] = _paper_note(part, gathered)
    return table("improvement", part.label, rows, words, ("Sig.",))


def _optima(gathered: Gathered) -> dict[tuple[Any, ...], Check]:
    """Return the checks that solved a setting, by its key and λ."""
    return {
        (*(check.key[name] for name in SPLITLESS), check.coefficient): check
        for check in gathered.checks
        if check.optimum_gain is not None
    }


def _solved(optima: dict[tuple[Any, ...], Check], row: Row, which: str, title: str) -> Row:
    """Return the improvement at the optimum and its interval, nothing where it was not solved."""
    check = optima.get((*(row[name] for name in SPLITLESS), row[which]))
    return gain(title, check.optimum_gain, check.optimum_ci) if check else gain(title, None, None)


def _optimum_note(rows: list[Row]) -> str:
    """Say what the columns at the optimum are, where one has a number."""
    titles = ("At the optimum", "Theory at the optimum")
    if all(row[title] is None for row in rows for title in titles):
        return ""
    note: str = TEXTS["improvement"]["optimum"]
    return note.format(trials=TRIALS, ridge=f"{OPTIMUM_RIDGE:g}")


def _theory_note(part: Group) -> str:
    """Say what the theory's column is, and whether it is exact Firth."""
    rows = [row for row in part.rows if row["theory_coefficient"] is not None]
    if not rows:
        return ""
    exact = [bool(row["theory_exact"]) for row in rows]
    which = "exact Firth here" if all(exact) else "exact Firth in some lines only"
    which = which if any(exact) else "not exact Firth here"
    return f"Theory λ is the tuning-free K rank(X)/(2N), {which}. "


def _paper_note(part: Group, gathered: Gathered) -> str:
    """Say whether the paper has numbers for these lines; if not, why none are shown."""
    sources = ("published_table", "published_csv")
    count = sum(any(row[source] is not None for source in sources) for row in part.rows)
    if count == len(part.rows):
        return "The paper's numbers for the same cells are in the table of published numbers."
    if count:
        return f"The paper has numbers for {count} of {len(part.rows)} of these cells."
    specs = (run.spec for run in gathered.runs if run.spec.get("paper_banks"))
    if aims := distinct(specs, "reproduces"):
        return f"The paper ran {listed(aims)} on other banks: its numbers are not comparable."
    return "The paper has no numbers for these cells."


def _published(part: Group) -> Table | None:
    """Put the paper's numbers beside ours, one line per cell and source."""
    rows = [
        place(row, len(part.banks) > 1) | _beside(row, source)
        for row in part.rows
        for source in ("table", "csv")
        if row[f"published_{source}"] is not None
    ]
    if not rows:
        return None
    words = {"method": part.method, "banks": bank_words(part.rows)}
    return table("published", part.label, rows, words)


def _beside(row: Row, source: str) -> Row:
    start = f"published_{source}"
    ci, theirs_ci = row["improvement_ci"], row[f"{start}_improvement_ci"]
    theirs = row[f"{start}_improvement"]
    width = None if ci is None or theirs_ci is None else math.hypot(ci, theirs_ci)
    return {
        "Before": percent(row["base_accuracy"]),
        "Paper before": percent(row[f"{start}_before"]),
        "After": percent(row["accuracy"]),
        "Paper after": percent(row[f"{start}_after"]),
        **gain("Improvement", row["improvement"], ci),
        **gain("Paper improvement", theirs, theirs_ci),
        **gain("Difference", row["improvement"] - theirs, width),
        "λ": coefficient(row["coefficient"]),
        "Paper λ": coefficient(row.get(f"{start}_coefficient")),
        "Source": row[start],
    }


def _methods(gathered: Gathered) -> Iterator[Table]:
    """Put the improvements of several methods of a head side by side, as Table A4 does."""
    frame = tuple(name for name in TRAINED if name not in PENALTY)
    for part in group(gathered.summary.chosen, frame):
        names = list(dict.fromkeys(method_name(row) for row in part.rows))
        if len(names) < 2:
            continue
        lines: dict[tuple[str, Condition], Row] = {}
        for row in part.rows:
            at = row["bank"], Condition.of(row)
            line = lines.setdefault(at, place(row, len(part.banks) > 1))
            name = capital(method_name(row))
            line |= gain(name, row["improvement"], row["improvement_ci"])
            line[f"{name} sig."] = "*" if row["p_holm"] < ALPHA else ""
        words = {"head": head_name(part.key["head"]), "banks": bank_words(part.rows)}
        yield table("methods", part.label, list(lines.values()), words)


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
    return table("calibration", part.label, rows, words)


def drawn_tables(gathered: Gathered) -> Iterator[Table]:
    """Show artificial samples and λ chosen together, fairly and as the paper chose them."""
    by = tuple(name for name in TRAINED if name != "artificial")
    for part in group(gathered.summary.calibration, by):
        rows = sorted(part.rows, key=lambda row: row["chosen_on"] != "val")
        rows.sort(key=lambda row: (row["bank"], Condition.of(row)))
        lines = [_drawn(row, len(part.banks) > 1) for row in rows]
        words = {"head": head_name(part.key["head"]), "method": method_name(part.key)}
        words |= {"banks": bank_words(rows), "source": part.key["source"]}
        words["as_published"] = _AS_PUBLISHED
        yield table("artificial", part.label, lines, words)


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
        yield table("contrasts", label, lines, {"head": head_name(head)})


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
        yield table("geometric", number, rows, {"sentences": " ".join(result.sentences())})
