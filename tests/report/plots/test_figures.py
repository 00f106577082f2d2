"""Figures: the numbers on their axes are the summary's, nothing is clipped, files are the same."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from experiments.summary_folders import grid, write
from firthshot.experiments.summary import summarise_many
from firthshot.figures import shortened
from firthshot.report.gather import Gathered, gather
from firthshot.report.plots import drawings, write_figures
from firthshot.report.plots.groups import labels, natural
from firthshot.report.plots.style import (
    Drawing,
    dress_lambda,
    look_of,
    panels,
    style,
    thinned,
    write_drawing,
)
from firthshot.report.runs import Run
from firthshot.report.tables import make_tables
from report.runs_made import toy_run

FIELDS = {
    "penalties": ["firth", "l2"],
    "priors": ["uniform", "class-frequency"],
    "coefficients": [0, 0.1, 1, 10],
    "ways": [3],
    "shots": [1, 4, "unbalanced-8"],
    "trials": 12,
    "sgd": {"epochs": 5},
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Gathered:
    """A real run with Firth, both priors, L2, and unbalanced shots."""
    return gather([toy_run(tmp_path_factory.mktemp("toy"), **FIELDS)])


@pytest.fixture(scope="module")
def drawn(toy: Gathered) -> dict[str, Drawing]:
    with style():
        return {drawing.name: drawing for drawing in drawings(toy)}


def two_banks(folder: Path) -> Gathered:
    """Two banks, 1 and 5 shots, written by hand: one gains, the other loses."""
    parts = []
    for bank, gain in (("net101", 0.03), ("net50", -0.01)):
        for shots in (1, 5):
            accuracies = {
                0.0: [0.5 + 0.01 * t for t in range(12)],
                1.0: [0.5 + gain + 0.002 * (t % 3) * (gain > 0) + 0.01 * t for t in range(12)],
            }
            parts += [
                grid(accuracies, bank=bank, shots=shots, split=split) for split in ("val", "novel")
            ]
    write(folder, *parts)
    run = Run(folder, "hand", "trials", {"name": "hand"}, "")
    return Gathered(summarise_many([folder]), (run,))


def bars_of(axes: Any) -> list[tuple[Any, Any, Any]]:
    """Return x, y and half-widths of every series with error bars."""
    found = []
    for container in axes.containers:
        _, _, (bars,) = container.lines
        none = np.full((2, 2), np.nan)  # where λ = 0 there is no bar
        ends = np.array([each if each.size else none for each in bars.get_segments()])
        found.append((ends[:, 0, 0], ends[:, :, 1].mean(1), np.diff(ends[:, :, 1])[:, 0] / 2))
    return found


def test_the_expected_figures_are_drawn(drawn: dict[str, Drawing]) -> None:
    methods = ("linear-firth", "linear-firth-class-frequency", "linear-l2")
    kinds = ("improvement-shots", "lambda", "reliability")
    assert set(drawn) >= {f"{kind}-{method}" for kind in kinds for method in methods}
    assert set(drawn) >= {"methods-linear", "unbalanced-linear", "rope"}
    assert set(drawn) >= {"baseline-shots-linear", "tradeoff-linear-firth"}
    assert "improvement-ways-linear-firth" not in drawn  # there is one number of ways
    assert "geometric" not in drawn
    # λ = 0 is the same whatever the penalty.
    assert len([name for name in drawn if name.startswith("baseline")]) == 1


def test_improvement_is_that_of_the_summary(tmp_path: Path) -> None:
    data = two_banks(tmp_path)
    with style():
        drawing = next(d for d in drawings(data) if d.name == "improvement-shots-linear-firth")
    (axes,) = drawing.figure.axes
    series = bars_of(axes)
    chosen = data.summary.chosen
    for (x, y, width), bank in zip(series, ("net50", "net101"), strict=True):  # 50 before 101
        lines = chosen.filter(pl.col("bank") == bank).sort("shots")
        used = lines["coefficient"].to_numpy() > 0
        np.testing.assert_allclose(x, np.where(used, [1, 5], np.nan), atol=0.1)
        gains = 100 * lines["improvement"].to_numpy()
        np.testing.assert_allclose(y, np.where(used, gains, np.nan), atol=1e-12)
        expected = np.where(used, 100 * lines["improvement_ci"], np.nan)
        np.testing.assert_allclose(width, expected, atol=1e-12)
    legend = drawing.figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["net50", "net101", "λ = 0 chosen"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "5"]
    assert any(set(line.get_ydata()) == {0} for line in axes.lines)  # the zero line
    assert not any(line.get_markerfacecolor() == "white" for line in axes.lines)
    crosses = [line for line in axes.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert len(crosses) == 2  # net50: λ = 0 was chosen at 1 and at 5 shots
    assert "Crosses: λ = 0 was chosen" in drawing.caption
    assert "Banks net50 [Toy; ResNet-50] and net101 [Toy; ResNet-50]" in drawing.caption
    assert "12 trials per point" in drawing.caption


def test_relative_and_baseline_follow_from_the_summary(tmp_path: Path) -> None:
    data = two_banks(tmp_path)
    with style():
        found = {d.name: d for d in drawings(data)}
    line = data.summary.chosen.filter(pl.col("bank") == "net101").sort("shots").to_dicts()[0]
    relative = bars_of(found["relative-shots-linear-firth"].figure.axes[0])[1]
    assert relative[1][0] == pytest.approx(100 * line["relative_improvement"])
    assert relative[2][0] == pytest.approx(100 * line["improvement_ci"] / line["base_accuracy"])
    baseline = bars_of(found["baseline-shots-linear"].figure.axes[0])[1]
    assert baseline[1][0] == pytest.approx(100 * line["base_accuracy"])
    assert baseline[2][0] == pytest.approx(100 * line["base_accuracy_ci"])


def test_methods_stand_side_by_side_on_one_scale(drawn: dict[str, Drawing], toy: Gathered) -> None:
    panels = drawn["methods-linear"].figure.axes
    titles = [axes.get_title() for axes in panels]
    assert titles == ["Firth", "Firth (class-frequency prior)", "L2 (mean-square)"]
    assert len({axes.get_ylim() for axes in panels}) == 1
    for axes, penalty, prior in zip(
        panels,
        ("firth", "firth", "l2"),
        ("uniform", "class-frequency", "uniform"),
        strict=True,
    ):
        lines = toy.summary.chosen.filter(
            pl.col("penalty") == penalty,
            pl.col("prior") == prior,
            pl.col("shots_scheme") == "balanced",
        ).sort("shots")
        line = next(line for line in axes.lines if line.get_label() == "3 ways")
        np.testing.assert_allclose(line.get_ydata(), 100 * lines["improvement"].to_numpy())


def test_priors_are_bars_beside_one_another(drawn: dict[str, Drawing], toy: Gathered) -> None:
    drawing = drawn["unbalanced-linear"]
    (axes,) = drawing.figure.axes
    bars = [bar for bar in axes.patches if bar.get_width()]
    lines = toy.summary.chosen.filter(
        pl.col("shots_scheme") == "unbalanced-8", pl.col("penalty") != "none"
    ).to_dicts()
    order = [("firth", "uniform"), ("firth", "class-frequency"), ("l2", "uniform")]
    lines.sort(key=lambda line: order.index((line["penalty"], line["prior"])))
    used = [line for line in lines if line["coefficient"]]
    gains = [100 * line["improvement"] for line in used]
    assert [bar.get_height() for bar in bars] == pytest.approx(gains)
    hollow = [bar.get_facecolor()[:3] == (1, 1, 1) for bar in bars]
    assert hollow == [not line["p_holm"] < 0.05 for line in used]
    crosses = [line for line in axes.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert len(crosses) == len(lines) - len(used)
    names = [text.get_text() for text in drawing.figure.legends[0].get_texts()]
    methods = ["Firth (uniform prior)", "Firth (class-frequency prior)", "L2 (mean-square)"]
    states = {"λ = 0 chosen", "significant", "not significant"}
    assert [name for name in names if name not in states] == methods
    assert ("not significant" in names) == any(hollow)
    assert drawing.title.startswith("Uniform and class-frequency prior")


def panel(drawing: Drawing, title: str) -> Any:
    return next(axes for axes in drawing.figure.axes if axes.get_title() == title)


def marked(axes: Any, marker: str) -> tuple[float, float]:
    """Return the place of the one point that has a marker."""
    (line,) = (one for one in axes.lines if one.get_marker() == marker and len(one.get_xdata()))
    return float(line.get_xdata()[0]), float(line.get_ydata()[0])


def test_validation_curves_mark_the_chosen_and_the_theory_value(
    drawn: dict[str, Drawing], toy: Gathered
) -> None:
    axes = panel(drawn["lambda-linear-firth"], "3 ways, 4 shots")
    here = (pl.col("penalty") == "firth") & (pl.col("prior") == "uniform") & (pl.col("shots") == 4)
    val = toy.summary.all.filter(here, pl.col("split") == "val")
    curve = val.filter(~pl.col("theory")).sort("coefficient")
    ((x, y, _),) = bars_of(axes)
    np.testing.assert_allclose(y, 100 * curve["improvement"].to_numpy())
    np.testing.assert_allclose(x, [0, 0.1, 1, 10])
    best = toy.summary.chosen.filter(here)["coefficient"][0]
    gain = dict(curve.select("coefficient", "improvement").iter_rows())[best]
    assert marked(axes, "*")[1] == pytest.approx(100 * gain)
    theory = val.filter("theory")
    expected = theory["coefficient"][0], 100 * theory["improvement"][0]
    assert marked(axes, "D") == pytest.approx(expected)
    names = [tick.get_text() for tick in axes.get_xticklabels()]
    assert names == ["0", "0.1", "1", "10"]


def test_trade_off_follows_lambda_on_the_novel_classes(
    drawn: dict[str, Drawing], toy: Gathered
) -> None:
    axes = panel(drawn["tradeoff-linear-l2"], "3 ways, 1 shot")
    here = (pl.col("penalty") == "l2") & (pl.col("shots") == 1) & (pl.col("split") == "novel")
    lines = toy.summary.all.filter(here, ~pl.col("theory")).sort("coefficient")
    path = axes.lines[0]
    np.testing.assert_allclose(path.get_xdata(), 100 * lines["ece_pooled"].to_numpy())
    np.testing.assert_allclose(path.get_ydata(), 100 * lines["accuracy"].to_numpy())
    assert marked(axes, "s") == (path.get_xdata()[-1], path.get_ydata()[-1])
    assert "The largest λ is 10." in drawn["tradeoff-linear-l2"].caption


def test_reliability_is_that_of_the_pooled_bins(drawn: dict[str, Drawing], toy: Gathered) -> None:
    axes = panel(drawn["reliability-linear-firth"], "3 ways, 1 shot")
    here = (pl.col("penalty") == "firth") & (pl.col("prior") == "uniform") & (pl.col("shots") == 1)
    chosen = toy.summary.chosen.filter(here)["coefficient"][0]
    novel = toy.bins.filter(here, ~pl.col("theory"), pl.col("split") == "novel")
    for label, value in (("before (λ = 0)", 0.0), ("after (chosen λ)", chosen)):
        bins = novel.filter(pl.col("coefficient") == value, pl.col("count") > 0).sort("bin")
        line = next(line for line in axes.lines if line.get_label() == label)
        np.testing.assert_allclose(line.get_xdata(), bins["confidence_sum"] / bins["count"])
        np.testing.assert_allclose(line.get_ydata(), bins["correct_sum"] / bins["count"])


def test_differences_hold_every_trial(drawn: dict[str, Drawing], toy: Gathered) -> None:
    shown = 0
    for name, drawing in drawn.items():
        if not name.startswith("differences"):
            continue
        for axes in drawing.figure.axes:
            for stairs in axes.patches:
                if stairs.get_label() in ("chosen λ", "theory λ"):
                    heights = stairs.get_data().values
                    assert heights.sum() == pytest.approx(100)
                    counts = heights * FIELDS["trials"] / 100
                    np.testing.assert_allclose(counts, counts.round(), atol=1e-9)
                    shown += 1
    assert shown


def test_nothing_is_clipped(drawn: dict[str, Drawing]) -> None:
    with style():
        for drawing in drawn.values():
            drawing.figure.draw_without_rendering()
            box, (width, height) = drawing.figure.get_tightbbox(), drawing.figure.get_size_inches()
            assert box.x0 >= -0.01, drawing.name
            assert box.y0 >= -0.01, drawing.name
            assert box.x1 <= width + 0.01, drawing.name
            assert box.y1 <= height + 0.01, drawing.name


def test_captions_are_sentences_with_the_facts(drawn: dict[str, Drawing]) -> None:
    for drawing in drawn.values():
        assert drawing.caption.endswith(".")
        assert drawing.title
        if drawing.name != "rope":
            assert "12 trials per point" in drawing.caption
            assert "toy" in drawing.caption
            assert "Linear head (SGD)" in drawing.caption
    assert "95 % intervals of the paired difference" in drawn["lambda-linear-firth"].caption


def test_files_come_in_three_formats(tmp_path: Path) -> None:
    files = write_figures(hand_made(tmp_path / "run", "toy"), tmp_path)
    assert len({file.name for file in files}) == len(files)
    for file in files:
        assert {kind: path.name for kind, path in file.paths.items()} == {
            kind: f"{file.name}.{kind}" for kind in ("svg", "pdf", "png")
        }
        assert file.paths["png"].read_bytes().startswith(b"\x89PNG")
        assert file.paths["pdf"].read_bytes().startswith(b"%PDF")
        root = ET.fromstring(file.paths["svg"].read_bytes())
        inches = float(root.attrib["width"].removesuffix("pt")) / 72
        assert inches in (pytest.approx(3.3), pytest.approx(6.9))


def test_files_are_the_same_for_the_same_data(tmp_path: Path, toy: Gathered) -> None:
    for name in ("one", "two"):
        with style():
            for family in ("improvement", "reliability"):
                write_drawing(next(drawings(toy, family)), tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) == 6
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def hand_made(folder: Path, *banks: str) -> Gathered:
    parts = [
        grid({0.0: [0.5, 0.6], 1.0: [0.6, 0.7]}, bank=bank, shots=shots, split=split)
        for bank in banks
        for shots in (1, 2)
        for split in ("val", "novel")
    ]
    write(folder, *parts)
    run = Run(folder, "x", "trials", {"name": "x"}, "")
    return Gathered(summarise_many([folder]), (run,))


def test_names_stay_text_in_svg(tmp_path: Path) -> None:
    from unicodedata import lookup

    nasty = f"<script>alert(1)</script> $x^2$ {lookup('CJK UNIFIED IDEOGRAPH-6F22')}"
    data = hand_made(tmp_path / "run", nasty, "other")
    with style():
        file = write_drawing(next(drawings(data, "improvement")), tmp_path)["svg"]
    root = ET.fromstring(file.read_bytes())
    texts = ["".join(element.itertext()) for element in root.iter() if element.tag.endswith("text")]
    assert shortened(nasty) in [text.strip() for text in texts]
    assert not [element for element in root.iter() if element.tag.endswith("script")]


def test_control_characters_do_not_break_svg(tmp_path: Path) -> None:
    data = hand_made(tmp_path / "run", "red \x1b[31m\u202e", "other")
    with style():
        for drawing in drawings(data):
            content = write_drawing(drawing, tmp_path)["svg"].read_text("utf-8")
            assert ET.fromstring(content) is not None
            assert not re.search("[\x1b\u202e]", content)


def test_the_style_leaves_no_trace() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    with style():
        assert mpl.rcParams["svg.fonttype"] == "none"
    assert dict(mpl.rcParams) == before


def test_lambda_axis_has_a_place_for_zero() -> None:
    with style():
        _, (axes,) = panels(1, 1)
        dress_lambda(axes, [0, 0.01, 1, 10], 3.0)
    places = axes.xaxis.get_transform().transform(np.array([0, 0.01, 0.1, 1, 10]))
    steps = np.diff(places)
    np.testing.assert_allclose(steps[1:], steps[1])  # logarithmic
    assert steps[0] > 0.4 * steps[1]  # zero stands apart
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "0.01", "0.1", "1", "10"]


def test_labels_that_would_touch_are_blank() -> None:
    assert thinned([0, 1, 2], ["1", "2", "3"], 3.0) == ["1", "2", "3"]
    assert thinned([0, 0.1, 10], ["100", "101", "200"], 2.0) == ["100", "", "200"]
    assert shortened("x" * 50, 11) == "xxxxx…xxxxx"
    assert sorted(["net101", "net50", "net5"], key=natural) == ["net5", "net50", "net101"]


def test_group_labels_are_short_and_all_different() -> None:
    key = {"head": "linear", "penalty": "firth", "prior": "uniform", "transform": "none"}
    assert labels([key]) == ["linear-firth"]
    both = labels([key, {**key, "transform": "l2"}, {**key, "head": "mlp"}])
    assert both == ["linear-firth-none", "linear-firth-l2", "mlp-firth"]
    alike = labels([{**key, "bank": "a b"}, {**key, "bank": "a/b"}])
    assert len(set(alike)) == 2


def test_a_single_trial_and_lines_without_scores_are_drawn_too(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, trials=1, ways=[3], shots=[1], coefficients=[0, 1])
    data = gather([folder])
    assert data.summary.chosen["improvement_ci"].null_count()  # one trial has no interval
    with style():
        found = {drawing.name: drawing for drawing in drawings(data)}
    assert "improvement-shots-linear-firth" in found
    assert "1 trials" not in found["improvement-shots-linear-firth"].caption
    tables = {table.name: table for table in make_tables(data)}
    first = dict(
        zip(
            tables["improvement-linear-firth"].columns,
            tables["improvement-linear-firth"].rows[0],
            strict=True,
        )
    )
    assert first["Trials"] == 1


def test_a_series_with_a_settled_place_keeps_its_look():
    with style(("first", "second")):
        assert look_of("second", 5) == look_of("unknown", 1)
    assert look_of("second", 5) != look_of("unknown", 1)
