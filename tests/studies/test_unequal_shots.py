"""Unequal shots: the correction and the choice do what they say; the page is that of its CSV."""

from itertools import product

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from firthshot import FirthClassifier, load_bank, sample_episodes
from firthshot.experiments.spec.shots import SCHEMES
from firthshot.objective import softmax
from studies.pages import fill, marks
from studies.unequal_shots import experiment as study
from studies.unequal_shots import tables

CSV = tables.RESULTS
PAGE = CSV.with_name("README.md")


def test_correction_turns_the_frequencies_of_training_into_equal_ones():
    shares, likelihoods = np.array([0.8, 0.2]), np.array([0.3, 0.6])
    posterior = np.log(shares * likelihoods)  # what fits these shares, up to a constant
    assert softmax(study.correct(posterior, shares)[None])[0] == pytest.approx([1 / 3, 2 / 3])
    assert study.correct(posterior, shares, 0.0) == pytest.approx(posterior)
    half = study.correct(posterior, shares, 0.5)
    assert half == pytest.approx((posterior + study.correct(posterior, shares)) / 2)


@pytest.mark.parametrize("lam", [0.0, 0.3, 10.0])
def test_a_head_is_fitted_to_the_shares_that_the_matched_correction_takes_off(lam):
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1, 2], [2, 5, 13])
    X = rng.normal(size=(20, 4)) + y[:, None]
    head = FirthClassifier(lam=lam, l2=0.5, class_weight=None, calibrate=False, tol=1e-9).fit(X, y)
    expected = study.fitted_shares(np.array([0.1, 0.25, 0.65]), lam)
    assert head.predict_proba(X).mean(axis=0) == pytest.approx(expected, abs=1e-6)


def test_scores_of_a_trial_worked_by_hand():
    shots, labels = np.array([1, 3]), np.array([0, 0, 1, 1])
    certain = np.log(3.0)  # probabilities 3/4 and 1/4
    always_one = np.tile([0.0, certain], (4, 1))
    one_wrong = np.array([[certain, 0.0], [0.0, certain], [0.0, certain], [0.0, certain]])
    found = study.scores(np.stack([always_one, one_wrong]), labels, shots)
    low, high = -np.log(0.25), -np.log(0.75)
    by_name = [dict(zip(study.SCORES, row, strict=True)) for row in found]
    assert by_name[0] == pytest.approx(
        {
            "accuracy": 0.5, "fewest": 0.0, "most": 1.0, "alike": 0.75,
            "nll": (low + high) / 2, "alike_nll": low / 4 + 3 * high / 4,
        }
    )  # fmt: skip
    assert by_name[1] == pytest.approx(
        {
            "accuracy": 0.75, "fewest": 0.5, "most": 1.0, "alike": 0.875,
            "nll": low / 4 + 3 * high / 4, "alike_nll": low / 8 + 7 * high / 8,
        }
    )  # fmt: skip


def test_the_best_on_val_is_chosen_and_of_equal_ones_the_smaller():
    assert tables.choose((0.0, 1.0, 3.0), (0.5, 0.7, 0.6)) == 1.0
    assert tables.choose((0.0, 1.0, 3.0), (0.5, 0.7, 0.7)) == 1.0
    assert tables.choose((0.0, 1.0, 3.0), (0.7 - 2.0**-30, 0.6, 0.7)) == 0.0


