"""From a design matrix and labels to the maximum of the penalised log-likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import check_choice
from firthshot.jeffreys._design import Design, make_design, orthonormal_design
from firthshot.jeffreys._kernels import memory, solver_of
from firthshot.jeffreys._kernels.memory import Data, Top, make_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from firthshot.jeffreys._kernels.memory import FloatArray, Work

# Smallest pivot of the information, relative to its diagonal, down to which raw columns serve: it
# leaves nine digits. At twice that a few more fits take the orthonormal basis, and time.
_WELL_CONDITIONED = 1e-7
# In standard errors: half its square, 5e-9, is what the likelihood could still gain; 2e-8 at twice.
STALLED = 1e-4
_FEW_COEFFICIENTS, _FEW_ROWS = 12, 1000  # a climb takes a millisecond at most
CONVENTIONS = ("inverse-information", "augmented")


@dataclass(frozen=True)
class Model:
    """The penalised likelihood of one data set: n rows, p columns, J = K - 1 contrasts."""

    design: Design  # basis of the columns of X, intercept column included
    data: Data  # what the kernels need, in the coordinates θ of the basis

    @property
    def contrasts(self) -> int:
        """Number of classes besides the reference, J."""
        return int(self.data.offset.shape[0])

    @property
    def size(self) -> int:
        """Number of coordinates, q = J r."""
        return self.contrasts * self.design.rank

    def run(self, name: str, data: Data, *arguments: Any) -> Any:
        """Call a function of the core, plain or compiled: the size alone decides."""
        with np.errstate(all="ignore"):  # a climb may try a point that is no number
            return getattr(self._solver, name)(data, *arguments)

    @property
    def _solver(self) -> Any:
        return solver_of(self.data.y.size, self.size)

    @property
    def is_small(self) -> bool:
        """Whether a climb is cheap, so that a few starts more are no matter."""
        return self.size <= _FEW_COEFFICIENTS and self.data.y.size <= _FEW_ROWS

    def is_slow(self, iterations: Any) -> Any:
        """Tell whether climbs took more iterations than where there is one maximum."""
        return iterations > self._solver.SLOW

    def make_work(self) -> Work:
        """Allocate scratch memory for the kernels."""
        return make_work(self.data.Z.shape[1], self.design.rank, self.contrasts)

    @property
    def shift(self) -> float:
        """What the penalised log-likelihood in β has on top of that in θ."""
        return self.data.tau * self.contrasts * self.design.log_scale

    @property
    def X(self) -> FloatArray:
        """The design matrix in the coordinates β, shape (n, p)."""
        return np.asarray((self.design.R.T @ self.data.Z).T)

    def farthest(self, theta: FloatArray) -> FloatArray:
        """Return the largest linear predictor of each ``theta``, shape (..., J r), offsets apart.

        Rounding spoils the likelihood above 1e6.
        """
        Z = self.data.Z
        eta = theta.reshape(*theta.shape[:-1], self.contrasts, len(Z)) @ Z
        return np.asarray(np.abs(eta).max(axis=(-2, -1)))

    def to_theta(self, rows: FloatArray) -> FloatArray:
        """Express linear forms in β, shape (m, J p), as forms in θ, shape (m, J r)."""
        blocks = rows.reshape(len(rows), self.contrasts, -1)
        return np.ascontiguousarray((blocks @ self.design.T).reshape(len(rows), -1))

    def to_beta(self, theta: FloatArray) -> FloatArray:
        """Return the coefficients of least norm for ``theta``, shape (J, p)."""
        return np.asarray(theta.reshape(self.contrasts, -1) @ self.design.T.T)


@dataclass(frozen=True)
class Maximum:
    """A maximum of the penalised log-likelihood, free or restricted."""

    theta: FloatArray  # (J r,)
    penalised_loglik: float  # with the determinant by β, as statistics packages report it
    converged: bool
    reason: str  # how it converged, or why it did not
    n_iter: int
    decrement: float  # length of the next step in standard errors, sqrt(U'B⁻¹U)

    @property
    def reached(self) -> float:
        """The log-likelihood with what the last, untaken step would still gain, U'B⁻¹U / 2."""
        return self.penalised_loglik + 0.5 * self.decrement**2


