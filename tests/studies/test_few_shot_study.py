"""The study of FewShotClassifier: its rivals, its trials and its verdict."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from firthshot.errors import FirthshotError
from studies.few_shot.lda import RankLDA
from studies.few_shot.settings import Setting, draw, settings
from studies.few_shot.sources import Source, load
from studies.few_shot.table import _to_rival_chosen_elsewhere, lines, write_table


def test_lda_by_rows_is_scikit_learns():
    X, y = load_digits(return_X_y=True)
    X = X + np.random.default_rng(0).normal(size=X.shape)
    rows = np.concatenate([np.flatnonzero(y == k)[: 3 + k] for k in range(4)])
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(X[rows], y[rows])
    ours = RankLDA().fit(X[rows], y[rows])
    new = X[y < 4][-50:]
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-8)


def test_trials_depend_on_names_and_numbers_alone():
    source = load("iris", final=False)
    setting = Setting("iris", 3, (1, 2, 4), "1-4")
    one, again = (draw(source, setting, 3, final=False) for _ in range(2))
    np.testing.assert_array_equal(one.X, again.X)
    assert np.bincount(one.y).tolist() == [1, 2, 4]
    assert not np.array_equal(one.X, draw(source, setting, 4, final=False).X)
    assert not np.array_equal(one.X, draw(source, setting, 3, final=True).X)


def test_queries_like_the_shots_have_their_proportions():
    random = np.random.default_rng(0)
    source = Source("x", False, random.normal(size=(200, 3)), np.repeat([0, 1], 100))
    setting = Setting("x", 2, (20, 5), "20-5", like_shots=True)
    assert np.bincount(draw(source, setting, 0, final=False).truth).tolist() == [20, 5]


def test_every_setting_has_queries_left():
    source = load("wine", final=False)
    for setting in settings(source):
        assert len(draw(source, setting, 0, final=False).truth) >= 5 * setting.ways


def test_the_table_compares_with_the_best_of_nine(tmp_path):
    for who in ("ours", "rivals"):
        (tmp_path / who).mkdir()
    random = np.random.default_rng(0)
    theirs = random.uniform(0.2, 0.4, (10, 11, 2))
    theirs[:, 3, 0] = 0.9
    ours = np.full((10, 1, 2), 0.8)
    np.save(tmp_path / "ours" / "iris_3x2.npy", ours)
    np.save(tmp_path / "rivals" / "iris_3x2.npy", theirs)
    (line,) = lines(tmp_path)
    assert (line.rival, line.group) == ("ridge", "tables")
    assert line.regret == pytest.approx(10.0)
    assert line.ahead == pytest.approx(10.0)
    assert "tables: 1 setting of 10 to 10 trials" in write_table(tmp_path)


def test_banks_that_cannot_be_made_are_named(tmp_path, capsys, monkeypatch):
    from studies.few_shot import banks

    monkeypatch.setattr(banks, "RECIPES", [one for one in banks.RECIPES if one.files])
    banks.build_all(tmp_path, tmp_path / "out")
    told = capsys.readouterr().out
    assert "clinc150-minilm: shipped with this repository." in told
    assert "hwu64-minilm: skipped, hwu.json not in" in told
    assert not list((tmp_path / "out").iterdir())


def test_a_run_gives_cheap_settings_more_trials_and_skips_what_is_not_there(
    tmp_path, capsys, monkeypatch
):
    from studies.few_shot import run as running

    sources = {"cheap": 2, "dear": 40000}

    def load_some(name, final):
        if name not in sources:
            raise FirthshotError(f"{name} is nowhere.")
        random = np.random.default_rng(0)
        return Source(name, True, random.normal(size=(20, sources[name])), np.repeat([0, 1], 10))

    done = []

    def score(trial, setting):
        done.append(setting.source)
        return np.zeros((1, 2))

    monkeypatch.setattr(running, "names", lambda final: ("cheap", "dear", "lost"))
    monkeypatch.setattr(running, "load", load_some)
    running.run(tmp_path, {"ours": score}, 40, final=True)
    assert "lost is skipped: lost is nowhere." in capsys.readouterr().out
    settings_each = done.count("cheap") // 40
    assert done[: 40 * settings_each] == ["cheap"] * 40 * settings_each
    assert done.count("dear") == done.count("cheap")
    running.run(tmp_path, {"ours": score}, 40, final=True)
    assert len(done) == 2 * 40 * settings_each  # resumed, nothing is done twice


def test_a_rival_that_is_lucky_on_some_trials_is_chosen_on_others():
    lucky = np.zeros((10, 2))
    lucky[::2, 0] = 1.0  # perfect on even trials, hopeless on odd ones
    lucky[:, 1] = 0.4
    ours = np.full(10, 0.5)
    found = _to_rival_chosen_elsewhere(lucky, ours)
    assert found == pytest.approx(((0.4 - 0.5) + (0.0 - 0.5)) / 2)
