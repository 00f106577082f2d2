"""The table of all methods, and the times beside them."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from scipy.stats import rankdata

from firthshot.experiments.run.record import read_times
from firthshot.report.gather import Gathered, gather
from firthshot.report.page.render import headline_of
from firthshot.report.tables.rivals import ranking, rival_tables
from firthshot.report.wording import head_name, is_transductive
from report.runs_made import toy_run

HEADS = ["linear", "simpleshot-l2n", "nearest-neighbour", "bd-cspn", "tim"]


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> Gathered:
    folder = tmp_path_factory.mktemp("rivals")
    return gather([toy_run(folder, heads=HEADS, ways=[3], trials=12, coefficients=[0, 1])])


@pytest.fixture(scope="module")
def lines(gathered: Gathered) -> list[dict[str, Any]]:
    _, made = rival_tables(gathered)
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


def test_the_overview_has_a_line_for_every_method(
    gathered: Gathered, lines: list[dict[str, Any]]
) -> None:
    made, _ = rival_tables(gathered)
    cells = (dict(zip(made.columns, row, strict=True)) for row in made.rows)
    rows = {row["Method"]: row for row in cells}
    assert len(rows) == len(HEADS) + 2
    for line in lines:
        assert rows[line["Method"]][f"3-way {line['Shot']}-shot"] == line["Accuracy"]
    kinds = [row["Kind"] for row in rows.values()]
    assert kinds == sorted(kinds)
    for kind in set(kinds):
        ranks = [row["Mean rank"] for row in rows.values() if row["Kind"] == kind]
        assert ranks == sorted(ranks)
        assert sum(ranks) == pytest.approx(len(ranks) * (len(ranks) + 1) / 2, abs=0.3)


def test_few_heads_have_no_such_table(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, heads=["linear"], ways=[3], shots=[1], trials=3)
    assert list(rival_tables(gather([folder]))) == []
    assert list(ranking(gather([folder]))) == []


def test_the_headline_has_the_first_places_and_firths(
    gathered: Gathered, lines: list[dict[str, Any]]
) -> None:
    inductive = [line for line in lines if line["Kind"] == "inductive"]
    shots = {line["Shot"] for line in lines}
    ranks: dict[str, list[float]] = {}
    for shot in shots:
        own = [line for line in inductive if line["Shot"] == shot]
        for line, rank in zip(own, rankdata([-line["Accuracy"] for line in own]), strict=True):
            ranks.setdefault(line["Method"], []).append(rank)
    means = {name: sum(own) / len(shots) for name, own in ranks.items()}
    best = min(means, key=lambda name: means[name])
    headline = headline_of(gathered)
    assert headline.question == "Which method is best here?"
    assert f"{best} leads the 5 inductive methods, ".lower() in headline.answer.lower()
    assert headline.answer.endswith(" the 2 transductive ones.")
    places, unbeaten, transductive, firth, *_ = headline.lines
    assert places.startswith(f"Mean rank of accuracy in 2 settings: {best} {means[best]:.1f}, ")
    number = 1 + sorted(means, key=lambda name: means[name]).index("linear + Firth")
    assert number > 3
    assert f"linear + Firth is number {number} ({means['linear + Firth']:.1f})" in places
    first = [line["Method"] for line in inductive if line["Rank"] == 1]
    assert f"better than {best} in {first.count(best)} of 2 settings" in unbeaten
    assert f"than linear + Firth in {first.count('linear + Firth')}." in unbeaten
    assert transductive.startswith(
        "Transductive methods see all queries at once; their mean ranks: "
    )
    assert firth.startswith("Does Firth help here? ")


def test_a_lead_that_may_be_chance_is_no_headline(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, heads=HEADS, ways=[3], trials=2, coefficients=[0, 1])
    first, places, *_ = ranking(gather([folder]))
    assert first == "None of the 5 inductive methods is significantly better than another."
    assert places.startswith("Mean rank of accuracy in ")
