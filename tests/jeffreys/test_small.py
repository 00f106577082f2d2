"""Small problems are solved in NumPy, by Newton's method, and larger ones by compiled code."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from reference import numerical_gradient, random_problem

from firthshot.jeffreys._kernels import compiled, plain, solver_of
from firthshot.jeffreys._kernels.memory import Top
from firthshot.jeffreys._kernels.points import evaluate, evaluate_one
from firthshot.jeffreys._model import make_model


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("tau", [0.0, 0.5, 1.3])
def test_value_slopes_and_curvature(classes, tau):
    rng = np.random.default_rng(classes)
    X, y, weights, offset = random_problem(rng, n=30, classes=classes)
    model = make_model(X, y, classes, weights=weights, offset=offset, tau=tau)
    points = rng.normal(size=(3, model.size))
    several, work = evaluate(model.data, points), model.make_work()
    for k, theta in enumerate(points):
        one = evaluate(model.data, theta)
        lp = compiled.value(model.data, work, theta)
        compiled.gradient(model.data, work)
        assert one.lp == pytest.approx(lp, rel=1e-12)
        np.testing.assert_allclose(one.F, work.F, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(one.score, work.score[0], rtol=1e-9, atol=1e-11)
        if tau:
            np.testing.assert_allclose(one.hat, work.hat, rtol=1e-10)
            np.testing.assert_allclose(one.V, work.V, rtol=1e-10, atol=1e-13)
        for part, each in zip(several, one, strict=True):
            np.testing.assert_allclose(part[k], each, rtol=1e-10, atol=1e-12)
        if classes == 2:
            for part, each in zip(evaluate_one(model.data, theta), one, strict=True):
                np.testing.assert_allclose(part, each, rtol=1e-9, atol=1e-12)
        for j, row in enumerate(one.F + one.A):

            def slope(at, j=j):
                return -evaluate(model.data, at).score[j]

            np.testing.assert_allclose(row, numerical_gradient(slope, theta), atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("tau", [0.5, 0.2])
def test_numpy_and_compiled_code_agree(classes, tau):
    X, y, weights, offset = random_problem(np.random.default_rng(classes), n=40, classes=classes)
    model = make_model(X, y, classes, weights=weights, offset=offset, tau=tau)
    eye, free = np.eye(model.size), np.zeros((0, model.size))
    found = []
    for solver in (plain, compiled):
        work, theta = model.make_work(), np.zeros(model.size)
        lp, _, _, status = solver.maximise(model.data, work, theta, free, 1e-8, 50, 0.0)
        top = Top(theta, np.linalg.inv(work.F), work.A.copy())
        starts = np.where(eye == 1.0, 0.0, theta)
        options = top.curvature, 1e-6, 50
        tested = solver.maximise_each(model.data, work, starts, eye[:, None], *options)
        one = starts[0].copy()
        single = solver.maximise(model.data, work, one, eye[:1], 1e-8, 50, 0.0)
        bounds = solver.profile_each(model.data, work, top, eye, (lp - 1.92, 1.92), 1e-8, 50)
        found.append([theta, [lp, status], tested[1], single[0], one, bounds[0], bounds[2]])
    for slow, fast in zip(*found, strict=True):
        np.testing.assert_allclose(slow, fast, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("classes", [2, 3])
def test_climbs_together_end_where_single_climbs_do(classes):
    rng = np.random.default_rng(classes)
    X, y, weights, offset = random_problem(rng, n=40, classes=classes)
    model = make_model(X, y, classes, weights=weights, offset=offset)
    starts = rng.normal(size=(6, model.size)) * [[0.1], [1.0], [2.0], [3.0], [9.0], [np.nan]]
    for forms in (np.zeros((0, model.size)), np.eye(model.size)[:2]):
        C, work = np.tile(forms, (6, 1, 1)), model.make_work()
        with np.errstate(all="ignore"):
            ends, single = (
                solver.maximise_each(model.data, work, starts, C, 0.0 * work.A, 1e-6, 200)
                for solver in (plain, compiled)
            )
        theta, lp, _, _, status = ends
        both = (status == 0) & (single[4] == 0)
        assert both[:5].all()
        assert status[-1] != 0
        np.testing.assert_allclose(lp[both], single[1][both], rtol=1e-9)
        np.testing.assert_allclose(theta[both] @ forms.T, starts[both] @ forms.T, rtol=1e-9)


def test_the_size_alone_chooses():
    assert solver_of(25, 4) is plain
    assert solver_of(79, 4) is plain
    assert solver_of(50, 6) is compiled


def test_a_first_small_answer_compiles_nothing():
    code = """
import sys
import numpy as np
from firthshot.jeffreys import JeffreysLogisticRegression
X = np.random.default_rng(0).normal(size=(25, 3))
model = JeffreysLogisticRegression().fit(X, np.arange(25) % 2)
print(len(model.test()), model.conf_int().shape, model.separation().kind, "numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split("\n")[0] == "4 (4, 2) none False"
