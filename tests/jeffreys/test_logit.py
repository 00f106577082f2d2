"""The face of statsmodels: the same numbers under other names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from golden_data import load
from scipy.stats import chi2

from firthshot import regress
from firthshot.errors import FirthshotError
from firthshot.jeffreys import JeffreysLogisticRegression, Logit

GOLDEN = load("binary_endometrial")
TABLE = pd.DataFrame(GOLDEN.X, columns=GOLDEN.columns).assign(HG=GOLDEN.y)
MODEL = JeffreysLogisticRegression().fit(TABLE[GOLDEN.columns], GOLDEN.y)


def test_arrays_with_a_column_of_ones():
    exog = TABLE[GOLDEN.columns].assign(const=1.0)
    found = Logit(GOLDEN.y, exog).fit()
    order = [1, 2, 3, 0]
    assert list(found.params.index) == [*GOLDEN.columns, "const"]
    np.testing.assert_allclose(found.params, MODEL.params_[order], rtol=1e-6)
    np.testing.assert_allclose(found.bse, MODEL.bse()[order], rtol=1e-6)
    np.testing.assert_allclose(found.conf_int(0.1), MODEL.conf_int(0.9)[order], rtol=1e-5)
    expected = np.array([test.p_value for test in MODEL.test()])
    np.testing.assert_allclose(found.pvalues, expected[order], rtol=1e-4)
    np.testing.assert_allclose(
        found.predict(exog), MODEL.predict_proba(TABLE[GOLDEN.columns])[:, 1]
    )
    assert (found.llf, found.aic, found.bic) == pytest.approx(
        (MODEL.loglik_, MODEL.aic_, MODEL.bic_)
    )
    assert "const" in str(found.summary())
    assert "test of all 3 slopes: χ² = 43.6558" in str(found.summary())  # the constant is none


def test_formula_and_wald():
    pytest.importorskip("formulaic")
    found = Logit.from_formula("HG ~ NV + PI + EH", TABLE, tau=0.4).fit(method="wald")
    same = regress("HG ~ NV + PI + EH", TABLE, tau=0.4)
    np.testing.assert_allclose(found.params, same.model.params_)
    z2 = (found.params / found.bse) ** 2
    np.testing.assert_allclose(found.pvalues, chi2.sf(z2, 1))
    np.testing.assert_allclose(found.conf_int(), same.model.conf_int(method="wald"))
    np.testing.assert_allclose(
        found.predict(TABLE.head(3)), same.predict_proba(TABLE.head(3))[:, 1]
    )
    both = found.wald_test(np.eye(4)[1:3])
    b, V = found.params.iloc[1:3], found.cov_params().iloc[1:3, 1:3]
    assert both.chi2 == pytest.approx(b @ np.linalg.solve(V, b))
    assert found.wald_test(["NV", "PI"]).p_value == pytest.approx(both.p_value)
    assert found.wald_test("NV").chi2 == pytest.approx(z2["NV"])
    with pytest.raises(FirthshotError, match="method is 'bfgs'"):
        Logit(GOLDEN.y, TABLE[["NV"]]).fit(method="bfgs")


def test_weights_and_offsets_reach_the_fit():
    w, o = np.resize([1.0, 2.0], 79), np.resize([0.0, 0.5, -0.5], 79)
    found = Logit(GOLDEN.y, GOLDEN.X, freq_weights=w, offset=o, reference=1).fit()
    same = JeffreysLogisticRegression(fit_intercept=False, reference=1)
    same.fit(GOLDEN.X, GOLDEN.y, sample_weight=w, offset=o)
    np.testing.assert_allclose(found.params, same.params_)


def test_further_names():
    pytest.importorskip("formulaic")
    found = Logit.from_formula("HG ~ NV + PI + EH", TABLE).fit()
    np.testing.assert_allclose(found.tvalues, found.params / found.bse)
    # brglm2 prints a null deviance of 104.903 for these data.
    assert (found.nobs, -2 * found.llnull) == pytest.approx((79, 104.903), abs=1e-3)
    assert found.prsquared == pytest.approx(1 - found.llf / found.llnull)
    each = found.t_test([[0, 1, 0, 0], [0, 0, 1, -1]], [0, 1])
    assert each["z"][0] == pytest.approx(found.tvalues["NV"])
    form, V = np.array([0, 0, 1, -1]), found.cov_params()
    assert each["std err"][1] == pytest.approx(np.sqrt(form @ V @ form))
    assert each["P>|z|"][1] == pytest.approx(found.wald_test([form], 1).p_value)
    assert each["upper"][1] - each["coef"][1] == pytest.approx(1.959964 * each["std err"][1])
    expected = found.regression.marginal_effects()
    pd.testing.assert_frame_equal(found.get_margeff(), expected)
    with pytest.raises(FirthshotError, match=r"use Logit\.from_formula"):
        Logit(GOLDEN.y, GOLDEN.X).fit().get_margeff()


def test_robust_standard_errors():
    exog, groups = TABLE[GOLDEN.columns].assign(const=1.0), np.arange(79) % 9
    order = [1, 2, 3, 0]
    for options, known in [
        ({"cov_type": "HC3"}, MODEL.robust_cov("HC3")),
        ({"cov_type": "cluster", "cov_kwds": {"groups": groups}}, MODEL.robust_cov("HC1", groups)),
    ]:
        found = Logit(GOLDEN.y, exog).fit(**options)
        np.testing.assert_allclose(found.cov_params(), known[np.ix_(order, order)], rtol=1e-5)
        np.testing.assert_allclose(found.pvalues, chi2.sf(found.tvalues**2, 1))
        assert found.cov_type == options["cov_type"]
        assert "Intervals: Wald" in str(found.summary())
    with pytest.raises(FirthshotError, match="give cov_kwds="):
        Logit(GOLDEN.y, exog).fit(cov_type="cluster")


def test_a_hypothesis_may_be_a_list_of_rows():
    rows = [[0, 1, 0, 0], [0, 0, 1, -1]]
    assert MODEL.test(rows) == MODEL.test(np.array(rows, dtype=float))
    with pytest.raises(FirthshotError, match="no matrix: give names, or rows"):
        MODEL.test([[0, 1], [1]])


SPECTOR = [  # Spector and Mazzeo (1980): GPA, TUCE, PSI, GRADE
    (2.66, 20, 0, 0), (2.89, 22, 0, 0), (3.28, 24, 0, 0), (2.92, 12, 0, 0), (4.0, 21, 0, 1),
    (2.86, 17, 0, 0), (2.76, 17, 0, 0), (2.87, 21, 0, 0), (3.03, 25, 0, 0), (3.92, 29, 0, 1),
    (2.63, 20, 0, 0), (3.32, 23, 0, 0), (3.57, 23, 0, 0), (3.26, 25, 0, 1), (3.53, 26, 0, 0),
    (2.74, 19, 0, 0), (2.75, 25, 0, 0), (2.83, 19, 0, 0), (3.12, 23, 1, 0), (3.16, 25, 1, 1),
    (2.06, 22, 1, 0), (3.62, 28, 1, 1), (2.89, 14, 1, 0), (3.51, 26, 1, 0), (3.54, 24, 1, 1),
    (2.83, 27, 1, 1), (3.39, 17, 1, 1), (2.67, 24, 1, 0), (3.65, 21, 1, 1), (4.0, 23, 1, 1),
    (3.10, 21, 1, 0), (2.39, 19, 1, 1),
]  # fmt: skip
STATA = {  # statsmodels/discrete/tests/results/results_discrete.py, Spector.logit; constant last
    "params": [2.82611297201, 0.0951576702557, 2.37868772835, -13.0213483201],
    "bse": [1.26294114526, 0.141554207662, 1.06456430165, 4.93132462871],
    "tvalues": [2.237723415, 0.6722348408, 2.234423721, -2.640537645],
    "pvalues": [0.0252390974, 0.5014342039, 0.0254552063, 0.0082774596],
    "llf": -12.8896334653335,
    "llnull": -20.5917296966173,
    "prsquared": 0.374038332124624,
    "aic": 33.779266930667,
    "bic": 39.642210541866,
}


def spector(formula="GRADE ~ GPA + TUCE + PSI", **options):
    pytest.importorskip("formulaic")
    table = pd.DataFrame(SPECTOR, columns=["GPA", "TUCE", "PSI", "GRADE"])
    return Logit.from_formula(formula, table, tau=0.0).fit("wald", **options)


@pytest.mark.parametrize("name", STATA)
def test_numbers_of_stata_in_statsmodels(name):
    found = np.ravel(getattr(spector(), name))
    np.testing.assert_allclose(np.roll(found, -1), STATA[name], rtol=1e-6)


def test_intervals_of_stata_in_statsmodels():
    bounds = [[-22.68657, -3.35613], [0.3507938, 5.301432], [-0.1822835, 0.3725988],
              [0.29218, 4.465195]]  # fmt: skip
    np.testing.assert_allclose(spector().conf_int(), bounds, rtol=1e-6)


@pytest.mark.parametrize(
    ("rows", "effects", "errors"),
    [
        (None, [0.36258084688424, 0.01220841099085, 0.35751515254729],
         [0.1094412, 0.0177942, 0.1420034]),
        ({"GPA": 2.0, "TUCE": [row[1] for row in SPECTOR], "PSI": 1},
         [0.1456333017086, 0.00490359933927, 0.0494715429937], [0.145633, 0.0111226, 0.0731368]),
    ],
    ids=["overall", "at values"],
)  # fmt: skip
def test_margins_of_stata_in_statsmodels(rows, effects, errors):
    """The effect of PSI, a column of 0 and 1, is a change; those of the others are slopes."""
    found = spector().regression.marginal_effects(rows)
    np.testing.assert_allclose(found["effect"], effects, rtol=1e-6)
    np.testing.assert_allclose(found["std_error"], errors, rtol=2e-5)


def test_robust_errors_of_stata_in_statsmodels():
    """Stata multiplies HC0 by n / (n - 1); results_glm_logit_constrained.py, GPA as PSI."""
    found = spector("GRADE ~ I(GPA + PSI) + TUCE", cov_type="HC0")
    expected = [4.510414281113, 0.83609404798719, 0.12275592600281]
    np.testing.assert_allclose(found.bse * np.sqrt(32 / 31), expected, rtol=1e-6)
