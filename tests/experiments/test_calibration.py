"""Runs of Distribution Calibration: source banks, matching, resuming, both ways of choosing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from experiments.toy import assert_same_run, toy_spec, write_bank
from firthshot.banks import load_bank
from firthshot.errors import FirthshotError
from firthshot.experiments.plan.layout import make_plan
from firthshot.experiments.runner import run
from firthshot.experiments.spec.choose import settle_banks
from firthshot.experiments.spec.fields import Spec
from firthshot.experiments.spec.reading import find_problems, load_spec, preset_names
from firthshot.experiments.summary import summarise_many
from firthshot.experiments.summary.choice import PUBLISHED_WAY

FIELDS: dict[str, Any] = {
    "heads": ["linear"],
    "solver": "converged",
    "transform": "tukey",
    "l2": 1,
    "l2_kind": "ridge",
    "calibration": {"artificial": [0, 20]},
    "sgd": {},
}


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    return write_bank(tmp_path / "toy.bank", base=4)


def calibrated(bank: Path, **fields: Any) -> Spec:
    return toy_spec(bank, **{**FIELDS, **fields})


def test_rows_say_source_and_artificial_rows(bank: Path, tmp_path: Path) -> None:
    run(calibrated(bank), tmp_path / "run", workers=1)
    rows = pl.read_parquet(tmp_path / "run/parts/*.parquet")
    assert set(rows["source"]) == {"toy"}
    assert set(rows["artificial"]) == {0, 20}
    assert set(rows["status"]) == {"ok"}
    # 3 classes of 1 + 20 or 2 + 20 rows, 12 features: K min(N, d + 1) / 2N
    theory = rows.filter(pl.col("theory") & (pl.col("artificial") == 20))
    assert set(theory["coefficient"].round(6)) == {round(39 / 126, 6), round(39 / 132, 6)}
    assert not theory["theory_exact"].any()


def test_without_artificial_rows_it_is_the_plain_run(bank: Path, tmp_path: Path) -> None:
    run(calibrated(bank), tmp_path / "drawn", workers=1)
    run(calibrated(bank, calibration=None), tmp_path / "plain", workers=1)
    none = pl.read_parquet(tmp_path / "drawn/parts/*.parquet").filter(pl.col("artificial") == 0)
    plain = pl.read_parquet(tmp_path / "plain/parts/*.parquet")
    order = ["split", "shots", "coefficient", "theory", "trial"]
    for name in ("accuracy", "nll", "norm"):
        assert none.sort(order)[name].equals(plain.sort(order)[name])


def test_another_bank_as_source(bank: Path, tmp_path: Path) -> None:
    source = write_bank(tmp_path / "other.bank", base=5, dataset="elsewhere")
    run(calibrated(bank, source=str(source)), tmp_path / "run", workers=1)
    rows = pl.read_parquet(tmp_path / "run/parts/*.parquet")
    assert set(rows["source"]) == {"other"}
    assert set(rows["bank"]) == {"toy"}
    assert set(json.loads((tmp_path / "run/banks.json").read_text())) == {"toy", "other"}
    write_bank(tmp_path / "other.bank", base=3)
    with pytest.raises(FirthshotError, match="'other' has changed"):
        run(calibrated(bank, source=str(source)), tmp_path / "run", workers=1)


@pytest.mark.parametrize("solver", ["converged", "shared-lbfgs"])
def test_the_same_bits_on_any_workers_and_after_an_interruption(
    bank: Path, tmp_path: Path, solver: str
) -> None:
    if solver == "shared-lbfgs":
        pytest.importorskip("torch")
    spec = calibrated(bank, solver=solver, trials=20, ways=[3], shots=[1])
    run(spec, tmp_path / "one", workers=1)
    run(spec, tmp_path / "two", workers=2)
    assert_same_run(tmp_path / "one", tmp_path / "two")
    part = sorted((tmp_path / "two/parts").iterdir())[0]
    part.unlink()
    outcome = run(spec, tmp_path / "two", workers=2)
    assert outcome.resumed == outcome.cells - 1
    assert_same_run(tmp_path / "one", tmp_path / "two")


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_the_same_rows_on_a_cluster_with_another_bank_as_source(bank: Path, tmp_path: Path) -> None:
    """Both banks travel to the workers, which compute the statistics themselves."""
    distributed = pytest.importorskip("distributed")
    from firthshot.experiments.run.cluster import on_cluster

    source = write_bank(tmp_path / "other.bank", base=5, dataset="elsewhere")
    spec = calibrated(bank, source=str(source), trials=6)
    run(spec, tmp_path / "threads", workers=2, summary=False)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        outcome = run(
            spec,
            tmp_path / "dask",
            compute=lambda cells, banks: on_cluster(client, cells, banks, send=True),
            summary=False,
        )
    assert not outcome.failed
    assert_same_run(tmp_path / "threads", tmp_path / "dask")
    assert set(pl.read_parquet(tmp_path / "dask/parts/*.parquet")["source"]) == {"other"}


def test_both_ways_of_choosing(bank: Path, tmp_path: Path) -> None:
    spec = calibrated(bank, trials=12, shots=[1])
    run(spec, tmp_path / "run", workers=2)
    found = summarise_many([tmp_path / "run"])
    table, every = found.calibration, found.all.filter(~pl.col("theory"))
    drawn = every.filter(pl.col("source") == "toy")
    for split, chosen_on in (("val", "val"), ("novel", PUBLISHED_WAY)):
        (line,) = table.filter(pl.col("chosen_on") == chosen_on).to_dicts()
        judged = drawn.filter(pl.col("split") == split)
        zero = judged.filter(pl.col("coefficient") == 0).sort("artificial")
        best = judged.sort("accuracy", descending=True).row(0, named=True)
        assert line["before_artificial"] == zero["artificial"][zero["accuracy"].arg_max()]
        means = {(r["artificial"], r["coefficient"]): r["accuracy"] for r in judged.to_dicts()}
        after = means[line["artificial"], line["coefficient"]]
        assert after == pytest.approx(best["accuracy"], abs=1e-7)
        novel = {
            (r["artificial"], r["coefficient"]): r["accuracy"]
            for r in drawn.filter(pl.col("split") == "novel").to_dicts()
        }
        assert line["accuracy"] == pytest.approx(novel[line["artificial"], line["coefficient"]])
        assert line["base_accuracy"] == pytest.approx(novel[line["before_artificial"], 0.0])
        assert line["improvement"] == pytest.approx(line["accuracy"] - line["base_accuracy"])


def test_other_runs_have_no_such_table(bank: Path, tmp_path: Path) -> None:
    run(toy_spec(bank, heads=["linear"]), tmp_path / "run", workers=1)
    assert not (tmp_path / "run/summary/calibration.csv").exists()
    assert not len(summarise_many([tmp_path / "run"]).calibration)


class TestIllPosed:
    def plan(self, spec: Spec) -> None:
        make_plan(spec, [load_bank(name) for name in spec.banks])

    def test_no_base_classes(self, tmp_path: Path) -> None:
        path = write_bank(tmp_path / "bare.bank", base=0)
        with pytest.raises(FirthshotError, match="'bare' has no base classes"):
            self.plan(calibrated(path))

    def test_other_features(self, bank: Path, tmp_path: Path) -> None:
        other = write_bank(tmp_path / "wide.bank", d=13)
        with pytest.raises(FirthshotError, match="has 13 features and bank 'toy' has 12"):
            self.plan(calibrated(bank, source=str(other)))

    def test_too_many_neighbours(self, bank: Path) -> None:
        with pytest.raises(FirthshotError, match="neighbours = 5, but source 'toy' has 4"):
            self.plan(calibrated(bank, calibration={"neighbours": 5}))

    def test_more_sources_than_banks(self, bank: Path) -> None:
        with pytest.raises(FirthshotError, match="2 sources for 1 banks"):
            self.plan(calibrated(bank, source=["own", "own"]))

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"heads": ["cosine"]}, "'linear' alone"),
            ({"solver": "sgd"}, "needs 'converged'"),
            ({"l2": 0}, "needs a ridge"),
            ({"penalties": ["confidence"]}, "no penalty 'confidence'"),
            ({"calibration": {"artificial": [5, 5]}}, "listed twice"),
            ({"calibration": {"alpha": -1}}, "alpha"),
            ({"calibration": {"arificial": [5]}}, "did you mean 'artificial'"),
            ({"solver": "shared-lbfgs", "trials": 12}, "no multiple of 10"),
            ({"solver": "shared-lbfgs", "first_trial": 5}, "begin with a multiple of 10"),
            ({"solver": "shared-lbfgs", "dtype": "float64"}, "trains in float32"),
        ],
    )
    def test_specs(self, fields: dict[str, Any], words: str) -> None:
        plain = {"name": "x", **FIELDS, **fields}
        assert words in " ".join(map(str, find_problems(plain)))

    def test_fields_without_calibration(self) -> None:
        said = " ".join(map(str, find_problems({"name": "x", "solver": "shared-lbfgs"})))
        assert "add [calibration]" in said
        said = " ".join(map(str, find_problems({"name": "x", "source": "y"})))
        assert "no effect without [calibration]" in said


def test_the_source_that_suits_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "banks").mkdir()
    kinds = {"eval": "eval", "sorted": "bn-train-sorted"}
    for end, extraction in kinds.items():
        about = {"extraction": extraction, "backbone": "resnet10"}
        write_bank(tmp_path / f"banks/cub-resnet10-{end}.bank", base=0, **about)
        write_bank(tmp_path / f"banks/mini-resnet10-{end}.bank", **about)
    banks = ("cub-resnet10-eval", "cub-resnet10-sorted")
    spec = settle_banks(load_spec("calibration-cross", {"banks": list(banks)}))
    assert spec.banks == banks
    assert spec.source == ("mini-resnet10-eval", "mini-resnet10-sorted")
    assert np.all([name in preset_names() for name in ("calibration-cross", "calibration-tiered")])


def test_the_embedded_bank_asks_its_own_base_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = settle_banks(load_spec("calibration-tiered"))
    assert (spec.banks, spec.source) == (("clinc150-minilm",), ("own",))
