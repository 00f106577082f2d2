"""Bias, variance and mean squared error of ML, Firth and ridge against the sample size.

The design is fixed: sixteen points, each observed N / 16 times, so that the first-order bias of
maximum likelihood is exactly c / N and c is known (Cox and Snell). The score at the true
parameter, whose mean is zero, serves as control variate: β̂ - β - F⁻¹U is of order 1 / N
instead of 1 / sqrt(N). So do the products of its components, whose means are the entries of
F⁻¹: they explain the second-order term of a model whose observed information is not random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numba import njit
from scipy.stats import norm

from firthshot.arrays import Array
from firthshot.jeffreys._design import make_design
from firthshot.jeffreys._kernels.compiled import maximise
from firthshot.jeffreys._kernels.memory import Data
from firthshot.jeffreys._model import Model

SIZES = (128, 192, 256, 384, 512, 1024, 2048)
Row = dict[str, Any]
ESTIMATORS = ("ML", "Firth", "ridge")
COEFFICIENTS = ("intercept", "x1", "x2")
FAR = 15.0  # a maximum likelihood coefficient beyond this is on its way to infinity


@dataclass(frozen=True)
class Truth:
    """A model to simulate: design points (G, p) and true coefficients (J, p)."""

    name: str
    X: Array
    beta: Array
    shown: tuple[int, int]  # the coefficient of the figure

    @property
    def probabilities(self) -> Array:
        """Return the true probabilities at the design points, shape (G, K)."""
        eta = np.column_stack([np.zeros(len(self.X)), self.X @ self.beta.T])
        odds = np.exp(eta)
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def truths() -> list[Truth]:
    """Return the two models."""
    levels = norm.ppf((np.arange(8) + 0.5) / 8)
    X = np.array([[1.0, a, b] for a in levels for b in (0.0, 1.0)])
    return [
        Truth("binary", X, np.array([[-0.5, 1.0, 0.8]]), (0, 1)),
        Truth("multinomial", X, np.array([[0.2, 1.0, 0.5], [-0.3, -0.8, 0.8]]), (0, 1)),
    ]


def information(truth: Truth, N: int) -> Array:
    """Return the Fisher information of N observations, shape (J p, J p)."""
    total = np.zeros((truth.beta.size, truth.beta.size))
    for x, p in zip(truth.X, truth.probabilities[:, 1:], strict=True):
        total = total + np.kron(np.diag(p) - np.outer(p, p), np.outer(x, x))
    return total * N / len(truth.X)


def first_order_bias(truth: Truth) -> Array:
    """Return c with bias of ML = c / N + ...: minus F⁻¹ times the gradient of ½ log det F."""
    step, gradient = 1e-5, np.zeros(truth.beta.size)
    for k in range(truth.beta.size):
        values = []
        for sign in (1, -1):
            moved = truth.beta.ravel().copy()
            moved[k] += sign * step
            there = Truth("", truth.X, moved.reshape(truth.beta.shape), (0, 0))
            values.append(0.5 * np.linalg.slogdet(information(there, 1))[1])
        gradient[k] = (values[0] - values[1]) / (2 * step)
    return -np.linalg.solve(information(truth, 1), gradient)


@njit(nogil=True)
def fit_all(data: Data, work: Any, counts: Array, limit: float) -> Array:
    """Fit every row of ``counts`` (replicates, G K); NaN where ML runs off or nothing converges."""
    q = work.F.shape[0]
    estimates = np.empty((counts.shape[0], q))
    free = np.zeros((0, q))
    for i in range(counts.shape[0]):
        data.w[:] = counts[i]
        theta = np.zeros(q)
        work.A[:] = 0.0  # what it learned of the curvature belongs to another replicate
        decrement = maximise(data, work, theta, free, 1e-9, 60, 0.0)[1]
        estimates[i] = np.nan
        if decrement < 1e-6 and np.abs(theta).max() < limit:
            estimates[i] = theta
    return estimates


def ridge_fits(truth: Truth, counts: Array, start: Array, ridge: float) -> Array:
    """Fit many replicates by Newton's method with a ridge on the slopes, shape (R, J p)."""
    R, G = counts.shape[:2]
    J, p = truth.beta.shape
    damping = np.tile([0.0] + [ridge] * (p - 1), J)
    beta, totals = start, counts.sum(axis=2)
    for _ in range(6):
        eta = np.einsum("gp,rjp->rgj", truth.X, beta.reshape(R, J, p))
        odds = np.exp(np.concatenate([np.zeros((R, G, 1)), eta], axis=2))
        P = (odds / odds.sum(axis=2, keepdims=True))[:, :, 1:]
        residual = counts[:, :, 1:] - totals[:, :, None] * P
        score = np.einsum("rgj,gp->rjp", residual, truth.X).reshape(R, -1) - damping * beta
        M = np.einsum("rgj,jk->rgjk", P, np.eye(J)) - np.einsum("rgj,rgk->rgjk", P, P)
        F = np.einsum("rg,rgjk,gp,gs->rjpks", totals, M, truth.X, truth.X, optimize=True)
        F = F.reshape(R, J * p, J * p) + np.diag(damping)
        beta = beta + np.linalg.solve(F, score[:, :, None])[:, :, 0]
    return beta