@dataclass(frozen=True)
class Fit:
    """A free maximum with what inference needs at it."""

    model: Model
    maximum: Maximum
    information: FloatArray  # (J r, J r), Fisher's, in θ
    hat: FloatArray  # (n,), w_i tr(M_i V_i); they sum to J r
    V: FloatArray  # (J, J, n), quadratic forms z_i' (F⁻¹)_{jk} z_i
    P: FloatArray  # (J, n), fitted probabilities of the classes besides the reference
    P0: FloatArray  # (n,), of the reference
    curvature: FloatArray  # (J r, J r), what the solver has learnt of that of the penalty
    tol: float  # standard errors of a next step at which a fit ends
    others: tuple[FloatArray, ...] = ()  # θ of the other maxima met, lower but not far below
    searched: bool = False  # whether such were looked for

    @cached_property
    def beta(self) -> FloatArray:
        """Coefficients, shape (J, p)."""
        return self.model.to_beta(self.maximum.theta)

    @property
    def penalised_loglik(self) -> float:
        """Log-likelihood plus τ log det F."""
        return self.maximum.penalised_loglik

    @cached_property
    def loglik(self) -> float:
        """Log-likelihood without the penalty."""
        data, P = self.model.data, np.concatenate([self.P0[None], self.P])
        return float(data.w @ np.log(P[data.y, np.arange(data.y.size)]))

    @cached_property
    def inverse_information(self) -> FloatArray:
        """F⁻¹ in θ."""
        return invert(self.information)

    @property
    def top(self) -> Top:
        """What restricted fits and profiles start from."""
        return Top(self.maximum.theta, self.inverse_information, self.curvature)

    @cached_property
    def suspect(self) -> bool:
        """Whether several maxima must be suspected, so that one start is not enough."""
        from firthshot.jeffreys._several_maxima import is_suspect  # which maximises with this file

        return is_suspect(self)

    @cached_property
    def draws(self) -> FloatArray:
        """Starts at random, always the same ones."""
        from firthshot.jeffreys._several_maxima import drawn_starts  # as above

        return drawn_starts(self)

    def covariance(self, convention: str = "inverse-information") -> FloatArray:
        """Return the covariance of the coefficients, shape (J p, J p), by name of convention.

        ``inverse-information`` is F⁻¹ (brglm2); ``augmented`` is the inverse information of the
        data augmented by 2 τ h_i pseudo-observations at each row (logistf).
        """
        check_choice("standard_errors", convention, CONVENTIONS)
        inverse = self.inverse_information
        if convention == "augmented" and self.model.data.tau > 0.0:
            data = self.model.data
            augmented = data._replace(w=data.w + 2.0 * data.tau * self.hat, tau=0.0)
            work = self.model.make_work()
            self.model.run("value", augmented, work, self.maximum.theta)
            inverse = invert(work.F)
        T = np.kron(np.eye(self.model.contrasts), self.model.design.T)
        return np.asarray(T @ inverse @ T.T)

    @cached_property
    def estimable(self) -> NDArray[np.bool_]:
        """Tell which coefficients the data determine, shape (J p,)."""
        return np.tile(self.model.design.estimable, self.model.contrasts)

    def standard_errors(self, convention: str = "inverse-information") -> FloatArray:
        """Return the standard errors, shape (J p,); NaN where not estimable."""
        errors = np.sqrt(np.diag(self.covariance(convention)))
        return np.where(self.estimable, errors, np.nan)


def invert(symmetric: FloatArray) -> FloatArray:
    """Invert a symmetric positive definite matrix."""
    from scipy.linalg.lapack import dpotrf, dpotri

    factor, failed = dpotrf(symmetric, lower=1)
    inverse, failed = (factor, failed) if failed else dpotri(factor, lower=1, overwrite_c=1)
    if failed:
        return np.full_like(symmetric, np.nan)
    lower = np.tril(inverse)
    return np.asarray(lower + np.tril(inverse, -1).T)


def make_model(
    X: FloatArray,
    y: NDArray[np.int64],
    classes: int,
    *,
    intercept: bool = False,
    weights: FloatArray | None = None,
    offset: FloatArray | None = None,
    tau: float = 0.5,
) -> Model:
    """Build the model for a design matrix (n, p) and class numbers (n,), 0 the reference.

    A column of ones is put first if ``intercept``; rows of weight zero are left out;
    ``offset`` has shape (n, J).
    """
    n = len(y)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    start = np.zeros((n, classes - 1)) if offset is None else offset
    if weights is not None and not np.all(w > 0.0):
        kept = w > 0.0
        X, y, w, start = X[kept], y[kept], w[kept], start[kept]
    design = make_design(X, intercept)
    data = Data(
        Z=design.Z,
        y=np.ascontiguousarray(y, dtype=np.int64),
        w=np.ascontiguousarray(w),
        offset=np.ascontiguousarray(start.T),
        tau=float(tau),
    )
    return Model(design, data)


