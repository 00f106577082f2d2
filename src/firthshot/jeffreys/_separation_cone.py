"""The cone of separating directions, by linear programmes on few of its rows.

A direction d (one column of coefficients per class besides the reference) is in the cone when
``x_i'(d_{y_i} - d_k) >= 0`` for all rows i and classes k. Each programme knows some of these
comparisons only; its solution is tried on all of them, those that it fails are added, and it is
solved again until none fails. That is exact, and needs memory linear in the number of rows,
because the comparisons themselves are never written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from firthshot.jeffreys._kernels import FloatArray

_TOLERANCE = 1e-6
_FLAT = 1e-8  # what a comparison gains along a direction, against their lengths, if it is zero
_MOST_ROUNDS = 500
_MOST_ADDED = 500
_MOST_MOVES = 200


class Cone:
    """Directions that never lower the predictor of the observed class.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Rows with columns of full rank, each row and class once.
    y : ndarray of shape (n,)
        Class numbers, 0 the reference.
    classes : int
    """

    def __init__(self, X: FloatArray, y: NDArray[np.int64], classes: int) -> None:
        self._X = X / np.maximum(np.abs(X).max(axis=0), np.finfo(float).tiny)
        self._y, self._classes = y, classes
        self.q = X.shape[1] * (classes - 1)
        of_others = np.arange(classes)[None, :] != y[:, None]
        self._places = np.flatnonzero(of_others)  # of comparisons, in the table of row and class
        self._lengths = np.linalg.norm(self._X, axis=1)[self.rows]
        rng = np.random.default_rng(0)
        size = min(len(self._places), max(20 * self.q, _MOST_ADDED))
        self._known = rng.choice(len(self._places), size, replace=False)
        self._rng = rng
        self.strict, self.direction, self._basis = self._separable()

    @property
    def rows(self) -> NDArray[np.int64]:
        """Return the row of each comparison."""
        return self._places // self._classes

    def _gains(self, d: FloatArray) -> FloatArray:
        """Return what each comparison gains along a direction."""
        scores = np.zeros((len(self._y), self._classes))
        scores[:, 1:] = self._X @ d.reshape(self._classes - 1, -1).T
        observed = scores[np.arange(len(self._y)), self._y]
        return np.asarray((observed[:, None] - scores).ravel()[self._places])

    def _written(self, which: NDArray[np.int64]) -> FloatArray:
        """Return some comparisons as rows ``(e_y - e_k) ⊗ x``."""
        rows, k = np.divmod(self._places[which], self._classes)
        made = np.zeros((len(which), self._classes, self._X.shape[1]))
        made[np.arange(len(which)), self._y[rows]] = self._X[rows]
        made[np.arange(len(which)), k] -= self._X[rows]
        return made[:, 1:].reshape(len(which), -1)

    def _grow(self, gains: FloatArray, open_: NDArray[np.bool_]) -> bool:
        """Add open comparisons, the worst and some at random; tell whether there were any."""
        found = np.flatnonzero(open_)
        if not len(found):
            return False
        most = max(_MOST_ADDED, 2 * self.q)
        if len(found) > most:
            worst = found[np.argpartition(gains[found], most // 2)[: most // 2]]
            found = np.union1d(worst, self._rng.choice(found, most // 2, replace=False))
        grown = np.union1d(self._known, found)
        if len(grown) == len(self._known):
            raise FirthshotError(
                "The linear programme that looks for separation does not settle: "
                "rescale columns of very different size."
            )
        self._known = grown
        return True

    def _separable(self) -> tuple[NDArray[np.bool_], FloatArray, FloatArray]:
        """Find the comparisons that some direction of the cone wins strictly.

        Of the known comparisons those are found by max Σ s, D d >= s, 0 <= s <= 1. Another one
        is lost for good when it is a combination of known ones that are, or else decided by d.
        """
        for _ in range(_MOST_ROUNDS):
            D = self._written(self._known)
            d, s = _most_separated(D)
            basis = _complement(D[s <= 0.5], self.q)
            gains = self._gains(d)
            along = self._gains(basis @ self._rng.normal(size=basis.shape[1]))
            flat = np.abs(along) <= _FLAT * self._lengths
            flat[self._known] = s <= 0.5
            decided = flat | (gains > 0.5)
            decided[self._known] = True
            if not self._grow(gains, ~decided):
                return ~flat, d, basis
        raise FirthshotError("The search for separation took too many linear programmes.")

    def _least(self, solve: Callable[[FloatArray], FloatArray], bound: Any) -> FloatArray:
        """Return a programme's solution on the comparisons that matter, right for all of them."""
        for _ in range(_MOST_ROUNDS):
            d = solve(self._written(self._known))
            if not d.any():
                return d
            gains = self._gains(d) - bound
            failed = gains < -_TOLERANCE
            failed[self._known] = False
            if not self._grow(gains, failed):
                return d
        raise FirthshotError("The search for separation took too many linear programmes.")

    def sparsest(self) -> NDArray[np.bool_]:
        """Tell which coefficients the separating direction of least 1-norm uses."""
        bound = self.strict.astype(float)

        def solve(D: FloatArray) -> FloatArray:
            x = solved(
                np.ones(2 * self.q),
                A_ub=np.hstack([-D, D]),
                b_ub=-bound[self._known],
                bounds=(0.0, None),
            )
            return x[: self.q] - x[self.q :]

        size = np.abs(self._least(solve, bound))
        return np.asarray(size > _TOLERANCE * max(1.0, size.max()))

    def moves(self) -> list[str]:
        """Return where the cone can move each coefficient."""
        if self.q > _MOST_MOVES:
            return ["±Inf" if on else "finite" for on in self.sparsest()]
        return [self._move(j) for j in range(self.q)]

    def _move(self, j: int) -> str:
        """Return where the cone can move one coefficient.

        The direction found is inside the cone, as every comparison that can be won is. So the
        coefficient can go where that direction goes. It can go the other way unless going ahead
        is a non-negative combination of the comparisons; what least squares then leave over is
        a direction of the cone that goes the other way.
        """
        from scipy.optimize import nnls

        if np.abs(self._basis[j]).max(initial=0.0) <= _FLAT:
            return "finite"
        ahead = np.sign(self.direction[j]) * np.eye(self.q)[j]
        if not ahead.any():
            return "±Inf"

        def solve(D: FloatArray) -> FloatArray:
            combination, left = nnls(D.T, ahead)
            back = D.T @ combination - ahead
            return np.asarray(back / np.abs(back).max() if left > _TOLERANCE else 0.0 * back)

        if self._least(solve, 0.0).any():
            return "±Inf"
        return "+Inf" if ahead[j] > 0 else "-Inf"


def solved(cost: FloatArray, **programme: Any) -> FloatArray:
    """Return the solution of a linear programme."""
    from scipy.optimize import linprog

    solution = linprog(cost, method="highs", **programme)
    if solution.x is None:
        raise FirthshotError(
            f"The linear programme that looks for separation failed ({solution.message}): "
            "rescale columns of very different size."
        )
    return np.asarray(solution.x)


def _most_separated(D: FloatArray) -> tuple[FloatArray, FloatArray]:
    from scipy import sparse

    m, q = D.shape
    x = solved(
        np.concatenate([np.zeros(q), -np.ones(m)]),
        A_ub=sparse.hstack([sparse.csr_array(-D), sparse.eye_array(m)], format="csc"),
        b_ub=np.zeros(m),
        bounds=[(None, None)] * q + [(0.0, 1.0)] * m,
    )
    return x[:q], x[q:]


def _complement(D: FloatArray, q: int) -> FloatArray:
    """Return an orthonormal basis of the directions along which rows gain nothing."""
    if not len(D):
        return np.eye(q)
    _, sizes, right = np.linalg.svd(D, full_matrices=True)
    return np.asarray(right[int((sizes > _FLAT * max(sizes[0], 1.0)).sum()) :].T)
