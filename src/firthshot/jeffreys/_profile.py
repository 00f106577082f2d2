"""Profile penalised likelihood: intervals and curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.jeffreys._kernels import memory
from firthshot.jeffreys._model import Fit, Maximum
from firthshot.jeffreys._restricted import crossing, restricted_maxima, side_by_side
from firthshot.jeffreys._tests import HIGHER, HIGHER_BY
from firthshot.progress import ambient_listener

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from firthshot.jeffreys._kernels.memory import FloatArray

_MOST_STEPS = 50  # of one bound; it takes five, and a harder one is searched for otherwise
_ROUNDS = 4  # of following the branch that is highest at a bound to where it crosses the level
_ON_LEVEL = 1e-6  # in log-likelihood: a test at the bound has p = 0.05 to six digits
# In log-likelihood: Brent's rule ends within 1e-8 of a standard error, so a gap is another branch.
_JUMP = 1e-3
_CLOSE = 0.05  # standard errors from a bound, where its branch is met
_BEFORE = 1e-3  # standard errors before a jump
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
    model, rows = fitted.model, list(indices)
    forms = model.to_theta(np.eye(fitted.beta.size)[rows])
    level = fitted.penalised_loglik - model.shift - drop, drop
    bounds, steps, status = model.run(
        "profile_each",
        model.data,
        model.make_work(),
        fitted.top,
        forms,
        level,
        fitted.tol,
        _MOST_STEPS,
    )
    outside = (bounds - fitted.beta.ravel()[rows, None]) * [-1.0, 1.0] > 0.0
    found = (status == memory.CONVERGED) & outside
    doubtful = ~found | model.is_slow(steps) | fitted.suspect
    if doubtful.any():
        # A search that got lost begins again at Wald's bound, on the profile.
        reach = np.sqrt(2.0 * drop) * fitted.standard_errors()[rows, None] * [-1.0, 1.0]
        bounds = np.where(found, bounds, fitted.beta.ravel()[rows, None] + reach)
        _settle(fitted, rows, drop, bounds, doubtful & fitted.estimable[rows, None])
    bounds[~fitted.estimable[rows]] = np.nan
    return np.asarray(bounds)


def _settle(
    fitted: Fit, rows: list[int], drop: float, bounds: FloatArray, doubtful: NDArray[np.bool_]
) -> None:
    """Keep a doubtful bound if a test there is on the level; search for it otherwise."""
    where, some = np.argwhere(doubtful), side_by_side(fitted)
    listener = ambient_listener()
    listener.start(len(where), "bounds of intervals searched")
    for start in range(0, len(where), some):
        places = [(row, end) for row, end in where[start : start + some].tolist()]
        eye = np.eye(fitted.beta.size)[[rows[row] for row, _ in places]]
        values = np.array([[bounds[place]] for place in places])
        maxima = restricted_maxima(fitted, eye[:, None], values)
        for (row, end), there in zip(places, maxima, strict=True):
            line = _Line(fitted, rows[row], 2.0 * end - 1.0)
            bounds[row, end] = line.settled(bounds[row, end], drop, there)
            listener.advance()


class _Line:
    """The profile of one coefficient, and its bounds on one side of the estimate."""

    def __init__(self, fitted: Fit, index: int, side: float = 1.0) -> None:
        self._estimate = float(fitted.beta.flat[index])
        self._unit = side * float(fitted.standard_errors()[index])
        self._top = fitted.penalised_loglik
        self._fitted, self._form = fitted, np.eye(fitted.beta.size)[index]

    def maximum(self, value: float) -> Maximum:
        """Return the restricted maximum at a value."""
        (end,) = restricted_maxima(self._fitted, self._form[None, None], np.array([[value]]))
        return self._checked(end)

    def _checked(self, end: Maximum) -> Maximum:
        if not end.converged or end.reached > self._top + HIGHER_BY:
            raise ArithmeticError(end.reason if not end.converged else HIGHER)
        return end

    def drop(self, value: float) -> float:
        """Return how far the profile falls from its maximum to a value."""
        return self._top - self.maximum(value).reached

    def height(self, value: float) -> float:
        """Return the profile at a value, or NaN where it is not found."""
        if not np.isfinite(value):
            return np.nan
        try:
            return self._top - self.drop(value)
        except ArithmeticError:
            return np.nan

    def settled(self, bound: float, drop: float, there: Maximum | None) -> float:
        """Return the bound if the maximum there lies on the level, else search for one.

        Infinite where the profile never falls to the level, NaN where a restricted fit failed.
        """
        try:
            for _ in range(_ROUNDS):
                lost = there is not None and not there.converged
                if lost or not (bound - self._estimate) * self._unit > 0.0:
                    break
                end = self.maximum(bound) if there is None else self._checked(there)
                if abs(self._top - end.reached - drop) <= _ON_LEVEL:
                    return bound
                bound, there = self._crossing(end, drop), None
            return self._searched(drop)
        except ArithmeticError:
            return np.nan

    def _crossing(self, near: Maximum, drop: float) -> float:
        return crossing(self._fitted, self._form, near, drop, self._unit)

    def _searched(self, drop: float) -> float:
        """Go outwards until the profile has fallen far enough, and halve what lies between.

        Then follow the branch there, or use Brent's rule.
        """
        from scipy.optimize import brentq

        def beyond(distance: float) -> float:
            return self.drop(self._estimate + distance * self._unit) - drop

        near, far = 0.0, 0.5
        while beyond(far) < 0.0:
            near, far = far, far + 1.5 * (far - near)
            if far > _FARTHEST:
                return float(np.sign(self._unit) * np.inf)
        while far - near > _CLOSE:
            middle = 0.5 * (near + far)
            near, far = (middle, far) if beyond(middle) < 0.0 else (near, middle)
        inside = self.maximum(self._estimate + near * self._unit)
        bound = self._crossing(inside, drop)
        if abs(self._top - self.height(bound) - drop) <= _ON_LEVEL:
            return bound
        at = float(brentq(beyond, near, far, xtol=1e-8, rtol=1e-10))
        if abs(beyond(at)) <= _JUMP:
            return self._estimate + at * self._unit
        # A profile that jumps across the level has missed a maximum beyond: follow its branch.
        before = self.maximum(self._estimate + (at - _BEFORE) * self._unit)
        return self._crossing(before, drop)


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
    line = _Line(fitted, index)
    return Profile(
        name=name,
        values=grid,
        loglik=np.array([line.height(value) for value in grid]),
        estimate=estimate,
        maximum=fitted.penalised_loglik,
        interval=(float(interval[0]), float(interval[1])),
        level=level,
        standard_error=error,
    )