def fit(model: Model, *, tol: float = 1e-8, max_iter: int = 100) -> Fit:
    """Maximise the penalised log-likelihood of ``model``.

    Where the columns prove to be nearly dependent the fit starts again in an orthonormal basis,
    and the model of the result is the one in that basis.
    """
    work, theta, free = model.make_work(), _first_guess(model), np.zeros((0, model.size))
    least = 0.0 if model.design.orthonormal else _WELL_CONDITIONED
    ended = model.run("maximise", model.data, work, theta, free, tol, max_iter, least)
    if ended[-1] in (memory.ILL_CONDITIONED, memory.SINGULAR) and not model.design.orthonormal:
        design = orthonormal_design(model.design)
        return fit(Model(design, model.data._replace(Z=design.Z)), tol=tol, max_iter=max_iter)
    maximum = make_maximum(model, theta, ended)
    fitted = Fit(model, maximum, work.F, work.hat, work.V, work.P, work.P0, work.A, tol)
    if not maximum.converged:
        return fitted
    from firthshot.jeffreys._several_maxima import highest  # which maximises with this file

    return highest(fitted, max_iter)


def maximise(
    model: Model,
    work: Work,
    theta: FloatArray,
    tol: float,
    max_iter: int,
    *,
    curvature: FloatArray | None = None,
    constraints: FloatArray | None = None,
) -> Maximum:
    """Run the solver from ``theta``, keeping the values of the linear forms ``constraints``.

    ``curvature``, an estimate of that of the penalty, is zero unless given; ``work.A`` improves it.
    """
    work.A[:] = 0.0 if curvature is None else curvature
    C = np.zeros((0, model.size)) if constraints is None else constraints
    theta = theta.copy()
    ended = model.run("maximise", model.data, work, theta, C, tol, max_iter, 0.0)
    return make_maximum(model, theta, ended)


def make_maximum(model: Model, theta: FloatArray, ended: tuple[float, float, int, int]) -> Maximum:
    """Say how the solver ended; ``ended`` is what it returned."""
    lp, decrement, n_iter, status = ended
    # Rounding can stop the ascent just short of tol; that is convergence to what doubles hold.
    stalled = status == memory.NO_ASCENT and decrement <= STALLED
    converged = status == memory.CONVERGED or stalled
    reason = explain(status, decrement, n_iter, stalled)
    return Maximum(theta, lp + model.shift, converged, reason, n_iter, decrement)


def explain(status: int, decrement: float, n_iter: int, stalled: bool = False) -> str:
    """Say in a sentence how the solver ended."""
    if status == memory.CONVERGED or stalled:
        how = "converged to machine precision" if stalled else "converged"
        return f"{how} in {n_iter} iterations (next step {decrement:.1e} standard errors)"
    if status == memory.TOO_MANY_STEPS:
        return f"not converged after {n_iter} iterations: raise max_iter"
    if status == memory.NO_ASCENT:
        return f"no ascent found from a step of {decrement:.1e} standard errors"
    return "the Fisher information is singular at the start: check weights, offsets and columns"


def _first_guess(model: Model) -> FloatArray:
    """Return the model of intercepts, or the solution itself when rank X = N.

    With rare events zero is far away. Offsets are cancelled as well as the columns can, lest the
    information vanish.
    When the model is saturated log det F = Σ_i log det M_i + const, the paper's KL form, whose
    maximum is p_ij = (w_i [y_i = j] + τ) / (w_i + K τ).
    """
    r, n = model.data.Z.shape
    data, J = model.data, model.contrasts
    if r < n or data.tau == 0.0:
        theta = _intercepts(model)
        if data.offset.any():
            theta += np.linalg.lstsq(data.Z.T, -data.offset.T, rcond=None)[0].T
        return theta.ravel()
    counts = np.full((J + 1, n), data.tau)
    counts[data.y, np.arange(n)] += data.w
    eta = np.log(counts[1:] / counts[0]) - data.offset
    return np.linalg.solve(data.Z.T, eta.T).T.ravel()


def _intercepts(model: Model) -> FloatArray:
    """Return the log odds of the classes where the first column is constant, else zeros."""
    first, theta = model.data.Z[0], np.zeros((model.contrasts, model.design.rank))
    if first.min() == first.max() != 0.0:
        counts = 0.5 + np.bincount(model.data.y, model.data.w, minlength=model.contrasts + 1)
        theta[:, 0] = np.log(counts[1:] / counts[0]) / first[0]
    return theta
