"""FLIC and FLAC: Firth's estimates with predictions that are right on average.

Firth's penalty pulls probabilities towards one half (1/K). FLIC re-estimates the intercepts by
maximum likelihood; FLAC refits by maximum likelihood to the data augmented by the
pseudo-observations that the penalty stands for, with an indicator of the augmentation
(Puhr, Heinze, Nold, Lusa and Geroldinger, Statistics in Medicine 2017).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.jeffreys._design import make_design
from firthshot.jeffreys._model import Fit, Model, fit

if TYPE_CHECKING:
    from firthshot.jeffreys._kernels.memory import FloatArray


def flic(fitted: Fit, intercept: int) -> tuple[FloatArray, FloatArray]:
    """Re-estimate the intercepts by maximum likelihood, all else held at Firth's estimate.

    ``intercept`` is the column of the design that is constant. Returns the coefficients (J, p) with
    their new intercepts, and the standard errors (J,) of these: from the inverse Fisher information
    at the new coefficients.
    """
    model, data = fitted.model, fitted.model.data
    eta = fitted.maximum.theta.reshape(model.contrasts, -1) @ data.Z
    design = make_design(np.ones((data.y.size, 1)))
    shifts = Model(design, data._replace(Z=design.Z, offset=data.offset + eta, tau=0.0))
    moved = fit(shifts, tol=fitted.tol)
    if not moved.maximum.converged:
        raise FirthshotError(
            f"FLIC found no intercept ({moved.maximum.reason}): every class must be observed."
        )
    beta = fitted.beta.copy()
    beta[:, intercept] += moved.beta[:, 0]
    work = model.make_work()
    theta = np.ascontiguousarray(beta @ model.design.R.T).ravel()
    model.run("value", data, work, theta)
    there = replace(fitted, information=work.F)
    return beta, there.standard_errors().reshape(beta.shape)[:, intercept]


def pseudo_weights(fitted: Fit) -> FloatArray:
    """Return the weights of the pseudo-observations behind the penalty, shape (K, n).

    ``τ w_i p_is [(e_s - p)'V (e_s - p) + tr(M V)]`` for class s; for two classes both are
    τ h_i, as in logistf, and in general they sum to 2 τ h_i.
    """
    data, P, V = fitted.model.data, fitted.P, fitted.V
    VP = np.einsum("jkn,kn->jn", V, P)
    full = np.einsum("jn,jn->n", P, VP)
    diagonal = np.einsum("jjn->jn", V)
    forms = np.concatenate([full[None], diagonal - 2.0 * VP + full])
    probabilities = np.concatenate([fitted.P0[None], P])
    return np.asarray(data.tau * probabilities * (data.w * forms + fitted.hat))


def flac(fitted: Fit, max_iter: int) -> Fit:
    """Fit by maximum likelihood to the augmented data.

    The design has one more column, last: 1 for pseudo-observations. Predictions set it to 0.
    """
    data, model = fitted.model.data, fitted.model
    K, n = model.contrasts + 1, data.y.size
    indicator = np.repeat([0.0, 1.0], [n, K * n])
    design = make_design(np.column_stack([np.tile(model.X, (K + 1, 1)), indicator]))
    augmented = data._replace(
        Z=design.Z,
        y=np.concatenate([data.y, np.repeat(np.arange(K), n)]),
        w=np.concatenate([data.w, np.maximum(pseudo_weights(fitted).ravel(), 1e-300)]),
        offset=np.ascontiguousarray(np.tile(data.offset, (1, K + 1))),
        tau=0.0,
    )
    return fit(Model(design, augmented), tol=fitted.tol, max_iter=max_iter)
