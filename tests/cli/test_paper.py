"""One command for every figure and table of the paper."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from cli.test_run import firthshot
from experiments.toy import write_bank
from firthshot.experiments.plan import make_plan
from firthshot.experiments.spec import (
    Spec,
    load_any,
    open_banks,
    paper_items,
    preset_names,
    presets_of,
    settle_banks,
)
from firthshot.experiments.summary.published import published


def named(words: str) -> set[str]:
    """Return the names of the figures and tables that a sentence mentions."""
    found = re.findall(r"(Fig|Figure|Table) (A?\d+)", words)
    return {f"{kind[:3] if kind == 'Fig' else kind}-{at}".lower() for kind, at in found}


def test_everything_published_has_a_command() -> None:
    names = {name.replace("fig-", "figure-") for one in published() for name in named(one.name)}
    assert names
    assert names <= set(paper_items())
    for preset in (*preset_names(), *preset_names("geometric")):
        for name in named(load_any(preset).reproduces):
            assert preset in paper_items()[name.replace("fig-", "figure-")]


@pytest.mark.parametrize("name", sorted({p for ps in paper_items().values() for p in ps}))
def test_every_preset_of_the_paper_plans(name: str) -> None:
    spec = load_any(name, {} if name == "geometric" else {"trials": 2})
    if isinstance(spec, Spec):
        settled = settle_banks(spec)
        assert make_plan(settled, open_banks(settled)).cells


def test_other_sources_are_themselves() -> None:
    assert presets_of("quickstart") == ("quickstart",)
    assert presets_of("figure-2") == ("logistic-firth", "logistic-l2")
    assert files("firthshot.experiments.spec").joinpath("paper.toml").is_file()


def test_both_panels_of_a_figure_by_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_bank(tmp_path / "toy.bank", rows=70)
    small = ["--bank", "toy.bank", "--set", "ways=[3]", "--set", "shots=[1]"]
    quick = [*small, "--trials", "3", "--set", "coefficients=[0,1]", "--set", "sgd.epochs=2"]
    assert "The report is runs/figure-2-toy/report.html" in firthshot(
        "run", "figure-2", *quick, report=True
    )
    page = (tmp_path / "runs/figure-2-toy/report.html").read_text()
    assert all(name in page for name in ("logistic-firth", "logistic-l2"))
    again = firthshot("run", "figure-a12", *quick)
    assert "0 classifiers trained; " in again  # the linear head's are those of figure-2
    shown = firthshot("presets", "figure-2", "--bank", "toy.bank")
    assert all(name in shown for name in ("logistic-firth", "logistic-l2"))
    assert "logistic-l2 is in order." in firthshot("validate", "figure-2", *small)
