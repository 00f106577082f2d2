"""Against R: logistf and brglm2 for two classes, brglm2 and pmlr for more."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from golden_data import BINARY, FOLDER, NAMES, load

from firthshot.jeffreys import JeffreysLogisticRegression

WITH_PROFILES = [n for n in NAMES if {"logistf_profile", "pmlr_likelihood"} & set(load(n).results)]
JEFFREYS = ("logistf_profile", "brglm2_MPL_Jeffreys", "brmultinom_MPL_Jeffreys", "pmlr_likelihood")


@cache
def fitted(name, **options):
    golden = load(name)
    labels = np.array(golden.levels)[golden.y]
    model = JeffreysLogisticRegression(reference=golden.levels[0], **options)
    # brglm2 lists the classes in the order of the levels; keep it whatever the alphabet says.
    codes = np.array([f"{k}_{label}" for k, label in zip(golden.y, labels, strict=True)])
    model.set_params(reference=f"0_{golden.levels[0]}")
    return model.fit(golden.X, codes, sample_weight=golden.weights, offset=golden.offset)


def numbers(values):
    return np.ravel(np.array(values, dtype=float))


@pytest.mark.parametrize("name", NAMES)
def test_coefficients_and_likelihoods(name):
    results = load(name).results
    tools = [tool for tool in JEFFREYS if tool in results]
    assert tools
    model = fitted(name)
    assert model.converged_
    for tool in tools:
        np.testing.assert_allclose(model.params_, numbers(results[tool]["coef"]), rtol=1e-6)
        full = results[tool].get("penalised_loglik_full")
        full = results[tool].get("penalised_loglik_at_coef", full)
        if full is not None:
            np.testing.assert_allclose(model.penalised_loglik_, full, rtol=1e-9)
        if "loglik_at_coef" in results[tool]:
            np.testing.assert_allclose(model.loglik_, results[tool]["loglik_at_coef"], rtol=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_standard_errors_in_both_conventions(name):
    results = load(name).results
    model = fitted(name)
    if "logistf_profile" in results:
        expected = numbers(results["logistf_profile"]["se"])
        np.testing.assert_allclose(model.bse("augmented"), expected, rtol=1e-6)
    brglm2 = results.get("brglm2_MPL_Jeffreys") or results["brmultinom_MPL_Jeffreys"]
    np.testing.assert_allclose(model.bse("inverse-information"), numbers(brglm2["se"]), rtol=1e-6)


@pytest.mark.parametrize("name", WITH_PROFILES)
def test_profile_intervals(name):
    results = load(name).results
    reference = results.get("logistf_profile") or results["pmlr_likelihood"]
    # pmlr stops early: its bounds are a few 1e-6 off the level, ours are checked below.
    tolerance = {"rtol": 1e-5} if "logistf_profile" in results else {"rtol": 0, "atol": 1e-5}
    bounds = fitted(name).conf_int()
    assert np.all(np.isfinite(bounds))
    for column, key in enumerate(("ci_lower", "ci_upper")):
        expected = numbers(reference[key])
        found = np.isfinite(expected)
        np.testing.assert_allclose(bounds[found, column], expected[found], **tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_profile_bounds_lie_on_the_level(name):
    """At each bound the restricted maximum is χ²₀.₉₅ / 2 below: the definition itself."""
    model = fitted(name)
    for parameter, pair in zip(model.parameter_names_, model.conf_int(), strict=True):
        for bound in pair:
            statistic = model.test({parameter: bound}).chi2
            assert statistic == pytest.approx(3.841458820694124, abs=2e-6)


def test_bounds_that_logistf_misses():
    found = fitted("binary_sim_complete_separation_n20p3").conf_int()
    golden = load("binary_sim_complete_separation_n20p3")
    for bound in golden.results["independent_profile_bounds"]["bounds"]:
        row = 1 + golden.columns.index(bound["column"])
        column = ("lower", "upper").index(bound["side"])
        assert found[row, column] == pytest.approx(bound["value"], rel=1e-6)


@pytest.mark.parametrize("name", WITH_PROFILES)
def test_likelihood_ratio_p_values(name):
    results = load(name).results
    reference = results.get("logistf_profile") or results["pmlr_likelihood"]
    tests = fitted(name).test()
    # R's 1 - pchisq is exact to 1e-16 only.
    np.testing.assert_allclose(
        [t.p_value for t in tests], numbers(reference["p_value"]), rtol=1e-5, atol=1e-15
    )
    if "stat" in reference:
        np.testing.assert_allclose([t.chi2 for t in tests], numbers(reference["stat"]), rtol=1e-7)


@pytest.mark.parametrize("name", [n for n in NAMES if "pmlr_likelihood" in load(n).results])
def test_joint_tests_of_a_column(name):
    """pmlr: all classes' coefficients zero, then all equal."""
    model, pmlr = fitted(name), load(name).results["pmlr_likelihood"]
    J, p = model.coef_.shape[0], model.coef_.shape[1] + 1
    zero = [model.test(column).chi2 for column in model._columns()]
    equal = []
    for k in range(p):
        C = np.zeros((J - 1, J * p))
        for j in range(J - 1):
            C[j, j * p + k], C[j, (j + 1) * p + k] = 1.0, -1.0
        equal.append(model.test(C).chi2)
    np.testing.assert_allclose([*zero, *equal], pmlr["joint_stat"], rtol=1e-7)


