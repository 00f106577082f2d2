"""Cells: rows by the schema, each the number that the engine gives, theory beside the grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.toy import assert_same_run, read_tables, toy_spec, write_bank
from firthshot.banks import load_bank, make_bank, save_bank
from firthshot.engine import Linear, Penalty, Sgd, train
from firthshot.episodes import sample_episodes
from firthshot.errors import FirthshotError
from firthshot.experiments.plan.layout import make_plan
from firthshot.experiments.run import compute as compute_module
from firthshot.experiments.run.compute import compute, full_rank, polars_type
from firthshot.experiments.run.features import Cache, SplitFeatures, transform_split
from firthshot.experiments.runner import run
from firthshot.experiments.schema import BINS, ROW, TRIALS
from firthshot.objective import sample_rank


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_bank(tmp_path / "toy.bank", dataset="toys", backbone="none", extraction="eval")


def tables(path: Path, **fields: Any) -> Any:
    bank = load_bank(path)
    (cell,) = make_plan(toy_spec(path, heads=["linear"], **fields), [bank]).cells
    return compute(cell, bank)


def test_tables_follow_the_schema(path: Path) -> None:
    made = tables(path, splits=["novel"], shots=[2])
    for frame, schema in ((made.rows, ROW), (made.bins, BINS), (made.trials, TRIALS)):
        assert dict(frame.schema) == {name: polars_type(text) for name, text in schema.items()}
        assert frame.null_count().sum_horizontal().item() == 0
    assert made.rows.height == 4 * (3 + 1)
    assert made.bins.height == 15 * (3 + 1)
    assert made.trials.height == 4
    first = made.rows.row(0, named=True)
    assert (first["dataset"], first["backbone"], first["extraction"]) == ("toys", "none", "eval")
    assert (first["query_rule"], first["solver"], first["status"]) == ("5", "sgd", "ok")


def test_rows_are_the_engines_numbers(path: Path) -> None:
    rows = tables(path, splits=["novel"], shots=[2], theory=False).rows
    bank = load_bank(path)
    episodes = sample_episodes(bank, "novel", ways=3, shots=2, trials=4, queries=5)
    penalty = Penalty("firth", (0.0, 0.1, 1.0))
    results = train(bank.features, episodes, Linear(), Sgd(epochs=3), penalty)
    for name in ("accuracy", "nll", "brier", "ece", "norm"):
        ours = rows[name].to_numpy().reshape(4, 3)
        np.testing.assert_array_equal(ours, getattr(results, name).astype(np.float32))
    assert rows["trial"].to_list() == np.repeat(range(4), 3).tolist()
    assert rows["coefficient"].to_list() == [0.0, 0.1, 1.0] * 4


def test_pooled_bins_count_every_query(path: Path) -> None:
    bins = tables(path, splits=["novel"], shots=[2]).bins
    totals = bins.group_by("coefficient", "theory").agg(pl.col("count").sum())
    assert set(totals["count"]) == {4 * 3 * 5}


def test_trials_say_which_classes_they_drew(path: Path) -> None:
    made = tables(path, splits=["val"], shots=[2])
    expected = sample_episodes(load_bank(path), "val", ways=3, shots=2, trials=4).classes
    assert made.trials["classes"].to_list() == expected.tolist()


def test_theory_is_half_the_ways_when_rows_are_independent(path: Path) -> None:
    rows = tables(path, splits=["novel"], shots=[2]).rows.filter("theory")
    assert set(rows["coefficient"]) == {1.5}
    assert rows["theory_exact"].all()


def test_theory_with_more_rows_than_features(path: Path) -> None:
    rows = tables(path, splits=["novel"], shots=[10]).rows.filter("theory")
    assert set(rows["coefficient"]) == {3 * 13 / (2 * 30)}
    assert not rows["theory_exact"].any()


def test_a_theory_value_in_the_grid_has_its_own_rows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []

    def spy(*arguments: Any, **options: Any) -> Any:
        trained.append(arguments[4].coefficients)
        return train(*arguments, **options)

    monkeypatch.setattr(compute_module, "train", spy)
    rows = tables(path, splits=["novel"], shots=[2], coefficients=[0, 1.5, 3]).rows
    assert trained == [(0.0, 1.5, 3.0)]  # nothing twice
    scores = ["trial", "accuracy", "nll", "norm"]
    own = rows.filter("theory")
    grid = rows.filter(~pl.col("theory") & (pl.col("coefficient") == 1.5))
    assert own.select(scores).equals(grid.select(scores))
    assert own.height == 4


def test_theory_is_for_uniform_firth_only(path: Path, tmp_path: Path) -> None:
    spec = toy_spec(
        path,
        penalties=["firth", "l2", "confidence", "label-smoothing"],
        priors=["uniform", "class-frequency"],
        heads=["linear"],
        shots=[2],
        references=True,
    )
    run(spec, tmp_path / "run", summary=False)
    rows = read_tables(tmp_path / "run")["parts"]
    theory = rows.filter("theory").select("penalty", "prior").unique().rows()
    assert theory == [("firth", "uniform")]
    heads = set(rows.filter(pl.col("penalty") == "none")["head"])
    assert heads == {"centroid", "least-squares"}
    smoothed = rows.filter(pl.col("penalty") == "label-smoothing")
    assert smoothed["coefficient"].max() == 0.9  # its own grid, below 1


def test_duplicate_rows_are_not_exact(path: Path) -> None:
    bank = load_bank(path)
    features = np.array(bank.features)
    features[bank.rows("novel")] = features[bank.rows("novel")][0]
    save_bank(path, features, bank.labels, bank.meta)
    rows = tables(path, splits=["novel"], shots=[2]).rows
    assert not rows["theory_exact"].any()


@settings(max_examples=60)
@given(
    n=st.integers(1, 12),
    d=st.integers(1, 12),
    repeat=st.booleans(),
    near=st.sampled_from([0.0, 1e-7, 1e-3]),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    seed=st.integers(0, 99),
)
def test_the_cheap_rank_is_the_rank(
    n: int, d: int, repeat: bool, near: float, scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    X = (scale * rng.normal(size=(n, d))).astype(np.float32)
    if repeat and n > 1:
        X[-1] = X[0] + near * scale * rng.normal(size=d).astype(np.float32)
    assert full_rank(X) == (sample_rank(X) == n)


def test_coefficients_of_large_trials_are_trained_in_portions(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tables(path, splits=["novel"], shots=[2])
    monkeypatch.setattr(compute_module, "_WORKING_LIMIT", 1000)
    split = tables(path, splits=["novel"], shots=[2])
    keys = ["coefficient", "theory", "trial", "accuracy"]
    assert whole.rows.select(keys).equals(split.rows.select(keys))
    np.testing.assert_allclose(whole.rows["nll"], split.rows["nll"], rtol=1e-5)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_bit(path: Path, tmp_path: Path, threads: int) -> None:
    spec = toy_spec(path, references=True, transform="centre-l2", trials=7)
    run(spec, tmp_path / "one", workers=1, summary=False)
    run(spec, tmp_path / "more", workers=threads, summary=False)
    assert_same_run(tmp_path / "one", tmp_path / "more")


def test_methods_share_their_trials(path: Path, tmp_path: Path) -> None:
    run(toy_spec(path, references=True), tmp_path / "run", summary=False)
    drawn = read_tables(tmp_path / "run")["trials"]
    keys = ["bank", "split", "ways", "shots", "shots_scheme", "trial"]
    assert drawn.unique().height == drawn.unique(keys).height
    assert drawn.height == 4 * drawn.unique(keys).height


class TestTransforms:
    """Each transform against its formula."""

    def test_none(self, path: Path) -> None:
        bank = load_bank(path)
        np.testing.assert_array_equal(
            transform_split(bank, "novel", "none").values, bank.select("novel")
        )

    def test_unit_length(self, path: Path) -> None:
        bank = load_bank(path)
        X = bank.select("val")
        expected = X / np.linalg.norm(X, axis=1, keepdims=True)
        np.testing.assert_allclose(transform_split(bank, "val", "l2").values, expected, rtol=1e-6)

    def test_centred_by_the_base_classes(self, path: Path) -> None:
        bank = load_bank(path)
        X = bank.select("novel") - bank.select("base").mean(axis=0)
        expected = X / np.linalg.norm(X, axis=1, keepdims=True)
        found = transform_split(bank, "novel", "centre-l2").values
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)

    def test_square_roots(self, tmp_path: Path) -> None:
        X = np.arange(12.0).reshape(4, 3)
        bank = make_bank(X, [0, 0, 1, 1], name="x", classes=["a", "b"], class_splits=["val", "val"])
        np.testing.assert_allclose(
            transform_split(bank, "val", "tukey").values, np.sqrt(X), rtol=1e-6
        )

    def test_negative_features_keep_their_sign(self, path: Path) -> None:
        bank = load_bank(path)
        X = bank.select("val")
        expected = np.sign(X) * np.sqrt(np.abs(X))
        assert (X < 0).any()
        np.testing.assert_allclose(
            transform_split(bank, "val", "tukey").values, expected, rtol=1e-6
        )

    def test_no_base_classes(self, tmp_path: Path) -> None:
        path = write_bank(tmp_path / "toy.bank", base=0)
        with pytest.raises(FirthshotError, match="no base classes"):
            make_plan(toy_spec(path, transform="centre-l2"), [load_bank(path)])

    def test_rows_out_of_order(self) -> None:
        rng = np.random.default_rng(0)
        labels = rng.permutation(np.repeat([0, 1, 2, 3], 5))
        X = rng.normal(size=(20, 3)).astype(np.float16)
        bank = make_bank(
            X, labels, name="x", classes=list("abcd"), class_splits=["val", "novel"] * 2
        )
        features = transform_split(bank, "novel", "none")
        rows = bank.rows("novel")[[3, 0, 7]]
        np.testing.assert_array_equal(
            features.values[features.positions(rows)], X[rows].astype(np.float32)
        )

    def test_the_cache_forgets_what_was_used_longest_ago(self, path: Path) -> None:
        bank = load_bank(path)
        one = transform_split(bank, "val", "l2").values.nbytes
        cache = Cache[SplitFeatures](transform_split, lambda kept: kept.values.nbytes, 2.5 * one)
        first = cache(bank, "val", "l2")
        cache(bank, "val", "none")
        assert cache(bank, "val", "l2") is first
        cache(bank, "val", "centre-l2")
        assert cache(bank, "val", "l2") is first  # "none" went
        assert len(cache._kept) == 2
