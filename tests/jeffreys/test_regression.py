"""Regression by formula, against designs that the tests build by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from reference import penalised_loglik
from scipy.optimize import minimize
from scipy.stats import chi2

from firthshot import regress
from firthshot.errors import FirthshotError
from firthshot.jeffreys import JeffreysLogisticRegression

pytest.importorskip("formulaic")
pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def patients():
    rng = np.random.default_rng(3)
    n = 60
    return pd.DataFrame(
        {
            "event": rng.integers(0, 2, n),
            "age": rng.normal(50, 10, n),
            "arm": rng.choice(["a", "b", "c"], n),
            "time": rng.uniform(0.5, 3.0, n),
            "n": rng.integers(1, 4, n),
        }
    )


def same(fit, columns, patients, **options):
    """Assert the fit equals that of columns made by hand."""
    direct = JeffreysLogisticRegression().fit(columns, patients["event"], **options)
    np.testing.assert_allclose(
        fit.model.predict_proba(fit.design, offset=fit.data.offset),
        direct.predict_proba(columns, offset=options.get("offset")),
        atol=1e-7,
    )


def dummies(patients):
    return np.column_stack([patients["arm"] == level for level in "bc"]).astype(float)


def test_columns_that_stand_only_inside_functions(patients):
    age = patients["age"].to_numpy()
    same(regress("event ~ poly(age, 2)", patients), np.column_stack([age, age**2]) / 50, patients)
    from scipy.interpolate import BSpline

    knots = np.r_[[age.min()] * 4, np.median(age), [age.max()] * 4]
    basis = BSpline.design_matrix(age, knots, 3).toarray()[:, 1:]
    same(regress("event ~ bs(age, df=4)", patients), basis, patients)


def test_offsets_weights_and_the_dot(patients):
    logt = np.log(patients["time"].to_numpy())
    fit = regress("event ~ age + offset(log(time))", patients, weights="n")
    same(fit, patients[["age"]], patients, offset=logt, sample_weight=patients["n"])
    assert "Weights: n; weights sum to" in str(fit.summary())
    assert "Offset: log(time)." in str(fit.summary())
    both = regress("event ~ age + offset(time)", patients, offset="n")
    total = (patients["n"] + patients["time"]).to_numpy()
    same(both, patients[["age"]], patients, offset=total)
    everything = regress("event ~ . + offset(time)", pl.from_dict(patients.to_dict("list")))
    assert list(everything.design.columns) == ["age", "arm[b]", "arm[c]", "n"]


def test_successes_and_failures_are_rows_given_often():
    table = {"dose": [0.0, 1.0, 2.0, 3.0], "r": [0, 1, 4, 6], "total": [8, 7, 9, 6]}
    fit = regress("cbind(r, total - r) ~ dose", table)
    y = np.concatenate([[1] * r + [0] * (n - r) for r, n in zip(table["r"], table["total"],
                                                                strict=True)])  # fmt: skip
    X = np.repeat(table["dose"], table["total"])[:, None]
    plain = JeffreysLogisticRegression().fit(X, y)
    np.testing.assert_allclose(fit.model.params_, plain.params_, rtol=1e-7)
    np.testing.assert_allclose(fit.model.conf_int(), plain.conf_int(), rtol=1e-6)
    np.testing.assert_allclose(fit.model.bse("augmented"), plain.bse("augmented"), rtol=1e-7)
    assert fit.model.penalised_loglik_ == pytest.approx(plain.penalised_loglik_, rel=1e-10)
    assert fit.model.contrasts_.tolist() == ["success"]
    assert "4 groups; failure: 19, success: 11" in str(fit.summary())
    doubled = regress("cbind(r, total - r) ~ dose", table | {"w": [2] * 4}, weights="w")
    again = JeffreysLogisticRegression().fit(np.vstack([X, X]), np.concatenate([y, y]))
    np.testing.assert_allclose(doubled.model.params_, again.params_, rtol=1e-7)


def test_a_term_is_tested_as_a_whole(patients):
    """The restricted maximum, by a general optimiser on the plain reference."""
    fit = regress("event ~ age + C(arm)", patients)
    age = (patients["age"] - 50) / 10
    X = np.column_stack([np.ones(60), age, dummies(patients)])
    y, ones, none = patients["event"].to_numpy(), np.ones(60), np.zeros((60, 1))

    def lost(beta, free):
        full = np.zeros((1, 4))
        full[0, free] = beta
        return -penalised_loglik(full, X, y, ones, none, 0.5)

    heights = [
        -minimize(lost, np.zeros(len(free)), args=(free,), tol=1e-12).fun
        for free in ([0, 1, 2, 3], [0, 1], [0, 2, 3])
    ]
    tests = fit.test_terms()
    assert list(tests) == ["age", "arm"]
    assert tests["arm"].df == 2
    assert tests["arm"].chi2 == pytest.approx(2 * (heights[0] - heights[1]), abs=1e-6)
    assert tests["arm"].p_value == pytest.approx(chi2.sf(tests["arm"].chi2, 2))
    assert tests["age"].chi2 == pytest.approx(2 * (heights[0] - heights[2]), abs=1e-6)
    assert fit.test_terms(penalty="null-calibrated")["arm"].df == 2
    rows = fit.summary().to_dict()["terms"]
    assert [row["df"] for row in rows] == [1, 2]
    assert rows[1]["chi2"] == pytest.approx(tests["arm"].chi2)
    wald = fit.summary(method="wald").terms[1].chi2
    b, V = fit.model.params_[2:], fit.model.cov_params()[2:, 2:]
    assert wald == pytest.approx(b @ np.linalg.solve(V, b), rel=1e-6)
    assert not regress("event ~ age", patients).summary().terms


def test_terms_of_several_classes_and_of_collinear_columns(patients):
    table = patients.assign(event=np.resize(["x", "y", "z"], 60))
    fit = regress("event ~ age + arm", table)
    assert [t.df for t in fit.summary().terms] == [2, 4]
    assert fit.test_terms()["age"].chi2 == pytest.approx(fit.model.test("age").chi2)
    with pytest.warns(UserWarning, match="Collinear"):
        double = regress("event ~ age + I(2 * age)", patients)
    assert np.isnan(double.test_terms()["age"].p_value)


def test_the_intercept_alone(patients):
    fit = regress("event ~ 1", patients)
    k = int(patients["event"].sum())
    closed = np.log((k + 0.5) / (60 - k + 0.5))
    np.testing.assert_allclose(fit.model.params_, [closed], rtol=1e-8)
    np.testing.assert_allclose(fit.predict_proba(patients.head(2))[:, 1], (k + 0.5) / 61)
    assert "slope" not in str(fit.summary())


def test_rows_with_missing_values(patients):
    holes = patients.astype({"n": "Int64"})
    holes.loc[[1, 5], "age"] = np.nan
    holes.loc[5, "n"] = pd.NA
    holes.loc[7, "arm"] = None
    holes.loc[9, "time"] = np.nan  # not in the model
    kept = patients.drop(index=[1, 5, 7])
    fit = regress("event ~ age + C(n) + arm", holes, missing="drop")
    whole = regress("event ~ age + C(n) + arm", kept)
    np.testing.assert_allclose(fit.model.params_, whole.model.params_)
    assert list(fit.design.columns) == list(whole.design.columns)
    assert "Left out: 3 rows with missing values." in str(fit.summary())
    assert fit.summary().to_dict()["model"]["rows_left_out"] == 3
    assert fit.summary().to_dict()["model"]["rows"] == 57
    with pytest.raises(FirthshotError, match=r"'age'.*row 2 and 1 more, .*'n'.*row 6, .*'arm'"):
        regress("event ~ age + n + arm", holes)
    with pytest.raises(FirthshotError, match="not finite in row 3:"):
        regress("event ~ log(time) + age", holes.assign(time=[1, 1, 0] + [1] * 57), missing="drop")
    with pytest.raises(FirthshotError, match="Every row"):
        regress("event ~ age", patients.assign(age=np.nan), missing="drop")


def test_new_rows_keep_levels_and_knots(patients):
    fit = regress("event ~ bs(age, df=4) + arm + offset(time)", patients)
    everyone = fit.model.predict_proba(fit.design, offset=fit.data.offset)
    np.testing.assert_allclose(fit.predict_proba(patients.iloc[3:5]), everyone[3:5], atol=1e-12)
    apart = regress("event ~ age", patients, offset="time")
    with pytest.raises(FirthshotError, match=r"offset 'time': .* offset=\["):
        apart.predict_proba(patients[["age"]])
    everyone = apart.model.predict_proba(apart.design, offset=patients["time"])
    np.testing.assert_allclose(apart.predict_proba(patients), everyone)
    np.testing.assert_allclose(apart.predict_proba(patients, offset=patients["time"]), everyone)
    with pytest.raises(FirthshotError, match="no column 'age'"):
        apart.predict_proba(patients.drop(columns="age"))


@pytest.mark.parametrize("term", ["arm", "C(arm)", "factor(arm)", "age:arm", "`the arm`"])
def test_a_level_that_the_fit_did_not_see_is_refused(patients, term):
    table = patients.assign(**{"the arm": patients["arm"]})
    fit = regress(f"event ~ age + {term}", table)
    name = "the arm" if "the" in term else "arm"
    with pytest.raises(FirthshotError, match=f"^Column '{name}' has the level 'q', .* a, b"):
        fit.predict_proba({"age": [50.0, 40.0], name: ["a", "q"]})


def test_levels_that_a_formula_leaves_out_are_refused(patients):
    with pytest.raises(FirthshotError, match="names levels, but its column has others"):
        regress("event ~ C(arm, levels=['a', 'b'])", patients)


def test_the_usual_functions_are_known(patients):
    age = patients["age"].to_numpy()
    same(regress("event ~ sqrt(age)", patients), np.sqrt(age)[:, None], patients)
    same(regress("event ~ abs(age - 50)", patients), np.abs(age - 50)[:, None], patients)
    factor = regress("event ~ factor(arm)", patients)
    same(factor, dummies(patients), patients)
    assert list(factor.design.columns) == ["arm[b]", "arm[c]"]


def test_what_a_formula_cannot_mean_is_said_in_a_sentence(patients):
    with pytest.raises(FirthshotError, match="calls 'ns', which is no function here"):
        regress("event ~ ns(age, df=3)", patients)
    for power in ("I(age^2)", "I(n^2)"):  # of whole numbers Python has a ^, which is no power
        with pytest.raises(FirthshotError, match=r"has a \^, .*: write \*\*\.$"):
            regress(f"event ~ {power}", patients)
    assert "age:time" in regress("event ~ (age + time)^2", patients).design.columns
    fit = regress("event ~ bs(age, df=4)", patients)
    with pytest.raises(FirthshotError, match=r"outside the range of the fit .*extrapolation="):
        fit.predict_proba({"age": [200.0]})
    wider = regress("event ~ bs(age, df=4, extrapolation='extend')", patients)
    assert np.isfinite(wider.predict_proba({"age": [200.0]})).all()


def test_the_ways_out_of_a_collinear_spline_work(patients):
    with pytest.raises(FirthshotError, match="sum to one") as caught:
        regress("event ~ cr(age, df=3)", patients, collinear="refuse")
    for term in ("cr(age, df=3) - 1", "cr(age, df=3, constraints='center')"):
        assert term in str(caught.value)
        assert regress(f"event ~ {term}", patients, collinear="refuse").model.rank_ >= 3


def test_the_number_of_trials_may_be_a_term():
    table = {"ill": [0, 1, 4, 6], "n": [8, 9, 8, 7]}
    assert regress("cbind(ill, n - ill) ~ n", table).model.converged_


def test_the_first_level_is_the_reference(patients):
    levels = pd.Categorical(np.where(patients["event"], "ill", "well"), ["well", "ill", "dead"])
    fit = regress("event ~ age", patients.assign(event=levels))
    assert fit.model.reference_ == "well"
    enum = pl.Series(list(levels), dtype=pl.Enum(["well", "ill"]))
    same_fit = regress("event ~ age", pl.DataFrame({"age": patients["age"].to_list()}).with_columns(
        event=enum))  # fmt: skip
    np.testing.assert_allclose(same_fit.model.params_, fit.model.params_)
    with pytest.raises(FirthshotError, match="- 1"):
        regress("event ~ age", patients, fit_intercept=False)
    with pytest.raises(FirthshotError, match="of type list"):
        regress("event ~ age", [1, 2])


def test_a_local_maximum_is_not_taken_for_the_highest():
    """A restricted fit that lies higher than the full one refutes it: no χ² = 0 and p = 1."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {
            "event": rng.integers(0, 2, 50),
            "age": rng.normal(50, 9, 50),
            "group": rng.choice(["a", "b", "c"], 50),
        }
    ).drop(index=3)
    fit = regress("event ~ C(group) * poly(age, 2)", table)
    for test in fit.model.test():
        higher = test.restricted_loglik > fit.model.penalised_loglik_ + 1e-4
        assert np.isnan(test.chi2) == higher
    highest = max(test.restricted_loglik for test in fit.model.test())
    noted = "several maxima" in str(fit.summary())
    assert noted == (highest > fit.model.penalised_loglik_ + 1e-4)


def test_spellings_of_a_class_are_not_classes():
    table = {"y": ["yes", "Yes", "no ", "no"] * 3, "x": list(range(12))}
    with pytest.raises(FirthshotError, match=r"case or spaces alone \('yes', 'Yes', 'no ', 'no'\)"):
        regress("y ~ x", table)