def test_joint_tests_of_logistf_in_three_conventions():
    expected = json.loads((FOLDER / "tests_sex2_logistf.json").read_text())["tests"]
    golden = load("binary_sex2")
    model = fitted("binary_sex2")
    names = dict(zip(golden.columns, model.parameter_names_[1:], strict=True))
    for key in ("joint_vic_vicl_zero", "joint_vic2_vicl0"):
        columns = [names[c] for c in expected[key]["columns"]]
        result = model.test(dict(zip(columns, expected[key]["values"], strict=True)))
        assert result.df == 2
        assert result.p_value == pytest.approx(expected[key]["p"], rel=1e-6)
        assert result.restricted_loglik == pytest.approx(expected[key]["loglik_null"], rel=1e-9)
    nested = model.test(names["dia"], penalty="full-information")
    assert nested.chi2 == pytest.approx(expected["anova_nested_drop_dia"]["chisq"], rel=1e-7)
    plr = model.test(names["dia"], penalty="null-calibrated")
    assert plr.chi2 == pytest.approx(expected["anova_PLR_drop_dia"]["chisq"], rel=1e-7)
    dropped = model.test(names["dia"], penalty="drop-column")
    kept = [c for c in golden.columns if c != "dia"]
    smaller = JeffreysLogisticRegression().fit(
        golden.X[:, [golden.columns.index(c) for c in kept]], golden.y
    )
    difference = 2 * (model.penalised_loglik_ - smaller.penalised_loglik_)
    assert dropped.chi2 == pytest.approx(difference, rel=1e-9)


@pytest.mark.parametrize("name", BINARY)
def test_null_model_penalised_by_the_full_information(name):
    null = load(name).results["logistf_profile"]["penalised_loglik_null"]
    model = fitted(name)
    result = model.test(model.parameter_names_[1:])
    assert result.restricted_loglik == pytest.approx(null, rel=1e-8)


@pytest.mark.parametrize("name", BINARY)
def test_wald_intervals_and_tests_of_logistf(name):
    wald = load(name).results["logistf_wald"]
    model = fitted(name, standard_errors="augmented")
    bounds = model.conf_int(method="wald")
    np.testing.assert_allclose(bounds[:, 0], wald["ci_lower"], rtol=1e-6)
    np.testing.assert_allclose(bounds[:, 1], wald["ci_upper"], rtol=1e-6)
    found = [t.p_value for t in model.test(method="wald")]
    np.testing.assert_allclose(found, wald["p_value"], rtol=1e-5, atol=1e-15)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("tau", [0.1, 0.25, 1])
def test_other_powers_of_the_penalty(name, tau):
    results = load(name).results
    model = fitted(name, tau=tau)
    logistf = results[f"logistf_tau_{tau}"]
    np.testing.assert_allclose(model.params_, logistf["coef"], rtol=1e-6)
    np.testing.assert_allclose(model.bse("augmented"), logistf["se"], rtol=1e-6)
    np.testing.assert_allclose(model.penalised_loglik_, logistf["penalised_loglik_full"], rtol=1e-9)
    if (brglm2 := results.get(f"brglm2_MPL_Jeffreys_a{tau}")) is not None:
        np.testing.assert_allclose(model.params_, brglm2["coef"], rtol=1e-6)
        np.testing.assert_allclose(model.bse(), brglm2["se"], rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_maximum_likelihood_where_it_exists(name):
    results = load(name).results
    ml = results.get("brglm2_ML") or results.get("brmultinom_ML")
    if ml is None:
        assert fitted(name).separation()
        return
    model = fitted(name, tau=0.0)
    np.testing.assert_allclose(model.params_, numbers(ml["coef"]), rtol=1e-6)
    np.testing.assert_allclose(model.bse(), numbers(ml["se"]), rtol=1e-6)


@pytest.mark.parametrize("name", [n for n in BINARY if "flic" in load(n).results])
def test_flic(name):
    flic, golden = load(name).results["flic"], load(name)
    model = fitted(name, correction="flic")
    np.testing.assert_allclose(model.params_, flic["coef"], rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(golden.X)[:, 1], flic["predict"], rtol=1e-6)


@pytest.mark.parametrize("name", [n for n in BINARY if "flac" in load(n).results])
def test_flac(name):
    flac, golden = load(name).results["flac"], load(name)
    model = fitted(name, correction="flac")
    np.testing.assert_allclose(model.params_, flac["coef"], rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(golden.X)[:, 1], flac["predict"], rtol=1e-6)
    np.testing.assert_allclose(model.conf_int()[:, 0], flac["ci_lower"], rtol=1e-5)
    np.testing.assert_allclose(model.conf_int()[:, 1], flac["ci_upper"], rtol=1e-5)
    found = [t.p_value for t in model.test()]
    np.testing.assert_allclose(found, flac["p_value"], rtol=1e-5, atol=1e-15)


@pytest.mark.parametrize("name", BINARY)
def test_separation_as_detectseparation_sees_it(name):
    expected = load(name).results["detect_separation"]
    found = fitted(name).separation()
    assert bool(found) == expected["separation"]
    for ours, theirs in zip(found.directions.values(), expected["directions"], strict=True):
        # Their programme returns one direction; where both signs are possible we say so.
        assert ours in (theirs, "±Inf")
        assert (ours == "finite") == (theirs == "finite")
