"""Small problems are solved in NumPy by the same text that numba compiles for larger ones."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from reference import random_problem

from firthshot.jeffreys._kernels import compiled, plain, solver_of
from firthshot.jeffreys._kernels.memory import Top
from firthshot.jeffreys._model import make_model


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("tau", [0.5, 0.2])
def test_numpy_and_compiled_code_agree(classes, tau):
    X, y, weights, offset = random_problem(np.random.default_rng(classes), n=40, classes=classes)
    model = make_model(X, y, classes, weights=weights, offset=offset, tau=tau)
    eye, free = np.eye(model.size), np.zeros((0, model.size))
    found = []
    for solver in (plain, compiled):
        work, theta = model.make_work(), np.zeros(model.size)
        lp, _, steps, status = solver.maximise(model.data, work, theta, free, 1e-8, 50, 0.0)
        top = Top(theta, np.linalg.inv(work.F), work.A.copy())
        tested = solver.restricted_fits(model.data, work, top, eye, 1e-6, 50)
        bounds = solver.profile_each(model.data, work, top, eye, (lp - 1.92, 1.92), 1e-8, 50)
        found.append([theta, [lp, steps, status], tested[0], bounds[0], bounds[2]])
    for slow, fast in zip(*found, strict=True):
        np.testing.assert_allclose(slow, fast, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_climbs_together_end_where_single_climbs_do(classes):
    rng = np.random.default_rng(classes)
    X, y, weights, offset = random_problem(rng, n=40, classes=classes)
    model = make_model(X, y, classes, weights=weights, offset=offset)
    starts = rng.normal(size=(6, model.size)) * [[0.1], [1.0], [2.0], [3.0], [9.0], [np.nan]]
    for forms in (np.zeros((0, model.size)), np.eye(model.size)[:2]):
        with np.errstate(all="ignore"):
            ends, single = (
                solver.maximise_each(model.data, starts, forms, 1e-6, 200)
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
