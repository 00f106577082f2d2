"""The sweep bench: shapes of the paper's banks, and a projection that adds up."""

from __future__ import annotations

import pytest

from benchmarks.sweep_projection import COUNTED, PAPER_COUNT, WORKERS, project, stand_in
from firthshot.experiments.plan import make_plan
from firthshot.experiments.spec.reading import load_spec, preset_names

# Classifiers by the protocol: banks x splits x ways x shots x coefficients x seeds (x priors).
COUNTS = {
    "logistic-firth": 5 * 2 * 6 * 8 * 1000,
    "logistic-l2": 5 * 2 * 6 * 8 * 1000,
    "imbalanced": 5 * 2 * 2 * 8 * 1000 * 2,
    "mlp-firth": 5 * 2 * 6 * 8 * 400,
    "mlp-l2": 5 * 2 * 6 * 8 * 400,
    "imbalanced-mlp": 5 * 2 * 2 * 8 * 400 * 2,
    "ways-5-10": 5 * 2 * 2 * 6 * 8 * 1000,
    "datasets-firth": 10 * 2 * 6 * 8 * 1000,
    "datasets-l2": 10 * 2 * 6 * 8 * 1000,
    "simpleshot": 2 * 2 * 7 * 3 * 8 * 1000,
    "confidence": 2 * 3 * 8 * 400 * 2,  # and Firth beside it
    "cosine": 2 * (4 + 4 + 7) * 3 * 8 * 10_000,
}


@pytest.mark.parametrize("name", COUNTS)
def test_presets_train_as_many_classifiers_as_the_paper(name: str) -> None:
    spec = load_spec(name, {"references": False, "theory": False})
    banks = [stand_in(bank, spec.transform) for bank in spec.paper_banks]
    cells = make_plan(spec, banks).cells
    assert sum(cell.classifiers for cell in cells) == COUNTS[name]


def test_every_preset_of_the_paper_is_counted() -> None:
    assert {name for name in preset_names() if load_spec(name).paper_banks} >= set(COUNTS)


def test_what_the_paper_counts_adds_up_to_about_its_count() -> None:
    total = sum(COUNTS[name] for name in COUNTED)
    assert total == 8_992_000
    assert total == pytest.approx(PAPER_COUNT, rel=0.06)


def test_the_projection_names_what_saturates() -> None:
    found = project({"cell_s": 0.01, "megabyte_s": 1e-6}, 0.001, quick=True)
    assert found["classifiers"] == sum(COUNTS[name] for name in COUNTED[:2])
    lines = found["workers"]
    assert [line["workers"] for line in lines] == list(WORKERS)
    assert lines[0]["bound_by"] == "compute"
    assert lines[0]["compute_s"] == pytest.approx(1000 * lines[-1]["compute_s"])
    assert all(line["seconds"] >= line["scheduler_s"] for line in lines)
    assert found["saturation"]["scheduler"] < found["saturation"]["writer"]
    slow = project({"cell_s": 100.0, "megabyte_s": 1e-6}, 0.001, quick=True)
    assert {line["bound_by"] for line in slow["workers"]} == {"scheduler"}