def simulate(truth: Truth, N: int, replicates: int, rng: np.random.Generator) -> list[Row]:
    """Fit replicates of N observations by every estimator; return a row per coefficient."""
    G = len(truth.X)
    counts = rng.multinomial(N // G, truth.probabilities, size=(replicates, G))
    residual = counts[:, :, 1:] - (N // G) * truth.probabilities[:, 1:]
    score = np.einsum("rgj,gp->rjp", residual, truth.X).reshape(replicates, -1)
    control = score @ np.linalg.inv(information(truth, N))
    firth = exact_fits(truth, counts, 0.5)
    parts = replicates // 4000 + 1
    pairs = zip(np.array_split(counts, parts), np.array_split(firth, parts), strict=True)
    estimates = {
        "ML": exact_fits(truth, counts, 0.0),
        "Firth": firth,
        "ridge": np.concatenate([ridge_fits(truth, some, start, 1.0) for some, start in pairs]),
    }
    lost = np.isnan(estimates["ML"]).any(axis=1)
    rows = []
    for name, found in estimates.items():
        error = found[~lost] - truth.beta.ravel()
        rows += describe(truth, N, name, error, control[~lost], float(lost.mean()))
    return rows


def exact_fits(truth: Truth, counts: Array, tau: float) -> Array:
    """Fit replicates with τ log det F: maximum likelihood (0) or Firth (½)."""
    G, K = truth.probabilities.shape
    design = make_design(np.repeat(truth.X, K, axis=0))
    data = Data(
        Z=design.Z,
        y=np.tile(np.arange(K), G),
        w=np.zeros(G * K),
        offset=np.zeros((K - 1, G * K)),
        tau=tau,
    )
    model = Model(design, data)
    flat = counts.reshape(len(counts), -1).astype(float)
    theta = fit_all(data, model.make_work(), flat, FAR if tau == 0.0 else np.inf)
    coefficients = theta.reshape(len(counts), K - 1, -1) @ design.T.T
    return np.asarray(coefficients.reshape(len(counts), -1))


def mean_with_controls(values: Array, controls: Array) -> tuple[Array, Array]:
    """Return means and 95 % half widths after regression on controls whose mean is zero."""
    centred = controls - controls.mean(axis=0)
    slopes = np.linalg.lstsq(centred, values - values.mean(axis=0), rcond=None)[0]
    rest = values - controls @ slopes
    return rest.mean(axis=0), 1.959964 * rest.std(axis=0, ddof=1) / np.sqrt(len(values))


def describe(
    truth: Truth, N: int, estimator: str, error: Array, control: Array, lost: float
) -> list[Row]:
    """Return one row per coefficient, with 95 % intervals of N x bias and N x MSE."""
    covariance = np.linalg.inv(information(truth, N))
    a, b = np.triu_indices(control.shape[1])
    controls = np.column_stack([control, control[:, a] * control[:, b] - covariance[a, b]])
    bias, half = mean_with_controls(error, controls)
    mse, mse_half = mean_with_controls(error**2, controls)
    p = truth.X.shape[1]
    return [
        {
            "model": truth.name,
            "contrast": k // p + 1,
            "coefficient": COEFFICIENTS[k % p],
            "true": float(truth.beta.flat[k]),
            "N": N,
            "estimator": estimator,
            "replicates": len(error),
            "separated": lost,
            "N_bias": float(N * bias[k]),
            "N_bias_half_width": float(N * half[k]),
            "N_bias_first_order_ML": float(first_order_bias(truth)[k]),
            "N_variance": float(N * (mse[k] - bias[k] ** 2)),
            "N_mse": float(N * mse[k]),
            "N_mse_half_width": float(N * mse_half[k]),
        }
        for k in range(error.shape[1])
    ]


def simulate_all(replicates: int) -> pl.DataFrame:
    """Simulate both models at every size; numbers have six significant digits."""
    rng = np.random.default_rng(20220512)
    rows = [row for truth in truths() for N in SIZES for row in simulate(truth, N, replicates, rng)]
    return pl.DataFrame(rows).with_columns(pl.col(pl.Float64).round_sig_figs(6))
