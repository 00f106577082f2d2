"""Defaults: every rule has its λ and l2, trials its methods; the page is that of its CSV."""

import numpy as np
import polars as pl
import pytest

from firthshot import FirthClassifier, load_bank, sample_episodes
from studies.defaults import experiment, tables, trials
from studies.defaults.rules import BASELINE, CORE, OURS, WIDE, Facts, named
from studies.pages import fill, marks


def test_rules_follow_the_support_set():
    facts = Facts(classes=4, rows=8, spread=3.0, scale=2.5)
    assert WIDE[BASELINE](facts) == (0.0, 1.0)
    assert WIDE[named("1/shots²", "v share")](facts) == (0.25, 2.5)
    assert WIDE[named("K/2", "0.1 v")](facts) == pytest.approx((2.0, 0.3))
    assert set(CORE) <= set(WIDE)


@pytest.fixture(scope="module")
def one_trial():
    bank = load_bank("clinc150-minilm")
    episode = sample_episodes(bank, "val", ways=4, shots=2, trials=1, queries=3)[0]
    X, Q = (bank.features[rows].astype(np.float64) for rows in (episode.support, episode.query))
    return X, episode.support_labels, Q, 4


def test_the_default_of_a_trial_is_that_of_the_estimator(one_trial):
    """The study leaves out by exact fits, the estimator by rough ones: temperatures differ."""
    X, y, Q, _ = one_trial
    logits = trials.core_trial(*one_trial)[OURS]
    expected = FirthClassifier().fit(X, y).predict_proba(Q)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    assert odds / odds.sum(axis=1, keepdims=True) == pytest.approx(expected, abs=1e-2)


def test_a_run_leaves_whole_parts_that_make_every_kept_table(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "BLOCK", 2)
    monkeypatch.setattr(experiment, "SHOTS", (1,))
    cells = experiment.cells([load_bank("clinc150-minilm")], [2])
    assert {cell.split for cell in cells} == {"base", "val"}
    experiment.run(cells, tmp_path, 2, ["core", "cosine"], 1)
    table = tables.summarise(pl.concat(map(pl.read_parquet, sorted(tmp_path.glob("*.parquet")))))
    assert set(table["trials"]) == {2}
    base = table.filter(method=BASELINE)
    assert base["accuracy_difference"].abs().max() == 0.0
    assert len(tables.cell_table(table)) == 2 + len(cells)
    assert len(tables.cosine_table(table)) == 2 + 1


def test_the_page_has_the_tables_that_the_csv_file_makes():
    pages = sorted(tables.RESULTS.parent.glob("*.md"))
    text = "\n".join(page.read_text("utf-8") for page in pages)
    made = tables.kept_tables(pl.read_csv(tables.RESULTS))
    assert set(made) | {"scale", "grid"} == set(marks(text))
    assert all(line in text for lines in made.values() for line in ["\n".join(lines)])
    assert fill(text, lambda mark: made.get(mark, ["x"])) != text  # the grid is of the parts alone
