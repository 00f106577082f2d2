"""Profile penalised likelihood: intervals, curves and their pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.files import replacing
from firthshot.jeffreys._kernels import solve
from firthshot.jeffreys._model import Fit, Maximum
from firthshot.jeffreys._separation import INTERCEPT
from firthshot.jeffreys._several_maxima import SLOW
from firthshot.jeffreys._tests import HIGHER, HIGHER_BY, restricted_maximum
from firthshot.progress import ambient_listener

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from firthshot.jeffreys._kernels.memory import FloatArray, Work
    from firthshot.jeffreys.estimator import JeffreysLogisticRegression

_MOST_STEPS = 50  # of one bound; it takes five, and a harder one is searched for otherwise
_RETRIES = 4  # shorter steps outwards where a restricted fit fails: 0.6⁴ is an eighth
# In log-likelihood: Brent's rule ends within 1e-10 of a standard error, so a gap is another branch.
_JUMP = 1e-3
_MOST_PANELS = 24  # of one figure: beyond, they cannot be read
_FARTHEST = 1e4  # in standard errors: beyond, a bound is reported as infinite


@dataclass(frozen=True)
class Profile:
    """Profile penalised log-likelihood of one coefficient.

    Attributes
    ----------
    name : str
    values : ndarray of shape (points,)
    loglik : ndarray of shape (points,)
        Penalised log-likelihood maximised over all other coefficients; NaN where that failed.
    estimate, maximum : float
        Where the curve is highest, and how high.
    interval : tuple of float
        As `profile_intervals` gives it: NaN or infinite where there is no bound.
    level : float
    standard_error : float
        That of the Wald approximation drawn beside the curve.
    """

    name: str
    values: FloatArray
    loglik: FloatArray
    estimate: float
    maximum: float
    interval: tuple[float, float]
    level: float
    standard_error: float


def chi2_quantile(level: float) -> float:
    """Return the quantile of the chi-squared distribution with one degree of freedom."""
    from scipy.special import chdtri

    if not 0.0 < level < 1.0:
        raise FirthshotError(f"level is {level}; give a number between 0 and 1, such as 0.95.")
    return float(chdtri(1, 1.0 - level))


def profile_intervals(fitted: Fit, indices: Sequence[int], confidence: float = 0.95) -> FloatArray:
    """Find where each coefficient's profile falls by half the χ² quantile, shape (m, 2).

    ``indices`` are positions in the coefficients flattened as (J, p). NaN where a bound was not
    found.
    """
    drop = 0.5 * chi2_quantile(confidence)
    model, estimable = fitted.model, fitted.estimable[list(indices)]
    work = model.make_work()
    forms = model.to_theta(np.eye(fitted.beta.size)[list(indices)])
    level = fitted.penalised_loglik - model.shift - drop, drop
    bounds, steps, status = solve.profile_each(
        model.data, work, fitted.top, forms, level, fitted.tol, _MOST_STEPS
    )
    easy = (status == solve.CONVERGED) & (steps <= SLOW) & estimable[:, None]
    easy &= not fitted.suspect
    easy &= (bounds - fitted.beta.ravel()[list(indices), None]) * [-1.0, 1.0] > 0.0
    listener = ambient_listener()
    listener.start(int((~easy).sum()), "bounds of intervals searched")
    for row, end in zip(*np.nonzero(~easy), strict=True):
        bounds[row, end] = np.nan
        if estimable[row]:
            side = 2.0 * end - 1.0
            bounds[row, end] = _search_bound(fitted, work, indices[row], drop, side)
        listener.advance()
    return np.asarray(bounds)


class _NotFoundError(ArithmeticError):
    """A restricted fit failed."""


class _Path:
    """Restricted maxima along one coefficient, each started from its nearest neighbours.

    Following the path from the estimate outwards keeps to the highest branch where the
    restricted likelihood has several maxima.
    """

    def __init__(self, fitted: Fit, work: Work, index: int) -> None:
        self.fitted, self.work = fitted, work
        self.form = np.eye(fitted.beta.size)[[index]]
        self.last = float(fitted.beta.flat[index])
        self.solved = {self.last: fitted.maximum}

    def __call__(self, value: float) -> float:
        """Return the profile at ``value``, the same each time."""
        if value not in self.solved:
            self.solved[value] = self._solve(value)
        self.last = value
        return self.solved[value].penalised_loglik

    def _solve(self, value: float) -> Maximum:
        near = sorted(self.solved, key=lambda other: abs(other - value))[:2]
        origins = [self.solved[other].theta for other in near]
        target = np.array([value])
        found = restricted_maximum(self.fitted, self.work, self.form, target, 200, origins)
        if not found.converged:
            raise _NotFoundError(found.reason)
        if found.penalised_loglik > self.fitted.penalised_loglik + HIGHER_BY:
            raise ArithmeticError(HIGHER)
        return found

    def height(self, value: float) -> float:
        """Return the profile at ``value``, or NaN where it is not found."""
        try:
            return self(value)
        except ArithmeticError:
            return np.nan

    def outwards(self, near: float, step: float) -> float:
        """Return the profile a step away from ``near``, or a shorter one where that fails."""
        for _ in range(_RETRIES):
            try:
                return self(near + step)
            except _NotFoundError:
                step *= 0.6
        return self(near + step)


def _search_bound(fitted: Fit, work: Work, index: int, drop: float, side: float) -> float:
    """Follow the profile outwards until it has fallen far enough, then use Brent's rule.

    Infinite where the profile never falls to the level, NaN where a restricted fit failed.
    """
    from scipy.optimize import brentq

    path = _Path(fitted, work, index)
    error = float(fitted.standard_errors()[index])
    level = fitted.penalised_loglik - drop
    near = float(fitted.beta.flat[index])
    reach = 0.5 * error
    try:
        while path.outwards(near, side * reach) > level:
            near = path.last
            reach *= 1.5
            if reach > _FARTHEST * error:
                return side * np.inf
        ends = sorted((near, path.last))
        bound = float(brentq(lambda v: path(v) - level, *ends, xtol=1e-10 * error, rtol=1e-12))
        # A profile that jumps across the level has missed a maximum.
        return bound if abs(path(bound) - level) <= _JUMP else np.nan
    except ArithmeticError:
        return np.nan


def profile_curve(
    fitted: Fit, index: int, name: str, level: float = 0.95, points: int = 61
) -> Profile:
    """Evaluate the profile of one coefficient on a grid reaching beyond its interval."""
    interval = profile_intervals(fitted, [index], level)[0]
    estimate = float(fitted.beta.flat[index])
    error = float(fitted.standard_errors()[index])
    wald = estimate + 4.0 * error * np.array([-1.0, 1.0])
    lower, upper = np.where(np.isfinite(interval), interval, wald)
    margin = 0.35 * (upper - lower)
    grid = np.linspace(lower - margin, upper + margin, points)
    grid = np.sort(np.append(grid, estimate))
    path = _Path(fitted, fitted.model.make_work(), index)
    outwards = sorted(grid, key=lambda value: abs(value - estimate))
    heights = {value: path.height(value) for value in outwards}
    return Profile(
        name=name,
        values=grid,
        loglik=np.array([heights[value] for value in grid]),
        estimate=estimate,
        maximum=fitted.penalised_loglik,
        interval=(float(interval[0]), float(interval[1])),
        level=level,
        standard_error=error,
    )


def plot_profile(profile: Profile, ax: Any = None, label: str | None = None) -> Any:
    """Draw a profile, the parabola of the Wald approximation, and the interval.

    On new axes unless given; the coefficient is called by its name unless there is a ``label``.
    """
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
    drop = 0.5 * chi2_quantile(profile.level)
    wald = -0.5 * ((profile.values - profile.estimate) / profile.standard_error) ** 2
    ax.plot(profile.values, wald, color="0.65", ls="--", lw=1.2, label="Wald approximation")
    ax.plot(profile.values, profile.loglik - profile.maximum, color="C0", lw=2, label="profile")
    ax.axhline(-drop, color="C3", lw=1, label=f"{100 * profile.level:g}% level")
    for bound in np.array(profile.interval)[np.isfinite(profile.interval)]:
        ax.plot([bound, bound], [-drop, -2.6 * drop], color="C3", lw=1, ls=":")
        ax.text(bound, -2.65 * drop, f"{bound:.3g}", ha="center", va="top", fontsize=9)
    ax.plot([profile.estimate], [0.0], "o", color="C0")
    ax.set_ylim(-3.0 * drop, 0.35 * drop)
    ax.set_xlim(profile.values[0], profile.values[-1])
    ax.set_xlabel(f"coefficient of {label or profile.name}")
    ax.set_ylabel("profile minus maximum")
    middle = float(np.mean(profile.interval))
    middle = middle if np.isfinite(middle) else profile.estimate
    inside = (middle - profile.values[0]) / np.ptp(profile.values)
    ax.legend(frameon=False, fontsize=9, loc="center", bbox_to_anchor=(inside, 0.33))
    return ax


def save_profiles(path: Path, model: JeffreysLogisticRegression, level: float = 0.95) -> None:
    """Draw the profile of every slope that the data determine, in one figure."""
    estimable = np.isfinite(model.bse())
    names = [
        name
        for name, determined in zip(model.parameter_names_, estimable, strict=True)
        if determined and not name.endswith(INTERCEPT)
    ]
    if not names or len(names) > _MOST_PANELS:
        raise FirthshotError(
            f"There are {len(names)} profiles to draw: draw one by one with plot_profile."
        )
    from matplotlib.figure import Figure

    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.4 * rows), layout="constrained")
    for k, name in enumerate(names):
        ax = figure.add_subplot(rows, columns, k + 1)
        model.plot_profile(name, level, ax)
        if k and (legend := ax.get_legend()) is not None:
            legend.remove()
        if k % columns:
            ax.set_ylabel("")
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120, format=path.suffix.lower().removeprefix(".") or "png")
