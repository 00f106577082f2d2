"""What R's packages assert or print of themselves, as facts; golden numbers are in `test_golden`.

Sources, by the letters of the facts below:

L1  github.com/georgheinze/logistf, tests/testthat at b127519 and c0a022f (2021)
L2  Heinze and Ploner (2004), Technical Report 2/2004, page 16, as quoted in logistf's issue 76
L3  a course book of 2018 on perfect prediction, which prints an older logistf (eight rows)
L4  github.com/alainamstutz/JAKi-IPDMA, two_stage.md: 28-day deaths in the trial of Cao et al.
B1  github.com/ikosmidis/brglm2 at 3368403, README.md and man/brglmFit.Rd
B2  the same, inst/tinytest/test-multinom.R and test-multinom-binom.R
B3  github.com/melff/mclogit, articles/Firth-bias-reduction.md, which prints brglm and brmultinom
B4  github.com/cran/ggeffects, tests/testthat/test-brglm.R: predictions of brglm
D1  github.com/ikosmidis/detectseparation at 2bb2104, inst/tinytest
D2  the same, README.md and vignettes/infinite_estimates.Rmd
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from golden_data import load
from scipy.special import xlogy

from firthshot import regress
from firthshot.jeffreys import JeffreysLogisticRegression, Logit, detect_separation
from firthshot.jeffreys._restricted import restricted_maxima

pytest.importorskip("formulaic")
PEERS = {"L": "logistf", "B": "brglm2", "D": "detectseparation"}
FINITE = "finite"
EIGHT = np.array([[-1, -2, -3, -3, 5, 6, 10, 11], [3, 2, -1, -1, 2, 4, 1, 0]]).T
HALVES = [0, 0, 0, 0, 1, 1, 1, 1]
LIZARDS = {  # McCullagh and Nelder (1989), from Schoener (1970)
    "grahami": [20, 8, 4, 13, 8, 12, 8, 4, 5, 6, 1, 34, 69, 18, 31, 55, 13, 17, 60, 8, 12, 21, 4],
    "opalinus": [2, 1, 4, 0, 0, 0, 3, 1, 3, 0, 1, 11, 20, 10, 5, 4, 3, 15, 32, 8, 1, 5, 4],
    "height": [*"lllhhhlllhhlllhhhlllhhh"],
    "diameter": [*"ttttttwwwwwttttttwwwwww"],
    "light": ["a sunny"] * 11 + ["b shady"] * 12,
    "time": [*"12312312313123123123123"],
}
SILVAPULLE = [2, 4, 5, 5, 5, 7, 7, 10, *[0] * 18, *[1] * 8, 2], [1] * 8 + [0] * 27


@cache
def golden(name, **options):
    """Fit a golden data set; its levels keep their order."""
    data = load(name)
    model = JeffreysLogisticRegression(**options)
    return model.fit(data.X, data.y, sample_weight=data.weights, offset=data.offset)


@cache
def eight():
    return JeffreysLogisticRegression().fit(EIGHT, HALVES)


@cache
def deaths():
    """Return the fit of 3 deaths in 21 patients against 0 in 20."""
    treated, died = np.repeat([[0, 0], [0, 1], [1, 0]], [18, 3, 20], axis=0).T
    model = JeffreysLogisticRegression(standard_errors="augmented")
    return model.fit(treated[:, None], died)


@cache
def lizards():
    formula = "cbind(grahami, opalinus) ~ C(height, Treatment('l')) + diameter + light + time"
    return Logit.from_formula(formula, LIZARDS).fit(method="wald")


@cache
def endometrial():
    data = load("binary_endometrial")
    return Logit(data.y, np.column_stack([np.ones(79), data.X])).fit(method="wald")


def rows_of_the_limit():
    """Return maximum likelihood where NV is 0: what is left when its coefficient is infinite."""
    data = load("binary_endometrial")
    kept = data.X[:, 0] == 0
    return JeffreysLogisticRegression(tau=0.0).fit(data.X[kept, 1:], data.y[kept])


def written_out():
    """Fit the lizards with one row per animal."""
    often = {k: np.tile(v, 2) for k, v in LIZARDS.items()}
    n = np.concatenate([LIZARDS["grahami"], LIZARDS["opalinus"]])
    species = np.repeat(["grahami", "opalinus"], 23)
    table = {k: np.repeat(v, n) for k, v in often.items()} | {"species": np.repeat(species, n)}
    formula = "species ~ C(height, Treatment('l')) + diameter + light + time"
    return regress(formula, table, reference="opalinus").model.params_


def saturated():
    """Return the log-likelihood of the lizards with a probability for each group."""
    counts = np.array([LIZARDS["grahami"], LIZARDS["opalinus"]])
    return xlogy(counts, counts / counts.sum(axis=0)).sum()


def free_in_sex2():
    """Return intercept and age, the other coefficients zero, with the full penalty."""
    fit = golden("binary_sex2").fit_
    (found,) = restricted_maxima(fit, np.eye(7)[None, 2:], np.zeros((1, 5)))
    return fit.model.to_beta(found.theta)[0, :2]


def ml_warns_of_hepatitis():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = load("multinomial_hepatitis")
        ml = JeffreysLogisticRegression(tau=0.0)
        return bool(ml.fit(data.X, data.y, data.weights).converged_ or not caught)


def fitted_by_reference(reference):
    data = load("multinomial_hepatitis")
    return golden("multinomial_hepatitis", reference=reference).predict_proba(data.X)


def enzymes():
    return golden("multinomial_enzymes_bull2007", tau=0.0)


def shrinkage():
    data = load("binary_endometrial")
    fits = [JeffreysLogisticRegression(tau=tau).fit(data.X, data.y) for tau in (0.5, 1, 2, 5)]
    return bool(np.all(np.diff([np.linalg.norm(fit.params_) for fit in fits]) < 0))


def directions(X, y):
    return list(detect_separation(X, y).directions.values())


def endometrial_columns(*factors):
    data = load("binary_endometrial")
    columns = {"NV": data.X[:, 0], "-NV": -data.X[:, 0], "2 NV": 2 * data.X[:, 0]}
    X = np.column_stack([columns[name] for name in factors])
    return np.column_stack([X, data.X[:, 1:]]), data.y


def wald_predictions(column):
    new = {"height": ["l", "h"], "diameter": "t", "light": "a sunny", "time": "1"}
    return lizards().regression.predict(new, interval="wald")[column]


def asked_of_each(model, part):
    return [getattr(test, part) for test in model.test()]


class Fact(NamedTuple):
    """Something that a source says, and how to ask us; numbers agree to ``atol`` and ``rtol``."""

    source: str
    what: str
    found: Callable[[], Any]
    expected: list
    rtol: float = 0.0
    atol: float = 0.0


SEX2 = [0.12025404, -1.10598130, -0.06881673, 2.26887464, -2.11140816, -0.78831694, 3.09601263]
HOUSING = [
    -0.41687, 0.44413, 0.66149, -0.43385, 0.13005, -0.66200, 0.35873,
    -0.13851, 0.73136, 1.60325, -0.73136, -0.40671, -1.40361, 0.47923,
]  # fmt: skip
FACTS = [
    Fact("L1", "estimates", lambda: golden("binary_sex2").params_, SEX2, 1e-6),
    Fact("L1", "restricted estimates", free_in_sex2, [0.3023695, -0.8159534], 1e-2),
    Fact("L1", "likelihood above -170, and the null model's", lambda: [
        golden("binary_sex2").penalised_loglik_ > -170,
        golden("binary_sex2").test(["x0", "x1", "x2", "x3", "x4", "x5"]).restricted_loglik > -170,
    ], [True, True]),
    Fact("L1", "at most 25 iterations", lambda: [golden("binary_sex2").n_iter_ <= 25], [True]),
    Fact("L2", "p of vic = 2 and vicl = 0",
         lambda: [golden("binary_sex2").test({"x2": 2.0, "x3": 0.0}).p_value],
         [6.4102254145881e-06], 1e-8),
    Fact("L3", "estimates", lambda: eight().params_, [-0.98871431, 0.33195157, 0.08250307], 1e-6),
    Fact("L3", "standard errors", lambda: eight().bse(), [1.4283595, 0.2142516, 0.6085055], 1e-6),
    Fact("L3", "lower bounds", lambda: eight().conf_int()[:, 0],
         [-10.2169313, 0.0417035, -2.1788866], 2e-5),
    Fact("L3", "upper bounds", lambda: eight().conf_int()[:, 1],
         [1.884501, 1.463409, 3.379327], 1e-5),
    Fact("L3", "χ²", lambda: asked_of_each(eight(), "chi2"),
         [0.59231445, 5.31583569, 0.01980379], 1e-6),
    Fact("L3", "p", lambda: asked_of_each(eight(), "p_value"),
         [0.44152553, 0.02113246, 0.88808646], 1e-6),
    Fact("L3", "likelihood ratio and its p", lambda: [eight().test(["x0", "x1"]).chi2,
         eight().test(["x0", "x1"]).p_value], [5.800986, 0.05499609], 1e-6),
    Fact("L3", "Wald and its p", lambda: [eight().test(["x0", "x1"], method="wald").chi2,
         eight().test(["x0", "x1"], method="wald").p_value], [2.706445, 0.2584062], 1e-6),
    Fact("L4", "estimates", lambda: deaths().params_, [-1.665008, -2.048564], 1e-6),
    Fact("L4", "standard errors", lambda: deaths().bse(), [0.5828965, 1.5454930], 1e-6),
    Fact("L4", "bounds", lambda: deaths().conf_int(),
         [-2.996461, -0.6391919, -6.975291, 0.3788351], 1e-6),
    Fact("L4", "χ²", lambda: asked_of_each(deaths(), "chi2"), [11.219466, 2.610367], 1e-6),
    Fact("L4", "p", lambda: asked_of_each(deaths(), "p_value"), [0.0008094379, 0.1061671667], 1e-6),
    # logistf counts the intercept in here, and says 1 df.
    Fact("L4", "Wald", lambda: [deaths().test(np.eye(2), method="wald").chi2], [14.89037], 1e-6),
    Fact("B1", "estimates", lambda: endometrial().params,
         [3.77456, 2.92927, -0.03475, -2.60416], atol=6e-6),
    Fact("B1", "standard errors", lambda: endometrial().bse,
         [1.48869, 1.55076, 0.03958, 0.77602], atol=6e-6),
    Fact("B1", "z", lambda: endometrial().tvalues, [2.535, 1.889, -0.878, -3.356], atol=6e-4),
    Fact("B1", "p", lambda: endometrial().pvalues,
         [0.011229, 0.058902, 0.379915, 0.000791], atol=1e-6),
    Fact("B1", "null deviance, deviance, AIC", lambda: [-2 * endometrial().llnull,
         -2 * endometrial().llf, endometrial().aic], [104.903, 56.575, 64.575], atol=6e-4),
    Fact("B1", "higher powers shrink more", lambda: [shrinkage()], [True]),
    Fact("B2", "Table 3 of Bull et al.", lambda: golden("multinomial_hepatitis").coef_,
         [-2.43, -1.57, 1.96, -0.36, -0.38, 0.26], 1e-2, 5e-3),
    Fact("B2", "maximum likelihood of separated data does not pass in silence",
         lambda: [ml_warns_of_hepatitis()], [False]),
    Fact("B2", "the reference does not matter", lambda: [
        np.allclose(fitted_by_reference(0), fitted_by_reference(k), rtol=1e-8) for k in (1, 2)
    ], [True, True]),
    Fact("B2", "AIC of maximum likelihood",
         lambda: [enzymes().aic_ - (-2 * enzymes().loglik_ + 2 * enzymes().params_.size)], [0.0],
         atol=1e-9),
    Fact("B2", "Wald interval at 0.99", lambda: [np.allclose(
        enzymes().conf_int(0.99, "wald")[:, 1],
        enzymes().params_ + 2.5758293035489004 * enzymes().bse(), rtol=1e-10)], [True]),
    Fact("B2", "counts, and one row per animal",
         lambda: [np.allclose(lizards().params, written_out(), rtol=1e-6)], [True]),
    Fact("B3", "estimates", lambda: lizards().params,
         [1.9018, 1.1064, -0.7536, -0.8177, 0.2280, -0.7273], atol=6e-5),
    Fact("B3", "standard errors", lambda: lizards().bse,
         [0.3374, 0.2544, 0.2103, 0.3186, 0.2488, 0.2975], atol=6e-5),
    Fact("B3", "z", lambda: lizards().tvalues,
         [5.638, 4.349, -3.584, -2.566, 0.916, -2.445], atol=6e-4),
    Fact("B3", "p", lambda: lizards().pvalues,
         [1.73e-08, 1.37e-05, 0.000338, 0.010277, 0.359621, 0.014482], 4e-3, 6e-7),
    Fact("B3", "deviance", lambda: [-2 * (lizards().llf - saturated())], [14.246], atol=6e-4),
    Fact("B3", "three classes", lambda: golden("multinomial_housing").params_, HOUSING, atol=6e-6),
    Fact("B3", "deviance of three classes", lambda: [golden("multinomial_housing").deviance_],
         [3470.092], atol=6e-4),
    Fact("B4", "predictions", lambda: wald_predictions("estimate"), [0.8701, 0.95295], 1e-4),
    Fact("B4", "lower bounds", lambda: wald_predictions("lower"), [0.77567, 0.90524], 1e-4),
    Fact("D1", "the sign of a column turned", lambda: directions(*endometrial_columns("-NV")),
         [FINITE, "-Inf", FINITE, FINITE]),
    Fact("D1", "overlap", lambda: list(lizards().estimator.separation().directions.values()),
         [FINITE] * 6),
    Fact("D1", "complete", lambda: [detect_separation(
        [[-1, 2], [-1, -2], [-2, -2], [2, 2]], [0, 1, 1, 1]).kind], ["complete"]),
    Fact("D1", "overlap of four rows",
         lambda: [bool(detect_separation([[-1], [0], [1], [2]], [0, 1, 0, 1]))], [False]),
    Fact("D1", "an aliased column", lambda: directions(*endometrial_columns("NV", "2 NV")),
         [FINITE, "+Inf", "undetermined", FINITE, FINITE]),
    Fact("D1", "Silvapulle (1981)", lambda: directions(
        np.array(SILVAPULLE[0])[:, None], SILVAPULLE[1]), ["-Inf", "+Inf"]),
    Fact("D2", "kind", lambda: [detect_separation(*endometrial_columns("NV")).kind],
         ["quasi-complete"]),
    Fact("D2", "directions", lambda: directions(*endometrial_columns("NV")),
         [FINITE, "+Inf", FINITE, FINITE]),
    Fact("D2", "finite part of maximum likelihood", lambda: rows_of_the_limit().params_,
         [4.3045178, -0.0421834, -2.9026056], 1e-6),
    Fact("D2", "its standard errors", lambda: rows_of_the_limit().bse(),
         [1.63729861, 0.04433196, 0.84555156], 1e-6),
    Fact("D2", "its deviance", lambda: [rows_of_the_limit().deviance_], [55.393], atol=6e-4),
    Fact("D2", "six rows", lambda: [bool(detect_separation(
        [[1, 2], [0, 1], [3, 1], [2, 4], [3, 6], [4, 8]], [0, 0, 0, 1, 1, 1]))], [True]),
]  # fmt: skip


@pytest.mark.parametrize("fact", FACTS, ids=[f"{fact.source} {fact.what}" for fact in FACTS])
def test_facts(fact):
    found = np.ravel(fact.found())
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, fact.expected, rtol=fact.rtol, atol=fact.atol)
    else:
        assert found.tolist() == fact.expected


def test_the_counts_in_the_documents():
    counts = Counter()
    for fact in FACTS:
        counts[PEERS[fact.source[0]]] += len(fact.expected)
    page = (Path(__file__).parents[2] / "docs" / "jeffreys.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| (logistf|brglm2|detectseparation)[^|]*\| (\d+) \|", page, re.M))
    assert {peer: str(count) for peer, count in counts.items()} == said