def made_up_cell(best_on_val: float) -> pl.DataFrame:
    """Return a cell whose novel trials would all choose the largest coefficient."""
    rows = []
    treatments = (study.PLAIN, study.WEIGHTED, study.CORRECTED, study.MATCHED, study.STRENGTH)
    for split, head, treatment in product(("val", "novel"), study.HEADS, treatments):
        grid = study.STRENGTHS if treatment == study.STRENGTH else study.LAMBDAS
        best = {"val": best_on_val, "novel": max(grid)}[split]
        rows += [
            (split, head, treatment, at, trial, float(at == best))
            for at in grid
            for trial in range(3)
        ]
    rows += [("novel", study.READY, study.MEANS, 0.0, trial, 0.5) for trial in range(3)]
    names = ["split", "head", "treatment", "coefficient", "trial", "accuracy"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    others = [pl.col("accuracy").alias(name) for name in study.SCORES if name != "accuracy"]
    return frame.with_columns(pl.lit("b").alias("bank"), pl.lit("s").alias("scheme"), *others)


def test_coefficients_come_from_val_trials_and_scores_from_novel_ones():
    found = tables.settle(made_up_cell(best_on_val=1.0))
    for head, (name, (treatment, score)) in product(study.HEADS, tables.METHODS.items()):
        at, novel = found[head, name]
        assert at == (1.0 if score else 0.0), name
        assert set(novel["split"]) == {"novel"}
        assert set(novel["coefficient"]) == {at}
        assert set(novel["treatment"]) == {treatment}


def test_a_summary_pairs_trials_and_corrects_all_tests_together():
    table = tables.summarise(made_up_cell(best_on_val=study.LAMBDAS[-1]))
    line = table.filter(head=study.SCALE, method="Firth", against="nothing").row(0, named=True)
    assert (line["accuracy"], line["accuracy_ci"], line["trials"]) == (1.0, 0.0, 3)
    assert line["accuracy_p"] == 1.0  # three trials alone have 1/4, of many tests
    assert table.filter(pl.col("against").is_null())["accuracy_p"].is_null().all()


@pytest.fixture(scope="module")
def one_trial():
    bank = load_bank("clinc150-minilm")
    shots = SCHEMES["unbalanced-8"]
    episode = sample_episodes(bank, "val", ways=16, shots=shots, trials=1, queries=2)[0]
    X, Q = (bank.features[rows].astype(np.float64) for rows in (episode.support, episode.query))
    return X, episode.support_labels, Q


@pytest.mark.parametrize("weight", [None, "balanced"])
def test_methods_are_the_estimators_that_they_are_named_after(one_trial, weight):
    X, y, Q = one_trial
    treatment = study.WEIGHTED if weight else study.PLAIN
    found = study.converged(X, y, Q)
    ours = FirthClassifier(lam=0.3, class_weight=weight, calibrate=False, tol=1e-6).fit(X, y)
    assert found[study.SCALE, treatment, 0.3] == pytest.approx(ours.decision_function(Q), abs=1e-3)
    theirs = LogisticRegression(class_weight=weight, tol=1e-8, max_iter=1000).fit(X, y)
    assert softmax(found[study.ONE, treatment, 0.0]) == pytest.approx(
        theirs.predict_proba(Q), abs=1e-4
    )


@pytest.fixture
def tiny_run(tmp_path, monkeypatch):
    """Two trials per split on the embedded bank, a few passes of SGD."""
    monkeypatch.setattr(study, "BLOCK", 2)
    monkeypatch.setattr(study, "TRIALS", {"val": 2, "novel": 2})
    monkeypatch.setattr(study, "SGD", study.replace(study.SGD, epochs=3))
    study.run([load_bank("clinc150-minilm")], tmp_path / "parts")
    return tmp_path / "parts"


def test_a_run_goes_on_where_it_stopped_and_its_table_has_every_method(tiny_run):
    parts = sorted(tiny_run.iterdir())
    assert len(parts) == 2 * len(SCHEMES)
    parts[0].unlink()
    before = {path: path.stat().st_mtime_ns for path in parts[1:]}
    study.run([load_bank("clinc150-minilm")], tiny_run)
    assert sorted(tiny_run.iterdir()) == parts
    assert {path: path.stat().st_mtime_ns for path in parts[1:]} == before
    table = tables.summarise(pl.read_parquet(tiny_run / "*.parquet"))
    assert set(table["scheme"]) == set(SCHEMES)
    for head in study.HEADS:
        unweighted = {name for name in tables.METHODS if not name.startswith("weights")}
        expected = set(tables.METHODS) if head != study.PAPER else unweighted
        alone = table.filter(pl.col("against").is_null(), head=head)
        assert set(alone["method"]) == {*expected, study.MEANS}
    assert table.select(pl.col(study.SCORES).is_finite().all()).row(0) == (True,) * 6


# What is committed


def test_the_page_has_the_tables_that_the_csv_file_makes():
    text, made = PAGE.read_text("utf-8"), tables.tables(pl.read_csv(CSV))
    assert set(marks(text)) == set(made)
    assert fill(text, made.__getitem__) == text


def test_the_csv_file_has_whole_cells_with_coefficients_of_the_grids():
    table = pl.read_csv(CSV)
    cells = table.select("bank", "scheme").unique()
    assert cells.height == cells["bank"].n_unique() * len(SCHEMES)
    assert table["trials"].n_unique() == 1
    assert set(table["coefficient"]) <= {*study.LAMBDAS, *study.STRENGTHS}
    per_cell = table.group_by("bank", "scheme").len()["len"]
    assert per_cell.n_unique() == 1
