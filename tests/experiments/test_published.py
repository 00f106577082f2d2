"""The published numbers: spot checks against the paper, sums that must add up, and matching."""

from __future__ import annotations

from collections import Counter
from importlib.resources import files

import pytest

from firthshot.experiments.summary.published import published, published_for

RESNET = {
    "dataset": "mini-ImageNet",
    "backbone": "ResNet-50",
    "transform": "none",
    "head": "linear",
    "solver": "sgd",
    "penalty": "firth",
    "prior": "uniform",
    "l2_kind": "mean-square",
    "ways": 16,
    "shots": 25,
    "shots_scheme": "balanced",
    "source": "",
    "artificial": 0,
}
WIDE = {**RESNET, "dataset": "tiered-ImageNet", "backbone": "WRN-28-10"}


def test_every_table_is_whole():
    found = Counter(entry.name for entry in published() if entry.source == "table")
    assert found == {
        "Table 1": 8,
        "Table A4": 6,
        "Table A5": 8,
        "Table A6": 12,
        "Table A7": 12,
        "Table A8": 21,
        "Table A9": 30,
    }


def test_every_figure_is_whole_and_names_its_commit():
    figures = [entry for entry in published() if entry.source == "csv"]
    commits = {"code_firth": "3942a09", "code_s2m2rf": "7f437e1", "code_dcf": "5667ee3"}
    assert all(entry.commit == commits[entry.file.split("/")[0]] for entry in figures)
    assert Counter(entry.file for entry in figures) == {
        "code_firth/summary_val2test.csv": 385,
        "code_s2m2rf/summary_val2test.csv": 45,
        "code_dcf/summary_test2test.csv": 28,
        "code_dcf/tables_cross_domain.csv": 8,
    }


def test_improvement_is_after_minus_before():
    for entry in published():
        if entry.before is not None:
            rounding = 1.6e-4 if entry.source == "table" or "tables" in entry.file else 3e-6
            assert entry.after - entry.before == pytest.approx(entry.improvement, abs=rounding)
            assert 0 < entry.before < 1


@pytest.mark.parametrize(
    ("name", "where", "before", "after", "improvement", "ci"),
    [
        ("Table 1", {"source_dataset": "mini-ImageNet", "ways": 15, "shots": 5},
         0.5273, 0.5384, 0.0112, 0.0003),
        ("Table A4", {"penalty": "confidence", "shots": 10}, None, None, 0.0052, 0.0014),
        ("Table A5", {"artificial": 750, "ways": 15, "shots": 5}, 0.7388, 0.7440, 0.0053, 0.0004),
        ("Table A6", {"ways": 20, "shots": 10}, 0.7057, 0.7099, 0.0042, 0.0),
        ("Table A7", {"ways": 10, "shots": 5}, 0.7115, 0.7191, 0.0076, 0.0002),
        ("Table A8", {"ways": 150, "shots": 10}, 0.4104, 0.4428, 0.0325, 0.0001),
        ("Table A9", {"backbone": "ResNet-101", "shots": 20}, 0.0837, 0.1029, 0.0191, 0.0006),
    ],
)  # fmt: skip
def test_values_of_the_paper(name, where, before, after, improvement, ci):
    (entry,) = (
        entry
        for entry in published()
        if (entry.source, entry.name) == ("table", name)
        and all(getattr(entry, key) == value for key, value in where.items())
    )
    assert (entry.before, entry.after) == (before, after)
    assert (entry.improvement, entry.ci) == (improvement, ci)


def test_table_and_file_differ_and_both_are_given():
    table, file = published_for(RESNET)
    assert (table.source, table.name, table.after) == ("table", "Table A9", 0.1071)
    assert (file.source, file.name) == ("csv", "Fig 2 (left)")
    assert file.after == pytest.approx(0.1118, abs=5e-5)
    assert file.coefficient == 10


@pytest.mark.parametrize(
    ("dataset", "backbone"),
    [("miniImagenet", "resnet50"), ("MINI_IMAGENET", "ResNet50"), ("mini", "resnet-50")],
)
def test_names_are_compared_without_case_and_signs(dataset, backbone):
    assert len(published_for(RESNET | {"dataset": dataset, "backbone": backbone})) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"shots": 3},
        {"backbone": "ResNet-5"},
        {"dataset": ""},
        {"solver": "converged"},
        {"shots_scheme": "dirichlet-25"},
        {"penalty": "l2", "l2_kind": "ridge"},
        {"head": "centroid", "penalty": "none"},
    ],
)
def test_another_cell_has_no_published_number(other):
    assert published_for(RESNET | other) == []


def test_l2_unbalanced_and_confidence():
    (ridge,) = published_for(RESNET | {"penalty": "l2"})
    assert ridge.name == "Fig 2 (right)"
    (prior,) = published_for(
        RESNET | {"prior": "class-frequency", "shots": 8, "shots_scheme": "unbalanced-8"}
    )
    assert prior.name == "Fig 3"
    mlp = RESNET | {"backbone": "ResNet-10", "head": "mlp", "penalty": "confidence", "shots": 5}
    assert [entry.name for entry in published_for(mlp)] == ["Table A4", "Table A4"]


def test_calibration_is_told_by_source_and_artificial_samples():
    cell = WIDE | {"solver": "converged", "transform": "tukey", "ways": 10, "shots": 1}
    tiered = published_for(cell | {"source": "tiered-wrn", "artificial": 750})
    assert [(entry.name, entry.before) for entry in tiered] == [
        ("Table A5", 0.6185),
        ("Table A5", 0.618507),
    ]
    bird = cell | {"dataset": "CUB", "source": "mini-wrn", "artificial": 750}
    assert {entry.source_dataset for entry in published_for(bird)} == {"mini-ImageNet"}
    assert published_for(bird)[0].artificial == 750
    assert published_for(cell | {"transform": "none"}) == []


def test_cosine_at_all_ways():
    for ways in (5, 10, 15, 20, 50, 100, 150):
        found = published_for(WIDE | {"head": "cosine", "ways": ways, "shots": 5})
        assert [entry.name for entry in found] == ["Table A8", "Fig 4"]
        assert found[0].after == pytest.approx(found[1].after, abs=6e-5)


def test_the_data_stay_small():
    folder = files("firthshot") / "experiments" / "summary" / "published"
    assert sum(len(path.read_bytes()) for path in folder.iterdir()) < 200_000


def test_a_size_of_pictures_is_no_part_of_a_backbone():
    """Banks that this package extracts say "resnet10 at 84 px"."""
    ours = published_for({**RESNET, "backbone": "resnet10 at 84 px"})
    assert ours == published_for({**RESNET, "backbone": "ResNet-10"})
    assert ours
