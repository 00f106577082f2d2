"""Collect the paper's published numbers as facts: `collect_published.py PAPER.tex REFERENCE`.

REFERENCE holds the authors' result files, one folder per repository. Only figures are taken, each
with its table, or with its file and commit; percentages become fractions. Writes three small CSV
files into the package.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

Row = dict[str, object]

TARGET = Path(__file__).parents[1] / "src/firthshot/experiments/summary/published"
COMMITS = {"code_firth": "3942a09", "code_s2m2rf": "7f437e1", "code_dcf": "5667ee3"}
COLUMNS = (
    *("source", "name", "file", "commit", "dataset", "source_dataset", "backbone", "transform"),
    *("head", "solver", "penalty", "prior", "l2_kind", "ways", "shots"),
    *("shots_scheme", "artificial"),
    *("before", "after", "improvement", "ci", "coefficient"),
)
DATASETS = {
    "miniimagenet": "mini-ImageNet",
    "tieredimagenet": "tiered-ImageNet",
    "cifarfs": "CIFAR-FS",
    "cifar": "CIFAR-FS",
    "cub": "CUB",
}
BACKBONES = {"densenet121": "DenseNet-121", "mobilenet84": "MobileNet"} | {
    f"resnet{n}": f"ResNet-{n}" for n in (10, 18, 34, 50, 101)
}
FIGURES = {
    "firth_1layer": "Fig 2 (left)",
    "l2_1layer": "Fig 2 (right)",
    "imbal_1layer": "Fig 3",
    "firth_5_10way": "Fig A6",
    "firth_3layer": "Fig A7 (left)",
    "l2_3layer": "Fig A7 (right)",
    "imbal_3layer": "Fig A10",
    "firth_densemobile": "Fig A11",
    "firth_tieredcifar": "Fig A13 (left)",
    "l2_tieredcifar": "Fig A13 (right)",
    "entropy": "Table A4",
}
SCHEMES = {"8": "unbalanced-8", "15": "unbalanced-15"}
LINEAR = {"head": "linear", "solver": "sgd", "penalty": "firth", "prior": "uniform"}
COSINE = {"head": "cosine", "solver": "sgd", "penalty": "firth", "prior": "uniform"}
CALIBRATED = {**LINEAR, "solver": "converged", "transform": "tukey"}
WIDE = "WRN-28-10"


def fraction(percent: str | float) -> float:
    return round(float(percent) / 100, 6)


# ---- the tables of the paper -------------------------------------------------------------------


def table_body(tex: str, label: str) -> str:
    """Return the table environment that ends with this label."""
    end = tex.index(rf"\label{{{label}}}")
    return tex[tex.rindex(r"\begin{table}", 0, end) : end]


def numbers(line: str) -> list[str]:
    return re.findall(r"\d+\.\d+", line)


def triples(line: str) -> Iterator[Row]:
    """Read "before & after ± ci & improvement ± ci", once or more in a line."""
    found = numbers(line)
    for i in range(0, len(found) - 4, 5):
        before, after, _, improvement, ci = found[i : i + 5]
        yield {
            "before": fraction(before),
            "after": fraction(after),
            "improvement": fraction(improvement),
            "ci": fraction(ci),
        }


def shot_table(body: str, heading: str) -> Iterator[tuple[str, int, Row]]:
    """Read a table with headings over its blocks of lines "5-shot & ...": (heading, shots, row)."""
    over: list[str] = []
    for line in body.splitlines():
        over = re.findall(heading, line) or over
        shot = re.match(r"\s*(\d+)-shot", line)
        if shot:
            for name, row in zip(over, triples(line), strict=True):
                yield name, int(shot[1]), row


def way_table(body: str) -> Iterator[tuple[int, int, int, Row]]:
    """Read lines "way & shot & ...": (block, ways, shots, row)."""
    for line in body.splitlines():
        start = re.match(r"\s*(\d+)\s*&\s*(\d+)\s*&", line)
        if start:
            for block, row in enumerate(triples(line)):
                yield block, int(start[1]), int(start[2]), row


def tables(tex: str) -> Iterator[Row]:
    for block, ways, shots, row in way_table(table_body(tex, "tab:crossdomain-dcl")):
        origin = ("mini-ImageNet", "tiered-ImageNet")[block]
        about = {"dataset": "CUB", "source_dataset": origin, "ways": ways, "shots": shots}
        yield {"name": "Table 1", "backbone": WIDE, **CALIBRATED, **about, **row}
    for line in table_body(tex, "tab:confpenalty").splitlines():
        start = re.match(r"\s*(\d+)\s*&", line)
        if start:
            yield from confidence_rows(int(start[1]), numbers(line))
    for block, ways, shots, row in way_table(table_body(tex, "tab:dclnoaug")):
        about = {"ways": ways, "shots": shots, "artificial": (0, 750)[block]}
        where = {"dataset": "tiered-ImageNet", "source_dataset": "tiered-ImageNet"}
        yield {"name": "Table A5", "backbone": WIDE, **CALIBRATED, **where, **about, **row}
    for label, name, dataset in (
        ("tab:s2m2cifarpart1", "Table A6", "CIFAR-FS"),
        ("tab:s2m2minipart1", "Table A7", "mini-ImageNet"),
        ("tab:s2m2tieredpart1", "Table A8", "tiered-ImageNet"),
    ):
        for ways, shots, row in shot_table(table_body(tex, label), r"\{(\d+)-way\}"):
            about = {"dataset": dataset, "ways": int(ways), "shots": shots}
            yield {"name": name, "backbone": WIDE, **COSINE, **about, **row}
    body = table_body(tex, "tab:resnet-mini-absacc")
    for depth, shots, row in shot_table(body, r"\{ResNet(\d+)\}"):
        about = {"dataset": "mini-ImageNet", "ways": 16, "shots": shots}
        yield {"name": "Table A9", "backbone": f"ResNet-{depth}", **LINEAR, **about, **row}


def confidence_rows(shots: int, found: list[str]) -> Iterator[Row]:
    about = {"dataset": "mini-ImageNet", "backbone": "ResNet-10", "ways": 16, "shots": shots}
    for penalty, (value, ci) in zip(("confidence", "firth"), (found[:2], found[2:]), strict=True):
        how = {**LINEAR, "head": "mlp", "penalty": penalty}
        scores = {"improvement": fraction(value), "ci": fraction(ci)}
        yield {"name": "Table A4", **about, **how, **scores}


# ---- the authors' files ------------------------------------------------------------------------


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def logistic_about(line: dict[str, str]) -> Row:
    kind = line["experiment"].split("_")[0]
    penalty = {"l2": "l2", "entropy": "confidence"}.get(kind, "firth")
    column = {"l2": "l2_coeff", "confidence": "ent_coeff", "firth": "firth_coeff"}[penalty]
    return {
        "name": FIGURES[line["experiment"]],
        "dataset": DATASETS[line["dataset_name"]],
        "backbone": BACKBONES[line["backbone_arch"]],
        "head": {"lin": "linear", "mlp": "mlp"}[line["clf_type"]],
        "solver": "sgd",
        "penalty": penalty,
        "l2_kind": "mean-square" if penalty == "l2" else "",
        "prior": line["firth_prior_type"].replace("class_freq", "class-frequency"),
        "ways": int(line["n_ways"]),
        "shots": int(line["n_shots"]),
        "shots_scheme": "balanced"
        if line["do_imbalanced"] == "False"
        else SCHEMES[line["n_shots"]],
        "coefficient": float(line[column]),
    }


def scores(line: dict[str, str], metric: str, unit: float) -> Row:
    names = {
        "before": f"base_{metric}",
        "after": metric,
        "improvement": f"delta_{metric}",
        "ci": f"delta_{metric}_ci",
    }
    return {name: round(float(line[column]) * unit, 6) for name, column in names.items()}


def figures(reference: Path) -> Iterator[Row]:
    path = "code_firth/summary_val2test.csv"
    for line in read(reference / path):
        yield {"file": path, **logistic_about(line), **scores(line, "test_acc", 1)}
    path = "code_s2m2rf/summary_val2test.csv"
    for line in read(reference / path):
        about = {"dataset": DATASETS[line["dataset"].lower()], "backbone": WIDE}
        size = {"ways": int(line["test_n_way"]), "shots": int(line["n_shot"])}
        found = {**scores(line, "acc_300", 0.01), "coefficient": float(line["firth_c"])}
        yield {"name": "Fig 4", "file": path, **COSINE, **about, **size, **found}
    path = "code_dcf/summary_test2test.csv"
    for line in read(reference / path):
        yield {"file": path, **calibration_about(line), **scores(line, "test_acc", 1)}
    yield from cross_domain(reference, "code_dcf/tables_cross_domain.csv")


def calibration_about(line: dict[str, str]) -> Row:
    target = DATASETS[line["target_dataset"].lower()]
    name = "Table 1" if target == "CUB" else "Table A5"
    return {
        "name": name if line["n_ways"] != "5" else "5-way check, in no table",
        "dataset": target,
        "source_dataset": DATASETS[line["source_dataset"].lower()],
        "backbone": WIDE,
        **CALIBRATED,
        "ways": int(line["n_ways"]),
        "shots": int(line["n_shots"]),
        "artificial": int(float(line["n_aug"])),
        "coefficient": float(line["firth_coeff"]),
    }


def cross_domain(reference: Path, path: str) -> Iterator[Row]:
    for line in (reference / path).read_text().splitlines()[2:]:
        ways, shots, *cells = line.split(",")
        for origin, three in (("mini-ImageNet", cells[:3]), ("tiered-ImageNet", cells[3:])):
            values = [cell.split(" +/- ") for cell in three]
            found = {
                "before": fraction(values[0][0]),
                "after": fraction(values[1][0]),
                "improvement": fraction(values[2][0]),
                "ci": fraction(values[2][1]),
            }
            about = {"dataset": "CUB", "source_dataset": origin, "backbone": WIDE}
            size = {"ways": int(ways), "shots": int(shots)}
            yield {"name": "Table 1", "file": path, **CALIBRATED, **about, **size, **found}


# ---- writing -----------------------------------------------------------------------------------


def complete(rows: Iterable[Row], source: str) -> Iterator[Row]:
    for row in rows:
        repository = str(row.get("file", "")).split("/")[0]
        given = {"source": source, "commit": COMMITS.get(repository, "")}
        yield {"shots_scheme": "balanced", **given, **row}


def write(name: str, rows: Iterable[Row]) -> None:
    order = COLUMNS[:-5]
    lines = sorted(rows, key=lambda row: [_sortable(row.get(column, "")) for column in order])
    with (TARGET / name).open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    print(f"{name}: {len(lines)} lines")


def _sortable(value: object) -> tuple[float, str]:
    return (float(value), "") if isinstance(value, int | float) else (-1.0, str(value))


def main(paper: Path, reference: Path) -> None:
    TARGET.mkdir(exist_ok=True)
    write("tables.csv", complete(tables(paper.read_text()), "table"))
    write("figures.csv", complete(figures(reference), "csv"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
