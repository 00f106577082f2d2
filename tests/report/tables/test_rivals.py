"""The table of all methods, and the times beside them."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from firthshot.experiments.run.record import read_times
from firthshot.report.gather import Gathered, gather
from firthshot.report.page.render import headline_of
from firthshot.report.tables.rivals import is_transductive, ranking, rival_tables
from firthshot.report.wording import head_name
from report.runs_made import toy_run

HEADS = ["linear", "simpleshot-l2n", "nearest-neighbour", "bd-cspn", "tim"]


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> Gathered:
    folder = tmp_path_factory.mktemp("rivals")
    return gather([toy_run(folder, heads=HEADS, ways=[3], trials=12, coefficients=[0, 1])])


@pytest.fixture(scope="module")
def lines(gathered: Gathered) -> list[dict[str, Any]]:
    (made,) = rival_tables(gathered)
    return [dict(zip(made.columns, row, strict=True)) for row in made.rows]


def test_every_method_is_ranked_among_its_kind(lines: list[dict[str, Any]]) -> None:
    for _, setting in groupby(lines, key=lambda line: line["Shot"]):
        own = list(setting)
        assert len(own) == len(HEADS) + 2  # and the two references
        for kind, count in (("inductive", 5), ("transductive", 2)):
            ranked = [line for line in own if line["Kind"] == kind]
            assert len(ranked) == count
            accuracies = [line["Accuracy"] for line in ranked]
            assert accuracies == sorted(accuracies, reverse=True)


def test_methods_that_do_not_differ_share_a_rank(
    gathered: Gathered, lines: list[dict[str, Any]]
) -> None:
    """A rank counts who is significantly better, by the contrasts on file."""
    chosen = {(r["head"], r["shots"]): r["accuracy"] for r in gathered.summary.chosen.to_dicts()}
    heads = {head_name(head): head for head, _ in chosen}
    contrasts = gathered.summary.contrasts.filter(pl.col("p_holm") < 0.05).to_dicts()
    pairs = [(one["shots"], one["head"], one["against_head"]) for one in contrasts]
    pairs += [(shots, other, head) for shots, head, other in pairs]
    for line in lines:
        head, shots = heads[line["Method"].split(" + ")[0]], int(line["Shot"])
        kind = is_transductive(head)
        rivals = {
            other
            for at, mine, other in pairs
            if (at, mine, is_transductive(other)) == (shots, head, kind)
            and chosen[other, shots] > chosen[head, shots]
        }
        assert line["Rank"] == 1 + len(rivals)
    assert len({line["Rank"] for line in lines}) > 1
    assert len(lines) > len({(line["Shot"], line["Kind"], line["Rank"]) for line in lines})


def test_differences_are_to_the_best_inductive_method(lines: list[dict[str, Any]]) -> None:
    for _, setting in groupby(lines, key=lambda line: line["Shot"]):
        best, *others = setting
        assert best["Difference"] is None
        for line in others:
            assert line["Difference"] == pytest.approx(
                line["Accuracy"] - best["Accuracy"], abs=0.02
            )


def test_milliseconds_are_those_on_record(gathered: Gathered, lines: list[dict[str, Any]]) -> None:
    times = read_times(Path(gathered.runs[0].path))
    assert len(times) == len(lines)
    assert {head for _, head, *_ in times} == {*HEADS, "centroid", "least-squares"}
    assert all(0 < seconds < 10 for seconds in times.values())
    shown = sorted(line["ms"] for line in lines)
    assert shown == pytest.approx(sorted(1000 * seconds for seconds in times.values()), abs=0.006)


def test_few_heads_have_no_such_table(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, heads=["linear"], ways=[3], shots=[1], trials=3)
    assert list(rival_tables(gather([folder]))) == []
    assert list(ranking(gather([folder]))) == []


def test_the_headline_has_the_first_places_and_firths(
    gathered: Gathered, lines: list[dict[str, Any]]
) -> None:
    inductive = [line for line in lines if line["Kind"] == "inductive"]
    ranks: dict[str, list[int]] = {}
    for line in inductive:
        own = [other["Accuracy"] for other in inductive if other["Shot"] == line["Shot"]]
        ranks.setdefault(line["Method"], []).append(sorted(own)[::-1].index(line["Accuracy"]) + 1)
    means = {name: sum(own) / 2 for name, own in ranks.items()}
    headline = headline_of(gathered)
    assert headline.question == "Which method is best here?"
    assert headline.lines[0].startswith("Does Firth help here? ")
    said = headline.answer
    assert said.startswith(
        "By mean rank of accuracy over 2 settings, the first of 5 inductive methods are "
    )
    assert f"{min(means, key=lambda name: means[name])} ({min(means.values()):.1f})" in said
    assert f"({means['linear + Firth']:.1f})" in said
