"""Convergence, collinearity, refusals, tables and plots of the estimator."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from golden_data import load
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from firthshot.errors import FirthshotError
from firthshot.jeffreys import CollinearityWarning, JeffreysLogisticRegression


def simple(n=40, p=3, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = np.concatenate([np.arange(classes), rng.integers(classes, size=n - classes)])
    return X, y


def test_four_rows():
    model = JeffreysLogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    assert model.converged_
    assert np.all(np.isfinite(model.conf_int()))
    assert "converged" in model.reason_


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("factor", [1.0, 1e6, 1e-6])
def test_complete_separation_on_any_scale(classes, factor):
    X = factor * np.arange(12.0)[:, None]
    y = np.arange(12) * classes // 12
    model = JeffreysLogisticRegression().fit(X, y)
    assert model.converged_
    assert np.all(np.isfinite(model.params_))
    assert model.separation().kind == "complete"
    assert np.all(np.isfinite(model.conf_int()))


def test_columns_far_from_zero():
    """A year-like column: nearly parallel to the intercept, yet not collinear."""
    X, y = simple()
    near = JeffreysLogisticRegression().fit(X, y)
    far = JeffreysLogisticRegression().fit(X + np.array([1e6, 0, 0]), y)
    assert far.rank_ == 4
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-4)
    np.testing.assert_allclose(far.bse()[1:], near.bse()[1:], rtol=1e-4)


def test_collinear_columns_are_named():
    X, y = simple()
    doubled = np.column_stack([X, X[:, 0] - 2 * X[:, 2], np.full(len(y), 3.0)])
    with pytest.warns(CollinearityWarning, match=r"x3 = f\(x0, x2\); x4 = f\(\(Intercept\)\)"):
        model = JeffreysLogisticRegression().fit(doubled, y)
    assert model.dependent_columns_ == {"x3": ("x0", "x2"), "x4": ("(Intercept)",)}
    plain = JeffreysLogisticRegression().fit(X, y)
    np.testing.assert_allclose(model.predict_proba(doubled), plain.predict_proba(X), rtol=1e-6)
    determined = np.isfinite(model.bse())
    assert determined.tolist() == [False, False, True, False, False, False]
    assert model.bse()[2] == pytest.approx(plain.bse()[2], rel=1e-6)
    np.testing.assert_allclose(model.conf_int()[2], plain.conf_int()[2], rtol=1e-6)
    assert np.isnan(model.conf_int()[1]).all()
    assert model.test()[2].p_value == pytest.approx(plain.test()[2].p_value, rel=1e-6)
    assert np.isnan(model.test("x0").p_value)
    with pytest.raises(FirthshotError, match="undetermined"):
        model.test(["x0", "x1"])
    with pytest.raises(FirthshotError, match="do not determine 'x0'"):
        model.profile("x0")
    assert "–" in str(model.summary())


def test_collinear_columns_are_refused_on_request():
    X, y = simple()
    with pytest.raises(FirthshotError, match=r"x3 = f\(x1\)"):
        JeffreysLogisticRegression(collinear="refuse").fit(np.column_stack([X, 5 * X[:, 1]]), y)
    with pytest.raises(FirthshotError, match="rank"):
        JeffreysLogisticRegression(collinear="refuse").fit(np.ones((4, 9)) * [[1], [2], [3], [5]],
                                                           [0, 1, 0, 1])  # fmt: skip


def test_more_columns_than_rows_need_no_warning():
    X, y = simple(n=10, p=30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = JeffreysLogisticRegression().fit(X, y)
    assert model.converged_
    assert "least norm" in str(model.summary())


def test_square_design_with_repeated_rows():
    X = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    with pytest.warns(CollinearityWarning, match="x1"):
        model = JeffreysLogisticRegression().fit(X, [0, 1, 1])
    assert model.converged_
    assert model.rank_ == 2


def test_not_converged_is_said():
    X, y = simple()
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = JeffreysLogisticRegression(max_iter=1).fit(X, y)
    assert not model.converged_
    text = str(model.summary())
    assert "raise max_iter" in text
    assert "χ² = –, p = –" in text
    assert text.count("–") >= 2 + 4 * 4  # overall; bounds, χ² and p of each coefficient
    assert not model.test("x0").converged


def test_maximum_likelihood_of_separated_data_does_not_pretend():
    X, y = np.arange(8.0)[:, None], np.arange(8) // 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = JeffreysLogisticRegression(tau=0.0).fit(X, y)
    assert model.separation()
    bounds = model.conf_int()[1]
    assert bounds[1] == np.inf or np.isnan(bounds[1])


def test_labels_names_and_orders():
    import pandas as pd

    X, codes = simple(classes=3, p=2)
    y = np.array(["low", "mid", "high"])[codes]
    model = JeffreysLogisticRegression(reference="mid").fit(pd.DataFrame(X, columns=["a", "b"]), y)
    assert model.contrasts_.tolist() == ["high", "low"]
    assert model.parameter_names_[:4] == ["high:(Intercept)", "high:a", "high:b", "low:(Intercept)"]
    assert set(model.predict(pd.DataFrame(X, columns=["a", "b"]))) <= {"low", "mid", "high"}
    both = model.test("a")
    assert both.df == 2
    assert both.chi2 == pytest.approx(model.test(["high:a", "low:a"]).chi2)
    matrix = np.eye(6)[[1, 4]]
    assert both.chi2 == pytest.approx(model.test(matrix).chi2)
    assert model.test({"high:a": 1.0}).chi2 == pytest.approx(model.test(["high:a"], 1.0).chi2)
    assert model.test("a", method="wald").df == 2
    dropped = model.test("a", penalty="drop-column")
    assert dropped.df == 2
    with pytest.raises(FirthshotError, match="every class"):
        model.test("high:a", penalty="drop-column")


def test_binary_reference_turns_the_sign():
    X, y = simple()
    one = JeffreysLogisticRegression().fit(X, y)
    other = JeffreysLogisticRegression(reference=1).fit(X, y)
    np.testing.assert_allclose(other.coef_, -one.coef_, rtol=1e-6)
    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), rtol=1e-6)


def test_null_calibrated_test_does_not_depend_on_units():
    X, y = simple(n=60)
    one = JeffreysLogisticRegression().fit(X, y).test("x1", penalty="null-calibrated")
    scaled = JeffreysLogisticRegression().fit(X * [1, 1000, 1], y)
    assert scaled.test("x1", penalty="null-calibrated").chi2 == pytest.approx(one.chi2, rel=1e-6)
    assert scaled.test("x1", penalty="drop-column").chi2 != pytest.approx(one.chi2, rel=1e-2)


@pytest.mark.parametrize("correction", ["flic", "flac"])
@pytest.mark.parametrize("name", ["binary_sex2", "multinomial_hepatitis", "multinomial_alligators"])
def test_corrected_predictions_are_right_on_average(name, correction):
    golden = load(name)
    model = JeffreysLogisticRegression(correction=correction)
    model.fit(golden.X, golden.y, sample_weight=golden.weights)
    observed = np.bincount(golden.y, weights=golden.weights)
    expected = golden.weights @ model.predict_proba(golden.X)
    np.testing.assert_allclose(expected, observed, rtol=1e-7)
    assert np.all(np.isfinite(model.conf_int()))
    assert correction.upper() in str(model.summary())


def test_flic_says_what_its_intercept_lacks():
    X, y = simple()
    model = JeffreysLogisticRegression(correction="flic").fit(X, y)
    assert "not maximise the penalised likelihood" in model.test("(Intercept)").reason
    assert "Wald interval" in str(model.summary())


BAD = [
    ({"tau": -1.0}, "tau is -1.0"),
    ({"tau": float("nan")}, "tau is nan"),
    ({"standard_errors": "sandwich"}, "inverse-information"),
    ({"correction": "flax"}, "'flic'"),
    ({"correction": "flac", "fit_intercept": False}, "fit_intercept=True"),
    ({"collinear": "ignore"}, "'minimal-norm'"),
    ({"reference": "seven"}, "'seven' is not a class"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_parameters(options, message):
    X, y = simple()
    with pytest.raises(FirthshotError, match=message):
        JeffreysLogisticRegression(**options).fit(X, y)


def test_bad_data():
    X, y = simple()
    model = JeffreysLogisticRegression()
    with pytest.raises(FirthshotError, match="1 class"):
        model.fit(X, np.zeros(len(y), dtype=int))
    with pytest.raises(FirthshotError, match="in row 4"):
        model.fit(X, y, sample_weight=np.where(np.arange(len(y)) == 3, -1.0, 1.0))
    with pytest.raises(FirthshotError, match="one for each of 40 rows"):
        model.fit(X, y, sample_weight=np.ones(3))
    with pytest.raises(FirthshotError, match=r"\(40, 1\)"):
        model.fit(X, y, offset=np.ones((40, 2)))
    with pytest.raises(FirthshotError, match="has no row of positive weight"):
        model.fit(X, np.where(np.arange(40) == 7, 2, y), sample_weight=np.arange(40) != 7)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match="Unknown label type"):
        model.fit(X, X[:, 0])


def test_bad_questions():
    X, y = simple()
    with pytest.raises(NotFittedError):
        JeffreysLogisticRegression().conf_int()
    model = JeffreysLogisticRegression().fit(X, y)
    with pytest.raises(FirthshotError, match="called 'z'"):
        model.test("z")
    with pytest.raises(FirthshotError, match="4 names"):
        model.test(np.eye(3))
    with pytest.raises(FirthshotError, match="level is 95"):
        model.conf_int(95)
    with pytest.raises(FirthshotError, match="'profile', 'wald'"):
        model.conf_int(method="score")


def test_summary_as_text_and_data():
    golden = load("binary_endometrial")
    summary = JeffreysLogisticRegression().fit(golden.X, golden.y).summary()
    text = str(summary)
    assert max(map(len, text.splitlines())) <= 80
    assert "x0             2.9293  1.5508   0.6097   7.8546   6.7985   0.0091" in text
    plain = json.loads(json.dumps(summary.to_dict(), allow_nan=False))
    assert plain["coefficients"][1]["estimate"] == pytest.approx(2.92927335319503)
    assert plain["model"]["overall_df"] == 3


def test_long_names_are_broken_not_cut():
    import pandas as pd

    X, y = simple(p=1)
    name = "a_rather_long_factor[with_a_level]:and_another[with_more]"
    text = str(JeffreysLogisticRegression().fit(pd.DataFrame({name: X[:, 0]}), y).summary())
    assert max(map(len, text.splitlines())) <= 80
    assert name in text.replace("\n  ", "").replace(" ", "")


def test_profile_and_its_picture():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    golden = load("binary_endometrial")
    model = JeffreysLogisticRegression().fit(golden.X, golden.y)
    curve = model.profile("x0", points=11)
    assert curve.loglik.max() == pytest.approx(model.penalised_loglik_, abs=1e-8)
    at_bounds = np.interp(curve.interval, curve.values, curve.loglik - curve.maximum)
    np.testing.assert_allclose(at_bounds, -1.9207, atol=0.15)
    ax = model.plot_profile("x0")
    assert ax.get_xlabel() == "coefficient of x0"
    matplotlib.pyplot.close(ax.figure)


def test_importing_the_package_does_not_import_sklearn():
    code = "import sys, firthshot; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("hypothesis", "value", "message"),
    [
        ([], 0.0, "is empty"),
        ({}, 0.0, "is empty"),
        (["x0", "x0"], 0.0, "depend on one another"),
        (np.zeros((1, 4)), 0.0, "depend on one another"),
        (np.full((1, 4), np.nan), 0.0, "not finite"),
        (["x0", "x1"], [1.0, 2.0, 3.0], "give one number, or 2"),
        ("x0", np.nan, "not finite"),
        ({"x0": np.inf}, 0.0, "not finite"),
        ("x0", "much", "no number"),
        ({"x0": 1.0}, 2.0, "no other value"),
    ],
)
@pytest.mark.parametrize("method", ["likelihood-ratio", "wald"])
def test_hypotheses_that_make_no_sense(hypothesis, value, message, method):
    model = JeffreysLogisticRegression().fit(*simple())
    with pytest.raises(FirthshotError, match=message):
        model.test(hypothesis, value, method=method)


def test_a_column_named_as_the_constant():
    pd = pytest.importorskip("pandas")
    X, y = simple(p=1)
    with pytest.raises(FirthshotError, match="rename it"):
        JeffreysLogisticRegression().fit(pd.DataFrame(X, columns=["(Intercept)"]), y)


def test_long_lists_end_in_dots():
    model = JeffreysLogisticRegression().fit(*simple(p=14))
    with pytest.raises(FirthshotError, match="x10, …"):
        model.test("z")


def test_covariance_matrix():
    """The inverse of the information that the plain reference adds up row by row."""
    from reference import information

    X, y = simple(classes=3)
    model = JeffreysLogisticRegression().fit(X, y)
    ones = np.column_stack([np.ones(len(X)), X])
    beta = np.column_stack([model.intercept_, model.coef_])
    F = information(beta, ones, np.ones(len(X)), np.zeros((len(X), 2)))
    np.testing.assert_allclose(model.cov_params() @ F, np.eye(8), atol=1e-8)
    roots = np.sqrt(np.diag(model.cov_params("augmented")))
    np.testing.assert_allclose(roots, model.bse("augmented"))
    flac = JeffreysLogisticRegression(correction="flac").fit(X, y)
    np.testing.assert_allclose(np.sqrt(np.diag(flac.cov_params())), flac.bse())
    with pytest.raises(FirthshotError, match="two fits"):
        JeffreysLogisticRegression(correction="flic").fit(X, y).cov_params()
    with pytest.warns(CollinearityWarning):
        double = JeffreysLogisticRegression().fit(np.column_stack([X, X[:, 0]]), y)
    assert np.isnan(double.cov_params()[1]).all()


def test_odds_ratios():
    golden = load("binary_endometrial")
    summary = JeffreysLogisticRegression().fit(golden.X, golden.y).summary(odds_ratios=True)
    row = summary.to_dict()["coefficients"][1]
    assert row["odds_ratio"] == pytest.approx(np.exp(2.92927335319503), rel=1e-6)
    assert row["odds_ratio_lower"] == pytest.approx(np.exp(0.609724436303203), rel=1e-5)
    assert row["odds_ratio_upper"] == pytest.approx(np.exp(row["upper"]))
    assert "odds ratio" in str(summary)
    assert "18.7140" in str(summary)
    assert " SE" not in str(summary)


def test_what_is_not_a_number_is_named():
    pd = pytest.importorskip("pandas")
    import polars as pl

    X, y = simple(p=2)
    frame = pd.DataFrame(X, columns=["age", "dose"])
    for table in (frame.assign(arm="control"), pl.DataFrame(X, ["age", "dose"]).with_columns(
        arm=pl.lit("control"))):  # fmt: skip
        with pytest.raises(FirthshotError, match=r"Column 'arm' holds text .'control'.*formula"):
            JeffreysLogisticRegression().fit(table, y)
    frame.loc[[6, 8], "dose"] = np.nan
    for call in ("fit", "predict"):
        model = JeffreysLogisticRegression().fit(X if call == "fit" else frame.fillna(0.0), y)
        arguments = (frame, y) if call == "fit" else (frame,)
        with pytest.raises(FirthshotError, match=r"NaN in row 7, column 'dose' .and 1 more") as e:
            getattr(model, call)(*arguments)
        assert "HistGradient" not in str(e.value)
    with pytest.raises(FirthshotError, match="inf in row 3, column 1:"):
        JeffreysLogisticRegression().fit(np.where(np.arange(80).reshape(40, 2) == 5, np.inf, X), y)


def test_a_zero_is_printed_as_zero():
    """A symmetric table: the slope is exactly zero, up to rounding."""
    X, y = np.array([-1.3, -1.3, 0.2, 0.2, 0.9, 0.9])[:, None], [0, 1, 0, 1, 0, 1]
    text = str(JeffreysLogisticRegression().fit(X, y).summary())
    line = next(line for line in text.splitlines() if line.startswith("x0"))
    assert line.split()[1] == "0"
    assert line.split()[5:] == ["0", "1.0000"]
    assert "e-" not in line
    assert "test of the slope: χ² = 0, p = 1.0000" in text


def test_class_and_interaction_are_told_apart_in_pictures():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    pd = pytest.importorskip("pandas")
    X, y = simple(classes=3, p=1)
    labels = np.array(["alive", "dead", "lost"])[y]
    model = JeffreysLogisticRegression().fit(pd.DataFrame({"age:sex[M]": X[:, 0]}), labels)
    ax = model.plot_profile("dead:age:sex[M]")
    assert ax.get_xlabel() == "coefficient of age:sex[M]\n(dead against alive)"
    matplotlib.pyplot.close(ax.figure)
