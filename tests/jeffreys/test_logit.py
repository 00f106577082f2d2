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
