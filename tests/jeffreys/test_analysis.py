"""Comparison, criteria, predictions, marginal effects and robust covariances, by plain formulas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from golden_data import load
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax
from scipy.stats import chi2, norm

from firthshot import regress
from firthshot.errors import FirthshotError
from firthshot.jeffreys import JeffreysLogisticRegression, compare
from firthshot.jeffreys._prediction import _on_the_logit_scale, _Points

pytest.importorskip("formulaic")
RNG = np.random.default_rng(5)
TABLE = pd.DataFrame(
    {
        "event": RNG.integers(0, 2, 80),
        "three": RNG.choice(["x", "y", "z"], 80),
        "age": RNG.normal(50, 10, 80),
        "arm": RNG.choice(["a", "b", "c"], 80),
        "n": RNG.integers(1, 4, 80),
        "site": RNG.integers(0, 12, 80),
    }
)


@pytest.fixture(scope="module")
def fit():
    return regress("event ~ age + I(age**2) + arm", TABLE.assign(age=TABLE["age"] / 10))


def test_criteria_are_those_of_the_likelihood_without_penalty():
    model = JeffreysLogisticRegression().fit(TABLE[["age"]], TABLE["three"], TABLE["n"])
    p = model.predict_proba(TABLE[["age"]])
    observed = p[np.arange(80), np.searchsorted(model.classes_, TABLE["three"])]
    deviance = -2 * (TABLE["n"] * np.log(observed)).sum()
    assert model.deviance_ == pytest.approx(deviance)
    assert model.aic_ == pytest.approx(deviance + 2 * 4)
    assert model.bic_ == pytest.approx(deviance + 4 * np.log(TABLE["n"].sum()))


def test_comparison_in_both_ways_of_penalising():
    larger, smaller = regress("event ~ age + arm", TABLE), regress("event ~ age", TABLE)
    for penalty in ("null-calibrated", "full-information"):
        found = compare(smaller, larger, penalty=penalty)
        known = larger.test_terms(penalty=penalty)["arm"]
        assert found.chi2 == pytest.approx(known.chi2, abs=1e-5)
        assert (found.df, found.penalty) == (2, penalty)
        assert found.p_value == pytest.approx(chi2.sf(found.chi2, 2))
        assert compare(larger.model, smaller.model, penalty=penalty) == found
    assert compare(smaller, larger) == found  # as logistf's anova
    assert "information of the larger one" in " ".join(str(found).split())
    assert f"{smaller.model.aic_:.4f}" in str(found)


def test_models_are_nested_by_their_span_not_by_names():
    table = TABLE.assign(twice=2 * TABLE["age"] + 3, pair=np.where(TABLE["arm"] == "a", 0, 1))
    larger = regress("event ~ age + arm", table)
    found = compare(regress("event ~ twice + pair", table), larger, penalty="full-information")
    forms = np.array([[0.0, 0.0, 1.0, -1.0]])  # pair: arms b and c are one
    assert found.chi2 == pytest.approx(larger.model.test(forms).chi2, abs=1e-5)
    assert found.df == 1


@pytest.mark.parametrize(
    ("other", "options", "words"),
    [
        ("event ~ n", {}, "Both models have rank 2"),
        ("event ~ n + site", {}, "Neither model is nested"),
        ("event ~ age + n", {"weights": "n"}, r"different rows \(weights\)"),
        ("event ~ age + n", {"tau": 0.3}, "differ in tau"),
        ("three ~ age + n", {}, "differ in reference"),
        ("event ~ age + n", {"correction": "flac"}, "'flac' changes the likelihood"),
    ],
)
def test_what_cannot_be_compared(other, options, words):
    with pytest.raises(FirthshotError, match=words):
        compare(regress("event ~ age", TABLE), regress(other, TABLE, **options))


def test_predictions_have_the_textbook_interval(fit):
    new = {"age": [3.0, 5.5], "arm": ["a", "c"]}
    x = np.array([[1, 3.0, 9.0, 0, 0], [1, 5.5, 30.25, 0, 1]])
    eta, V = x @ fit.model.params_, fit.model.cov_params()
    error = np.sqrt(np.diag(x @ V @ x.T))
    line = fit.predict(new, kind="linear", interval="wald", level=0.9)
    z = norm.ppf(0.95)
    np.testing.assert_allclose(line["estimate"], eta)
    np.testing.assert_allclose(line["std_error"], error)
    np.testing.assert_allclose(line[["lower", "upper"]], np.c_[eta - z * error, eta + z * error])
    chance = fit.predict(new, interval="wald", level=0.9)
    np.testing.assert_allclose(chance["upper"], expit(eta + z * error))
    np.testing.assert_allclose(chance["std_error"], error * expit(eta) * expit(-eta))
    assert chance["class"].tolist() == ["1", "1"]
    assert list(fit.predict(new).columns) == ["row", "class", "estimate"]
    assert set(chance["interval"]) == {"wald"}
    robust = fit.with_covariance("HC0").predict(new, kind="linear", interval="wald")
    expected = np.sqrt(np.diag(x @ fit.model.robust_cov("HC0") @ x.T))
    np.testing.assert_allclose(robust["std_error"], expected)
    with pytest.raises(FirthshotError, match="interval is 'exact'; choose one of 'profile'"):
        fit.predict(new, interval="exact")


def brute_profile(X, y, x, value):
    """Maximise the penalised log-likelihood where x·β has a value, by a general optimiser."""
    null = np.linalg.svd(x[None])[2][1:].T  # directions that leave x·β alone

    def loss(free):
        eta = X @ (x * value / (x @ x) + null @ free)
        p = expit(eta)
        information = X.T @ (X * (p * (1 - p))[:, None])
        likelihood = (y * eta - np.logaddexp(0.0, eta)).sum()
        return -likelihood - 0.5 * np.linalg.slogdet(information)[1]

    return -minimize(loss, np.zeros(len(x) - 1), method="BFGS", options={"gtol": 1e-7}).fun


def test_profile_intervals_of_predictions_lie_on_their_level():
    golden = load("binary_endometrial")
    table = pd.DataFrame(golden.X, columns=golden.columns).assign(HG=golden.y)
    fit = regress("HG ~ NV + EH", table)
    found = fit.predict({"NV": [1, 0], "EH": [1.2, 2.5]}, kind="linear", interval="profile")
    chance = fit.predict({"NV": [1, 0], "EH": [1.2, 2.5]}, interval="profile", level=0.9)
    X = np.column_stack([np.ones(79), table[["NV", "EH"]]])
    rows = np.array([[1, 1, 1.2], [1, 0, 2.5]])
    for x, line, odds in zip(rows, found.itertuples(), chance.itertuples(), strict=True):
        bounds = [(line.lower, 0.95), (line.upper, 0.95)]
        bounds += [(logit(odds.lower), 0.9), (logit(odds.upper), 0.9)]
        for bound, level in bounds:
            drop = fit.model.penalised_loglik_ - brute_profile(X, golden.y, x, bound)
            assert 2 * drop == pytest.approx(chi2.ppf(level, 1), abs=1e-5)
    assert set(found["interval"]) == set(chance["interval"]) == {"profile"}


@pytest.mark.parametrize("interval", ["profile", "wald"])
def test_intervals_of_probabilities_near_one_are_those_of_the_linear_predictor(interval):
    fit = regress("y ~ x", {"x": range(8), "y": ["no"] * 4 + ["yes"] * 4})
    new = {"x": [3.0, 40.0, 100.0, -1e6]}
    chance, line = (fit.predict(new, interval=interval, kind=k) for k in ("probability", "linear"))
    assert chance["std_error"].notna().all()
    for bound in ("estimate", "lower", "upper"):
        np.testing.assert_allclose(chance[bound], expit(line[bound]), rtol=1e-12)


def test_logits_of_more_classes_and_their_slopes_come_from_the_linear_predictors():
    eta = np.random.default_rng(0).normal(size=(5, 2))

    def logits(eta):
        P = softmax(np.column_stack([np.zeros(5), eta]), axis=1)
        return np.log(P) - np.log1p(-P)

    found, slopes = _on_the_logit_scale(_Points(np.ones((5, 1)), eta, None), "probability")
    np.testing.assert_allclose(found, logits(eta), rtol=1e-12)
    for j in range(2):
        step = 1e-6 * np.eye(2)[j]
        numeric = (logits(eta + step) - logits(eta - step)) / 2e-6
        np.testing.assert_allclose(slopes[:, :, j], numeric, rtol=1e-7)


@pytest.mark.parametrize("outcome", ["event", "three"])
def test_a_prediction_that_is_one_coefficient_has_its_profile_interval(outcome):
    fit = regress(f"{outcome} ~ age + n - 1", TABLE.assign(age=TABLE["age"] / 50))
    new = {"age": [0.0, 1.0, 0.0, 1.0], "n": [1, 0, 0, 0]}
    found = fit.predict(new, kind="linear", interval="profile")[["lower", "upper"]].to_numpy()
    J = len(fit.model.contrasts_)
    bounds = fit.model.conf_int().reshape(J, 2, 2)
    by_row = found.reshape(4, J, 2)
    np.testing.assert_allclose(by_row[[1, 0]], bounds.transpose(1, 0, 2), rtol=1e-6)
    assert not by_row[2].any()
    np.testing.assert_array_equal(by_row[3], by_row[1])


def test_predictions_of_flac_have_the_profile_intervals_of_its_fit():
    fit = regress("event ~ age", TABLE.assign(age=TABLE["age"] / 50), correction="flac")
    found = fit.predict({"age": [0.0]}, kind="linear", interval="profile")
    bounds = fit.model.conf_int()[0]
    np.testing.assert_allclose(found[["lower", "upper"]].to_numpy()[0], bounds, rtol=1e-6)


def test_offsets_shift_profile_intervals_of_predictions():
    fit = regress("event ~ age", TABLE.assign(log_n=np.log(TABLE["n"])), offset="log_n")
    plain, moved = (
        fit.predict({"age": [40]}, kind="linear", interval="profile", offset=[shift])
        for shift in (0.0, 1.5)
    )
    numbers = ["estimate", "lower", "upper"]
    np.testing.assert_allclose(moved[numbers], plain[numbers] + 1.5)


def test_what_has_no_profile_interval(fit):
    three = regress("three ~ age", TABLE)
    with pytest.raises(FirthshotError, match=r"three or more classes has no profile interval"):
        three.predict({"age": [50]}, interval="profile")
    with pytest.raises(FirthshotError, match="do not use the covariance HC1"):
        fit.with_covariance().predict({"age": [5], "arm": ["a"]}, interval="profile")
    with pytest.raises(FirthshotError, match="FLIC's intercepts"):
        regress("event ~ age", TABLE, correction="flic").predict({"age": [5]}, interval="profile")


@pytest.mark.filterwarnings("ignore:Collinear")
def test_predictions_that_collinear_columns_do_not_determine_have_no_bound():
    fit = regress("event ~ age + twice", TABLE.assign(twice=2 * TABLE["age"]))
    new = {"age": [50.0, 50.0], "twice": [100.0, 0.0]}
    found = fit.predict(new, kind="linear", interval="profile")
    same = regress("event ~ age", TABLE).predict(new, kind="linear", interval="profile")
    assert found["upper"][0] == pytest.approx(same["upper"][0], rel=1e-6)
    assert np.isnan(found["upper"][1])


def numeric_gradient(model, function):
    """Differentiate by the coefficients, which are put into the model one after another."""
    beta, p = model.params_.copy(), model.coef_.shape[1] + 1
    found = []
    for k in range(beta.size):
        ends = []
        for sign in (1.0, -1.0):
            moved = beta.copy()
            moved[k] += sign * 1e-5
            moved = moved.reshape(-1, p)
            model.intercept_, model.coef_ = moved[:, 0], moved[:, 1:]
            ends.append(function())
        found.append((ends[0] - ends[1]) / 2e-5)
    model.intercept_, model.coef_ = beta.reshape(-1, p)[:, 0], beta.reshape(-1, p)[:, 1:]
    return np.array(found)


def test_probabilities_of_three_classes_by_finite_differences():
    table = TABLE.assign(age=TABLE["age"] / 10)
    fit = regress("three ~ age + n", table, reference="y")
    new = table.head(3)
    found = fit.predict(new, interval="wald")
    assert found["class"].tolist()[:3] == ["y", "x", "z"]
    order = [1, 0, 2]
    np.testing.assert_allclose(found["estimate"], fit.predict_proba(new)[:, order].ravel())
    gradient = numeric_gradient(fit.model, lambda: logit(fit.predict_proba(new)[:, order]).ravel())
    error = np.sqrt(np.diag(gradient.T @ fit.model.cov_params() @ gradient))
    upper = expit(logit(found["estimate"]) + norm.ppf(0.975) * error)
    np.testing.assert_allclose(found["upper"], upper, rtol=1e-6)


def test_marginal_effects_by_finite_differences():
    table = TABLE.assign(age=TABLE["age"] / 10)
    fit = regress("three ~ age + I(age**2) + arm", table, weights="n")
    w = table["n"] / table["n"].sum()

    def of_age():
        ends = [fit.predict_proba(table.assign(age=table["age"] + h)) for h in (1e-5, -1e-5)]
        return w @ (ends[0] - ends[1]) / 2e-5

    def of_arm():
        ends = [fit.predict_proba(table.assign(arm=arm)) for arm in "ca"]
        return w @ (ends[0] - ends[1])

    found = fit.marginal_effects(table)
    assert found["change"].unique().tolist() == ["per unit", "b against a", "c against a"]
    for function, lines in ((of_age, slice(0, 3)), (of_arm, slice(6, 9))):
        part = found.iloc[lines]
        np.testing.assert_allclose(part["effect"], function(), atol=2e-4)
        gradient = numeric_gradient(fit.model, function)
        error = np.sqrt(np.diag(gradient.T @ fit.model.cov_params() @ gradient))
        np.testing.assert_allclose(part["std_error"], error, rtol=5e-3)
        np.testing.assert_allclose(part["upper"] - part["effect"], 1.959964 * part["std_error"],
                                   rtol=1e-6)  # fmt: skip
    assert fit.marginal_effects(table, ["arm"])["variable"].unique().tolist() == ["arm"]
    with pytest.raises(FirthshotError, match="No term has the variable 'site'"):
        fit.marginal_effects(table, ["site"])


def test_marginal_effects_stay_in_the_range_of_a_spline():
    fit = regress("event ~ bs(age, df=4) + C(n)", TABLE)
    found = fit.marginal_effects(TABLE)
    assert np.isfinite(found["std_error"]).all()
    assert found["change"].tolist() == ["per unit", "2 against 1", "3 against 1"]


def test_marginal_effects_of_a_column_of_0_and_1_and_from_the_reference_level():
    table = TABLE.assign(old=(TABLE["age"] > 50).astype(int), age=TABLE["age"] / 10)
    fit = regress("event ~ old * age + C(arm, Treatment('b'))", table)
    ends = [fit.predict_proba(table.assign(old=old))[:, 1].mean() for old in (1, 0)]
    found = fit.marginal_effects(table, "old")
    assert found["change"].tolist() == ["1 against 0"]
    assert found["effect"].tolist() == pytest.approx([ends[0] - ends[1]])
    arms = fit.marginal_effects(table[table["arm"] == "c"], "arm")
    assert arms["change"].tolist() == ["a against b", "c against b"]
    here = fit.marginal_effects({"old": [1], "age": [5.0], "arm": ["a"]}, ["age"])
    assert np.isfinite(here["std_error"]).all()


def test_marginal_effects_are_those_of_the_rows_of_the_fit():
    holes = TABLE.assign(age=TABLE["age"].where(TABLE["site"] > 3))
    fit = regress("event ~ age + arm", holes, weights="n", missing="drop")
    pd.testing.assert_frame_equal(fit.marginal_effects(), fit.marginal_effects(holes.dropna()))
    trials = {"ill": [1, 2, 5], "n": [9, 4, 6], "dose": [0.0, 1.0, 2.0]}
    fit = regress("cbind(ill, n - ill) ~ dose", trials)
    often = {"dose": np.repeat(trials["dose"], trials["n"])}
    pd.testing.assert_frame_equal(fit.marginal_effects(), fit.marginal_effects(often))


def test_robust_standard_errors_in_every_table(fit):
    robust, matrix = fit.with_covariance("HC3"), fit.model.robust_cov("HC3")
    error = np.sqrt(np.diag(matrix))
    table = robust.summary().to_frame()
    np.testing.assert_allclose(table["std_error"], error)
    np.testing.assert_allclose(table["upper"], fit.model.params_ + norm.ppf(0.975) * error)
    np.testing.assert_allclose(table["chi2"], (fit.model.params_ / error) ** 2)
    b, V = fit.model.params_[3:], matrix[3:, 3:]
    known = b @ np.linalg.solve(V, b)
    assert robust.test_terms()["arm"].chi2 == pytest.approx(known)
    for text in (str(robust.summary()), str(robust.summary(odds_ratios=True))):
        assert "Standard errors: HC3. Intervals: Wald" in " ".join(text.split())
        assert "Wald test of all 4 slopes" in text
    same = fit.with_covariance(matrix)
    effects = [one.marginal_effects()["std_error"] for one in (robust, same, fit)]
    assert effects[0].tolist() == effects[1].tolist() != effects[2].tolist()
    np.testing.assert_array_equal(robust.model.bse("augmented"), fit.model.bse("augmented"))
    assert fit.model.standard_errors == "inverse-information"
    for method in (robust.summary, robust.plot):
        with pytest.raises(FirthshotError, match="HC3 have Wald intervals: use method='wald'"):
            method(method="profile")


def test_clusters_by_the_name_of_a_column():
    holes = TABLE.assign(age=TABLE["age"].where(TABLE["site"] > 3))
    fit = regress("event ~ age", holes, missing="drop").with_covariance(clusters="site")
    kept = TABLE[TABLE["site"] > 3]
    known = JeffreysLogisticRegression().fit(kept[["age"]], kept["event"])
    expected = known.robust_cov("HC1", kept["site"])
    np.testing.assert_allclose(fit.model.cov_params(), expected, rtol=1e-6)
    assert "Standard errors: HC1, 8 clusters." in str(fit.summary())
    given = regress("event ~ age", holes, missing="drop").with_covariance(clusters=TABLE["site"])
    np.testing.assert_array_equal(given.model.cov_params(), fit.model.cov_params())
    trials = {"ill": [1, 2, 5], "n": [9, 4, 6], "dose": [0.0, 1.0, 2.0], "ward": [1, 2, 2]}
    counts = regress("cbind(ill, n - ill) ~ dose", trials).with_covariance(clusters="ward")
    wards = [1, 2, 2, 1, 2, 2]
    np.testing.assert_array_equal(counts.model.cov_params(), counts.model.robust_cov("HC1", wards))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("HC3", "ward"), "no column 'ward' of clusters"),
        ((np.eye(3),), "give a symmetric one of 5 x 5 with positive variances"),
        ((-np.eye(5),), "no covariance of 5 coefficients"),
        (([["a"]],), "no covariance of 5 coefficients"),
        ((np.eye(5), "site"), "A matrix has its clusters in it"),
    ],
)
def test_covariances_that_are_refused(fit, arguments, words):
    with pytest.raises(FirthshotError, match=words):
        fit.with_covariance(*arguments)


def sandwich(model, X, y, kind):
    """Compute HC0 to HC3 as a textbook does, without penalty in the scores."""
    X = np.column_stack([np.ones(len(X)), X])
    p = expit(X @ model.params_)
    F = np.linalg.inv(X.T @ (X * (p * (1 - p))[:, None]))
    h = np.einsum("ip,pq,iq->i", X, F, X) * p * (1 - p)
    size = {"HC0": 1, "HC1": len(X) / (len(X) - X.shape[1]), "HC2": 1 / (1 - h),
            "HC3": 1 / (1 - h) ** 2}[kind]  # fmt: skip
    return F @ (X.T @ (X * (size * (y - p) ** 2)[:, None])) @ F


@pytest.mark.parametrize("kind", ["HC0", "HC1", "HC2", "HC3"])
def test_robust_covariances(kind):
    golden = load("binary_endometrial")
    model = JeffreysLogisticRegression().fit(golden.X, golden.y)
    expected = sandwich(model, golden.X, golden.y, kind)
    np.testing.assert_allclose(model.robust_cov(kind), expected, rtol=1e-6, atol=1e-12)
    X, w = TABLE[["age"]], TABLE["n"]
    weighted = JeffreysLogisticRegression().fit(X, TABLE["event"], w)
    often = np.repeat(np.arange(80), w)
    written = JeffreysLogisticRegression().fit(X.iloc[often], TABLE["event"].iloc[often])
    np.testing.assert_allclose(weighted.robust_cov(kind), written.robust_cov(kind), rtol=1e-6)


@pytest.mark.parametrize("outcome", ["event", "three"])
def test_clusters(outcome):
    X, y, site = TABLE[["age", "n"]] / 10, TABLE[outcome], TABLE["site"].to_numpy()
    model = JeffreysLogisticRegression().fit(X, y)
    design = np.column_stack([np.ones(80), X])
    residual = (y.to_numpy()[:, None] == model.classes_) - model.predict_proba(X)
    scores = np.concatenate([design * r[:, None] for r in residual.T[1:]], axis=1)
    sums = np.array([scores[site == s].sum(axis=0) for s in np.unique(site)])
    G, V = len(sums), model.cov_params()
    expected = V @ (sums.T @ sums) @ V * G / (G - 1)
    np.testing.assert_allclose(model.robust_cov("HC0", site), expected, rtol=1e-5, atol=1e-10)
    factor = 79 / (80 - len(V))
    np.testing.assert_allclose(model.robust_cov("HC1", site), expected * factor, rtol=1e-5,
                               atol=1e-10)  # fmt: skip


def test_what_has_no_robust_covariance():
    model = JeffreysLogisticRegression().fit(TABLE[["age"]], TABLE["event"])
    for arguments, words in [
        (("HC4",), "kind is 'HC4'"),
        (("HC3", TABLE["site"]), "HC3 needs two classes and no clusters"),
        (("HC0", [1, 2]), "one for each of 80 rows"),
        (("HC0", np.ones(80)), "in one cluster"),
    ]:
        with pytest.raises(FirthshotError, match=words):
            model.robust_cov(*arguments)


def test_reference_levels_are_printed():
    text = str(regress("event ~ arm + C(n, Treatment(2))", TABLE).summary(method="wald"))
    assert "Reference levels: arm = a, n = 2." in text
    assert "Reference" not in str(regress("event ~ age", TABLE).summary(method="wald"))


def test_a_cell_of_text_does_not_make_a_measurement_a_factor():
    ages = [*(str(20 + k) for k in range(30)), "unknown"]
    table = {"event": [0, 1] * 15 + [0], "age": ages}
    with pytest.raises(FirthshotError, match=r"all but 1 of 31 rows, and 'unknown' in row 31"):
        regress("event ~ age", table)
    grades = {"event": [0, 1] * 15 + [0], "age": ["1", "2", "3+"] * 10 + ["1"]}
    assert len(regress("event ~ age", grades).design.columns) == 2


def test_a_missing_cluster_is_refused(fit):
    clusters = np.resize([1.0, 2.0, np.nan], len(fit.data.y))
    with pytest.raises(FirthshotError, match="clusters are missing"):
        fit.model.robust_cov("HC0", clusters=clusters)


def test_a_fit_is_named_without_its_rows(fit):
    assert repr(fit).startswith("Regression('event ~ ")
    assert len(repr(fit)) < 120
