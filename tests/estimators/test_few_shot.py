"""The classifier we recommend: what it settles, says, refuses and keeps."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from firthshot import FewShotClassifier, FirthshotError, load_bank, load_model
from firthshot.estimators._few_shot import blend, classifier
from firthshot.estimators._few_shot.words import FirthEffect
from oracles.linear_optimum import draw


@parametrize_with_checks(
    [
        FewShotClassifier(),
        FewShotClassifier(heads=("firth",), columns="plain", lam=0.1, l2=0.5),
        FewShotClassifier(heads={"gaussian": 2, "neighbours": 1}, class_prior="training"),
    ]
)
def test_it_follows_scikit_learn(estimator, check):
    check(estimator)


def proportions(return_X_y=True):
    """Return rows of very different length, whose directions are the classes."""
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 90)
    shapes = np.array([[5.0, 3.0, 2.0], [3.0, 5.0, 2.0], [4.0, 4.0, 3.0]])
    X = shapes[y] * np.exp(random.normal(size=(90, 1))) * np.exp(0.05 * random.normal(size=(90, 3)))
    return X, y


def sentences(shots, n_classes=5, queries=20):
    """Return rows, labels and queries of some intents of the embedded bank."""
    bank = load_bank("clinc150-minilm")
    classes = bank.classes("val")[:n_classes]
    shots = [shots] * n_classes if isinstance(shots, int) else shots
    rows = [bank.rows("val", name) for name in classes]
    X = np.concatenate([bank.features[r[:n]] for r, n in zip(rows, shots, strict=True)])
    Q = np.concatenate([bank.features[r[-queries:]] for r in rows])
    y, truth = np.repeat(classes, shots), np.repeat(classes, queries)
    return X.astype(np.float64), y, Q.astype(np.float64), truth


# What it settles


@pytest.mark.parametrize(
    ("data", "columns"), [(load_wine, "scaled"), (load_digits, "power"), (proportions, "unit")]
)
def test_columns_follow_the_rows(data, columns):
    X, y = data(return_X_y=True)
    model = FewShotClassifier().fit(X[::3], y[::3])
    assert model.choice_.columns == columns
    assert sum(model.choice_.weights.values()) <= 1 + 1e-12
    assert model.score(X[1::3], y[1::3]) > 0.9


def test_embeddings_without_negative_values_are_tempered():
    X, y, _, _ = sentences(3)
    shifted = X - X.min()
    assert FewShotClassifier().fit(X, y).choice_.columns == "unit"
    model = FewShotClassifier().fit(shifted, y)
    assert model.choice_.columns == "power"
    assert "384 columns without negative values" in model.explain()
    shifted[0, 0] = -1.0
    assert FewShotClassifier().fit(shifted, y).choice_.columns == "unit"


def test_the_firth_head_counts_less_where_shots_differ():
    """The harmonic mean of 1, 1 and 4 is two thirds of their mean; no row speaks against it."""
    X, y, _, _ = sentences([1, 1, 4], n_classes=3)
    model = FewShotClassifier(heads=("firth", "means")).fit(X, y)
    margins = {name: head.margin for name, head in model._heads[0].items()}
    says = {name: min(one, blend.SHARPEST) for name, one in margins.items()}
    expected = (2 / 3) * blend.SHARES["firth"] * says["firth"] / blend.SHARES["means"]
    shares = model.choice_.shares
    assert shares["firth"] / shares["means"] == pytest.approx(expected / says["means"])


def test_noise_is_not_believed():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 8)), np.arange(60) % 2
    model = FewShotClassifier().fit(X, y)
    assert model.predict_proba(random.normal(size=(200, 8))).max(axis=1).mean() < 0.7


def test_rules_settle_one_row_a_class_and_left_out_rows_settle_more():
    X, y, Q, truth = sentences(1)
    one = FewShotClassifier().fit(X, y)
    assert one.choice_.left_out == 0
    assert one.score(Q, truth) > 0.8
    X, y, Q, truth = sentences(8)
    eight = FewShotClassifier().fit(X, y)
    assert eight.choice_.left_out == 40
    assert eight.choice_.sharpness != one.choice_.sharpness
    assert eight.score(Q, truth) > 0.9


def test_classes_count_alike_however_many_rows_they_have():
    X, y, Q, truth = sentences([1, 2, 5, 11, 25])
    ours = FewShotClassifier().fit(X, y).score(Q, truth)
    assert ours > LogisticRegression().fit(X, y).score(Q, truth) + 0.2


def test_class_prior_corrects_the_probabilities():
    X, y, Q, _ = sentences([1, 2, 5, 11, 25])
    alike = FewShotClassifier().fit(X, y)
    names = alike.classes_.tolist()
    shots = np.array([(y == name).sum() for name in names])
    training = FewShotClassifier(class_prior="training").fit(X, y)
    given = FewShotClassifier(class_prior=dict(zip(names, shots.tolist(), strict=True))).fit(X, y)
    np.testing.assert_allclose(training.class_prior_, shots / shots.sum())
    np.testing.assert_array_equal(training.predict_proba(Q), given.predict_proba(Q))
    rich = int(shots.argmax())
    assert (training.predict_proba(Q)[:, rich] > alike.predict_proba(Q)[:, rich]).all()


def test_fixed_shares_stay_and_fewer_heads_may_be_asked_for():
    X, y, Q, _ = sentences(5)
    fixed = FewShotClassifier(heads={"firth": 3, "means": 1}).fit(X, y)
    assert fixed.choice_.shares == pytest.approx({"firth": 0.75, "means": 0.25})
    alone = FewShotClassifier(heads=["gaussian"]).fit(X, y)
    assert alone.choice_.shares == {"gaussian": 1.0}
    assert not np.allclose(fixed.predict_proba(Q), alone.predict_proba(Q), atol=1e-3)


@pytest.mark.parametrize("factor", [1e-8, 1e8])
@pytest.mark.parametrize("columns", ["unit", "scaled", "plain"])
def test_the_unit_of_the_features_does_not_matter(columns, factor):
    X, y, Q, _ = sentences(3)
    here = FewShotClassifier(columns=columns).fit(X, y).predict_proba(Q)
    there = FewShotClassifier(columns=columns).fit(factor * X, y).predict_proba(factor * Q)
    np.testing.assert_allclose(there, here, rtol=1e-6, atol=1e-9)


def test_a_weight_of_two_is_the_row_given_twice():
    X, y, Q, _ = sentences(4)
    weights = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(len(y)), weights.astype(int))
    weighted = FewShotClassifier().fit(X, y, weights).predict_proba(Q)
    np.testing.assert_allclose(
        weighted, FewShotClassifier().fit(X[twice], y[twice]).predict_proba(Q), rtol=1e-6
    )


# What it says


def test_five_lines_explain_the_fit():
    X, y, *_ = sentences([2, 4, 8, 16, 2])
    lines = FewShotClassifier().fit(X, y).explain().splitlines()
    assert len(lines) == 5
    assert lines[0] == "32 rows of 5 classes, 2 to 16 each."
    assert "384 columns look like an embedding" in lines[1]
    assert lines[2].startswith("The blend is ")
    assert "32 left-out rows" in lines[2]
    assert "set class_prior" in lines[3]
    assert lines[4].startswith("Firth (λ = ")


def test_one_row_a_class_says_that_rules_decided():
    X, y, *_ = sentences(1)
    text = FewShotClassifier(columns="plain").fit(X, y).explain()
    assert "as you asked" in text
    assert "set by rules alone" in text
    assert "no row can be left out" in text


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_that_are_zero_have_probabilities(dtype):
    """Networks that end in a ReLU give many exact zeros, in float32."""
    rows = np.maximum(np.random.default_rng(0).normal(size=(60, 80)), 0).astype(dtype)
    model = FewShotClassifier().fit(rows[:30], np.arange(30) % 3)
    assert model.choice_.columns == "power"
    exact = model.predict_proba(rows.astype(np.float64))
    np.testing.assert_allclose(model.predict_proba(rows), exact, atol=1e-6)
    assert np.isfinite(exact).all()


def test_what_firth_adds_compares_with_no_penalty():
    X, y = draw(40, 6, 3, spread=0.8)
    nothing = FewShotClassifier(lam=0.0).fit(X, y).firth_effect()
    assert nothing.accuracy == nothing.accuracy_without
    assert nothing.log_loss == nothing.log_loss_without
    assert "adds nothing here" in str(nothing)
    much = FewShotClassifier(lam=100.0, l2=1e-3).fit(X, y).firth_effect()
    assert much.rows == 40
    assert much.log_loss != much.log_loss_without


def test_what_chance_may_do_is_no_help():
    """One row of 19 is 5 points; a gain is told only where its interval leaves out zero."""
    effect = FirthEffect(
        lam=0.1, rows=19, accuracy=0.43, accuracy_without=0.37, accuracy_ci=0.1,
        log_loss=1.191, log_loss_without=1.190, log_loss_ci=0.02,
    )  # fmt: skip
    assert "cannot be told from nothing with 19 left-out rows" in str(effect)
    sure = replace(effect, accuracy_ci=0.05)
    assert "helps here" in str(sure)
    assert "costs here" in str(replace(sure, accuracy=0.31))
    assert "costs in the other" in str(replace(sure, log_loss_ci=0.0005))


def test_the_interval_of_what_firth_adds_is_that_of_paired_rows():
    X, y = np.random.default_rng(0).normal(size=(42, 6)), np.arange(42) % 3
    model = FewShotClassifier(lam=3.0).fit(X, y)
    effect = model.firth_effect()
    gains = model._firth_alone(0.0).losses - model._firth_alone(3.0).losses
    assert np.isclose(gains.mean(), effect.log_loss_without - effect.log_loss)
    assert np.isclose(effect.log_loss_ci, 1.96 * gains.std() / np.sqrt(len(gains)))


def test_left_out_rows_estimate_new_ones():
    X, y, Q, truth = sentences(10)
    model = FewShotClassifier().fit(X, y)
    assert abs(model.left_out_.accuracy - model.score(Q, truth)) < 0.1


# Odd inputs: each does something sensible


def test_rows_that_are_all_equal_give_the_prior_and_say_so():
    X, y = np.ones((6, 3)), np.array(list("aabbcc"))
    with pytest.warns(UserWarning, match="Nothing in the rows tells the classes apart"):
        model = FewShotClassifier(class_prior=[0.5, 0.3, 0.2]).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(np.eye(3)), [[0.5, 0.3, 0.2]] * 3)
    assert len(model.explain().splitlines()) == 5


def test_a_label_that_occurs_once_is_learned_and_stays_with_the_rules():
    X, y, Q, truth = sentences([6, 6, 6, 6, 1])
    model = FewShotClassifier().fit(X, y)
    assert model.choice_.left_out == 24
    rare = truth == y[-1]
    assert (model.predict(Q[rare]) == y[-1]).mean() > 0.5
    assert "1 to 6 each" in model.explain()


def test_one_row_each_of_two_classes():
    model = FewShotClassifier().fit(np.array([[0.0, 0.0], [1.0, 1.0]]), ["no", "yes"])
    assert model.predict([[0.1, 0.0], [0.9, 1.2]]).tolist() == ["no", "yes"]
    assert model.decision_function([[0.1, 0.0]]).shape == (1,)


def test_a_hundred_rows_against_one():
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(size=(100, 5)), [[4.0, 4.0, 0.0, 0.0, 0.0]]])
    y = np.array([0] * 100 + [1])
    new = random.normal(size=(200, 5))
    model = FewShotClassifier().fit(X, y)
    assert (model.predict(new) == 0).mean() > 0.9
    assert (model.predict(new + X[-1]) == 1).mean() > 0.9


def test_a_thousand_classes_of_one_row():
    random = np.random.default_rng(0)
    X = random.normal(size=(1000, 96))
    model = FewShotClassifier().fit(X, np.arange(1000))
    new = X + 0.3 * random.normal(size=X.shape)
    assert model.score(new, np.arange(1000)) > 0.95


def test_twenty_thousand_sparse_columns_are_those_of_an_array():
    X = sp.random(40, 20_000, 0.005, format="csr", random_state=0)
    y = np.arange(40) % 4
    new = sp.random(10, 20_000, 0.005, format="csr", random_state=1)
    sparse = FewShotClassifier().fit(X, y)
    dense = FewShotClassifier(columns="power").fit(X.toarray(), y)
    assert sparse.choice_.columns == "power"
    np.testing.assert_allclose(
        sparse.predict_proba(new), dense.predict_proba(new.toarray()), rtol=1e-4
    )


def test_many_new_rows_are_taken_in_parts(monkeypatch):
    X, y, Q, _ = sentences(3)
    whole = FewShotClassifier().fit(X, y).predict_proba(Q)
    monkeypatch.setattr(classifier, "AT_ONCE", 7 * len(X))
    np.testing.assert_allclose(FewShotClassifier().fit(X, y).predict_proba(Q), whole, rtol=1e-9)


def test_thousands_of_rows_leave_some_hundreds_out_once():
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 3000)
    X = random.normal(size=(3000, 4)) + y[:, None]
    model = FewShotClassifier().fit(X, y)
    assert 60 <= model.choice_.left_out <= 250
    assert model.score(X, y) > 0.8  # the best there is has 0.84


def test_a_column_that_does_not_vary_changes_nothing():
    X, y = load_wine(return_X_y=True)
    wider = np.column_stack([X, np.full(len(X), 7.0)])
    here = FewShotClassifier().fit(X[::5], y[::5]).predict_proba(X)
    there = FewShotClassifier().fit(wider[::5], y[::5]).predict_proba(wider)
    np.testing.assert_allclose(there, here, atol=0.02)  # one dimension more for the sphere


def test_float32_gives_nearly_the_same():
    X, y, Q, _ = sentences(3)
    single = FewShotClassifier().fit(X.astype("f4"), y).predict_proba(Q.astype("f4"))
    np.testing.assert_allclose(single, FewShotClassifier().fit(X, y).predict_proba(Q), atol=1e-3)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"columns": "both"}, "columns is 'both'"),
        ({"heads": "svm"}, "heads is 'svm'"),
        ({"heads": ["firth", "svm"]}, "heads is"),
        ({"heads": {"firth": -1.0}}, "heads is"),
        ({"heads": []}, "heads is"),
        ({"lam": -1.0}, "lam is -1.0"),
        ({"lam": "loo"}, "lam is 'loo'"),
        ({"l2": "big"}, "l2 is 'big'"),
        ({"class_prior": "test"}, "class_prior is 'test'"),
        ({"class_prior": [1.0]}, "class_prior is"),
        ({"class_prior": {0: 0.5}}, "no probability of class 1"),
    ],
)
def test_parameters_that_mean_nothing_are_refused_by_name(given, word):
    X, y = draw(12, 4, 3)
    with pytest.raises(FirthshotError, match=word):
        FewShotClassifier(**given).fit(X, y)


def test_features_too_large_to_square_are_refused():
    X, y = draw(12, 4, 3)
    with pytest.raises(FirthshotError, match="scale the features"):
        FewShotClassifier().fit(1e200 * X, y)


# Where scikit-learn puts it


def test_in_a_pipeline_a_grid_and_cross_validation():
    X, y = load_wine(return_X_y=True)
    X, y = X[::4], y[::4]
    assert make_pipeline(MinMaxScaler(), FewShotClassifier()).fit(X, y).score(X, y) > 0.95
    search = GridSearchCV(FewShotClassifier(), {"columns": ["auto", "plain"]}, cv=3).fit(X, y)
    assert search.best_params_ == {"columns": "auto"}
    assert search.best_estimator_.choice_.columns == "scaled"
    assert cross_val_score(FewShotClassifier(), X, y, cv=3).mean() > 0.9


# Keeping it


@pytest.mark.parametrize("heads", ["auto", ("means",), {"firth": 1.0, "gaussian": 1.0}])
def test_a_saved_model_predicts_and_explains_the_same(tmp_path, heads):
    X, y, Q, _ = sentences([1, 2, 5, 11, 25])
    model = FewShotClassifier(heads=heads, class_prior="training").fit(X, y)
    model.save(tmp_path / "it.firth")
    again = load_model(tmp_path / "it.firth")
    np.testing.assert_array_equal(again.predict_proba(Q), model.predict_proba(Q))
    assert again.choice_ == model.choice_
    assert again.explain() == model.explain()


def test_a_saved_sparse_model_predicts_the_same(tmp_path):
    X = sp.random(30, 500, 0.05, format="csr", random_state=0)
    model = FewShotClassifier().fit(X, np.arange(30) % 3)
    model.save(tmp_path / "it.firth")
    again = load_model(tmp_path / "it.firth")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("labels", lambda values: values + 1),
        ("labels", lambda values: values + 0.5),
        ("weights", lambda values: -values),
        ("weights", lambda values: values[:-1]),
        ("rows", lambda values: values[:, :-1]),
        ("rows", lambda values: values * np.nan),
        ("rows", None),
    ],
)
def test_an_impossible_state_is_refused(tmp_path, name, change):
    X, y, *_ = sentences(2)
    path = tmp_path / "it.firth"
    FewShotClassifier().fit(X, y).save(path)
    with safe_open(path, framework="numpy") as file:
        meta = json.loads(file.metadata()["firthshot-model"])
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    del meta["sha256"]
    if change is None:
        del tensors[f"parameters/{name}"]
    else:
        tensors[f"parameters/{name}"] = np.ascontiguousarray(change(tensors[f"parameters/{name}"]))
    save_file(tensors, path, metadata={"firthshot-model": json.dumps(meta)})
    with pytest.raises(FirthshotError, match="cannot be loaded as a model"):
        load_model(path)
