"""Restricted maxima: the one search behind tests, intervals and profiles, so that they agree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from firthshot.jeffreys._kernels import solve
from firthshot.jeffreys._model import Fit, Maximum, maximise, maximise_each
from firthshot.jeffreys._several_maxima import ML_STEPS, SAME, SLOW, STARTS_TOL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firthshot.jeffreys._kernels.memory import FloatArray

_MOST_ITERATIONS = 200  # of a restricted fit; from the full maximum it takes three or four
_MOST_STEPS = 50  # towards a level
_FIRST_STEP, _GROWTH = 0.5, 1.5  # standard errors, and how much longer each next step is
_KEPT, _LOST = 1e-7, "the restricted fit was lost to rounding on a very long step"
_FAR, _TOO_FAR = 1e6, 1e12  # linear predictors: rounding may, or must, spoil the likelihood


class Restriction:
    """The hypothesis ``C β = values`` for some values, with the penalty of the full model."""

    def __init__(self, fitted: Fit, C: FloatArray) -> None:
        self.fitted, self._work = fitted, fitted.model.make_work()
        self._forms = fitted.model.to_theta(C)
        spread = fitted.inverse_information @ self._forms.T
        self._path = np.linalg.solve(self._forms @ spread, spread.T).T  # of quadratic theory
        self._here = self._forms @ fitted.maximum.theta
        self._error = float(np.sqrt((self._forms @ spread)[0, 0]))
        self._nodes = [[(0.0, fitted.maximum.theta)] for _ in range(2)]  # below, and above
        self._shortest = np.linalg.pinv(self._forms)
        self._tol = float(np.sqrt(fitted.tol))  # its error is squared in the log-likelihood

    def maximum(self, values: FloatArray) -> Maximum:
        """Return the restricted maximum, which depends on the values alone.

        The first climb starts from the full maximum, moved to the hypothesis along the path of
        quadratic theory. If it is slow, or several maxima are suspected, others start from the
        other maxima of the full model, from zero and from some way towards maximum likelihood.
        In small models, and where these do not agree, more start from points drawn once and for
        all; where they still do not agree, for a single coefficient, also from maxima on the way
        there and a step beyond.
        """
        ends = self._ends(values, draws=self.fitted.model.is_small)
        if not _agree(ends) and len(values) == 1:
            near = [self._along_path(theta, values) for theta in self._neighbours(values)]
            ends += self._climb_each(near, values)
        return _best(ends)

    def _ends(self, values: FloatArray, *nearby: FloatArray, draws: bool = False) -> list[Maximum]:
        """Return the ends of climbs, some from ``nearby``; without ``draws`` few if these agree."""
        fitted, top = self.fitted, self.fitted.maximum.theta
        starts = [self._along_path(theta, values) for theta in (top, *nearby)]
        ends = []
        if not fitted.suspect:
            ends = [self._climb(starts[0], values), *self._climb_each(starts[1:], values)]
            if ends[0].converged and ends[0].n_iter <= SLOW:
                return ends
            starts = []
        near = [self._nearest(theta, values) for theta in (np.zeros(top.size), top)]
        starts += [near[0], *self._towards_likelihood(near)]
        starts += [self._nearest(other, values) for other in fitted.others]
        drawn = [self._nearest(start, values) for start in fitted.draws]
        if draws:
            return ends + self._climb_each([*starts, *drawn], values)
        ends += self._climb_each(starts, values)
        return ends if _agree(ends) else ends + self._climb_each(drawn, values)

    def _neighbours(self, values: FloatArray) -> list[FloatArray]:
        """Return maxima at fixed distances from the estimate, the last before and the next."""
        gap = float(values[0] - self._here[0])
        nodes = self._nodes[gap > 0.0]
        unit = np.copysign(self._error, gap)
        while nodes[-1][0] < abs(gap) / self._error:
            distance = nodes[-1][0] + _FIRST_STEP * _GROWTH ** (len(nodes) - 1)
            goal = self._here + distance * unit
            nodes.append((distance, _best(self._ends(goal, nodes[-1][1])).theta))
        after = next(k for k, node in enumerate(nodes) if node[0] >= abs(gap) / self._error)
        return [theta for _, theta in nodes[max(0, after - 1) : after + 1]]

    def crossing(self, near: Maximum, level: float, drop: float, side: float) -> float:
        """Return where the branch of a restricted maximum falls to a level, or NaN."""
        fitted, model, theta = self.fitted, self.fitted.model, near.theta.copy()
        self._work.A[:] = fitted.curvature
        level -= model.shift
        start = self._work, theta, self._forms, (level, drop), np.sign(side)
        bound, _, status = model.run("profile_bound", model.data, *start, fitted.tol, _MOST_STEPS)
        return float(bound) if status == solve.CONVERGED else np.nan

    def _along_path(self, theta: FloatArray, values: FloatArray) -> FloatArray:
        return np.asarray(theta - self._path @ (self._forms @ theta - values))

    def _nearest(self, theta: FloatArray, values: FloatArray) -> FloatArray:
        return np.asarray(theta - self._shortest @ (self._forms @ theta - values))

    def _towards_likelihood(self, starts: list[FloatArray]) -> list[FloatArray]:
        model = self.fitted.model
        plain = replace(model, data=model.data._replace(tau=0.0))
        ends = maximise_each(plain, starts, STARTS_TOL, ML_STEPS, self._forms)
        return [end.theta for end in ends]

    def _climb(self, start: FloatArray, values: FloatArray) -> Maximum:
        model, work, curvature = self.fitted.model, self._work, self.fitted.curvature
        options = {"curvature": curvature, "constraints": self._forms}
        found = maximise(model, work, start, self._tol, _MOST_ITERATIONS, **options)
        return self._checked(found, values)

    def _climb_each(self, starts: list[FloatArray], values: FloatArray) -> list[Maximum]:
        ends = maximise_each(self.fitted.model, starts, self._tol, _MOST_ITERATIONS, self._forms)
        return [self._checked(end, values) for end in ends]

    def _checked(self, found: Maximum, values: FloatArray) -> Maximum:
        """Return what was found, not converged if rounding has spoilt it."""
        fitted, gap = self.fitted, np.abs(self._forms @ found.theta - values).max()
        lost = gap > _KEPT * (1.0 + np.abs(values).max())
        # So far out, a likelihood is made of rounding errors.
        above = found.penalised_loglik > fitted.penalised_loglik + _KEPT
        lost = lost or not fitted.model.farthest(found.theta) <= (_FAR if above else _TOO_FAR)
        return replace(found, converged=False, reason=_LOST) if lost else found


def _best(ends: Iterable[Maximum]) -> Maximum:
    return max(ends, key=lambda end: (end.converged, end.reached))


def _agree(ends: Iterable[Maximum]) -> bool:
    reached = [end.reached if end.converged else np.inf for end in ends]
    return max(reached) - min(reached) <= SAME


def restriction(fitted: Fit, C: FloatArray) -> Restriction:
    """Return the restriction by some forms; a fit keeps those whose search may be long."""
    kept: dict[bytes, Restriction] = fitted.__dict__.setdefault("_restrictions", {})
    key = C.tobytes()
    if key not in kept:
        made = Restriction(fitted, C)
        if not fitted.suspect:
            return made
        kept[key] = made
    return kept[key]
