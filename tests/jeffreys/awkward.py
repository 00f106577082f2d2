"""Random data sets on which penalised likelihoods are awkward, and an oracle from many starts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit

from firthshot.jeffreys._model import maximise

KINDS = ("normal", "skewed", "sparse", "separated", "rare", "mixed")
_FAR = 1e6  # linear predictors beyond which the likelihood is made of rounding errors


def awkward_set(seed):
    """Return columns and labels; the kind of the columns goes by turns."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    n, p = int(rng.integers(12, 120)), int(rng.integers(1, 7))
    X = rng.normal(size=(n, p))
    if kind == "skewed":
        X = np.exp(rng.uniform(1.0, 2.5) * X)
    elif kind == "sparse":
        X = (rng.uniform(0.8, 1.8) < X).astype(float)
        X[0] = 1.0 - X[1]
    elif kind == "mixed":
        half = (p + 1) // 2
        X[:, :half] = np.exp(2.0 * X[:, :half])
        X[:, half:] = X[:, half:] > 1.0
    slopes = rng.normal(size=p) * (6.0 if kind in ("separated", "mixed") else 1.0)
    ranks = np.argsort(np.argsort(X, axis=0), axis=0) / n - 0.5
    eta = ranks * 3.0 @ slopes - (2.5 if kind == "rare" else 0.0)
    y = (rng.random(n) < expit(eta)).astype(int)
    y[:2] = 0, 1
    return X[:, np.ptp(X, axis=0) > 0.0], y


def highest(fitted, forms=None, values=None, draws=60, seed=0):
    """Return the highest penalised log-likelihood of many climbs, with ``forms β = values``."""
    model = fitted.model
    work, rng = model.make_work(), np.random.default_rng(seed)
    C = None if forms is None else model.to_theta(np.atleast_2d(forms))
    likelihood = replace(model, data=model.data._replace(tau=0.0))
    starts = [fitted.maximum.theta, np.zeros(model.size)]
    starts += [maximise(likelihood, work, np.zeros(model.size), 1e-4, k).theta for k in (1, 3, 6)]
    spread = np.quantile(model.data.Z, [0.25, 0.75], axis=1)
    unit = np.where(np.ptp(spread, axis=0) > 0.0, np.ptp(spread, axis=0), 1.0)
    unit = np.tile(unit, model.contrasts)
    scale = np.resize([0.5, 1.0, 2.0, 4.0, 9.0], (draws, 1))
    starts += list(
        rng.normal(size=(draws, model.size))
        * scale
        / np.where(rng.random((draws, 1)) < 0.5, unit, 1.0)
    )
    best = -np.inf
    for start in starts:
        begin = start
        if C is not None:
            begin = start - C.T @ np.linalg.solve(C @ C.T, C @ start - values)
        end = maximise(model, work, begin, 1e-5, 200, constraints=C)
        pivots = np.diag(work.L) ** 2 / np.diag(work.F)
        if end.converged and model.farthest(end.theta) < _FAR and pivots.min() > 1e-12:
            best = max(best, end.penalised_loglik + 0.5 * end.decrement**2)
    return best
