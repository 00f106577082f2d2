"""Detect separation, name the variables that cause it, and say what follows from it.

A direction d separates when moving the coefficients along it never lowers the predictor of
the observed class against another, ``(d_{y_i} - d_k)'x_i >= 0`` for all i and k, and raises
some. Then the likelihood has no maximum. The directions form a cone; linear programmes find
which observations it separates, its sparsest member, and which coefficients it can move.

A comparison (i, k) is one such inequality. The programmes are solved by constraint generation:
each knows some of the comparisons only, its solution is tried on all, those that it violates are
added, and it is solved again until none is violated. That is exact, and needs memory linear in the
number of rows, because the comparisons as a whole are never written down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError, reason
from firthshot.jeffreys._design import make_design, orthonormal_design
from firthshot.jeffreys._model import Fit, Model, fit, make_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from firthshot.jeffreys._kernels.memory import FloatArray

INTERCEPT = "(Intercept)"
NO_ESTIMATE = "the maximum-likelihood estimate does not exist."
UNKNOWN = "unknown"
_SURELY_INSIDE = 1e-6  # fitted probabilities above this prove that an ML maximum was reached
_TOLERANCE = 1e-6  # ten times that of HiGHS; what a programme leaves of a zero lies below it
_FLAT = 1e-8  # what a comparison gains along a direction, against their lengths, if it is zero
_MOST_ROUNDS = 500  # of constraint generation; each adds a comparison, so this is a safeguard
_MOST_ADDED = 500  # comparisons in a round, or twice the coefficients if that is more
_MOST_MOVES = 200  # coefficients whose directions are told one by one, a programme each


@dataclass(frozen=True)
class Separation:
    """What the data do to maximum likelihood.

    Attributes
    ----------
    kind : {"none", "quasi-complete", "complete", "unknown"}
        Unknown if the search failed.
    variables : tuple of str
        The fewest variables (in the sense of the 1-norm) that separate; empty if none do.
    directions : dict of str to str
        For each coefficient where maximum likelihood would send it: ``finite``, ``+Inf``,
        ``-Inf``, ``±Inf`` when the data do not decide the sign, ``undetermined`` for a
        collinear column.
    separated : ndarray of shape (n,)
        Which rows have a class that a separating direction rules out.
    penalised : bool
        Whether the fit at hand has a penalty, which keeps its estimates finite.
    rows : int or None
        Number of rows of positive weight; n if None.
    why : str
        Why the search failed, if it did.
    """

    kind: str
    variables: tuple[str, ...]
    directions: dict[str, str]
    separated: NDArray[np.bool_]
    penalised: bool = True
    rows: int | None = None
    why: str = ""

    @property
    def is_noteworthy(self) -> bool:
        """Whether a table must mention it: there is separation, or the search failed."""
        return self.kind != "none"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, fit for JSON; ``rows`` counts the separated ones."""
        return {
            "kind": self.kind,
            "variables": list(self.variables),
            "directions": self.directions,
            "rows": int(self.separated.sum()),
        }

    def __bool__(self) -> bool:
        """Tell whether there is separation of either kind."""
        return self.kind not in ("none", UNKNOWN)

    def __str__(self) -> str:
        """Explain in a sentence."""
        if self.kind == UNKNOWN:
            return (
                f"Whether the classes are separated is not known: the search failed ({self.why})."
            )
        if not self:
            return "No separation: the maximum likelihood estimate exists."
        rows = f"{int(self.separated.sum())} of {self.rows or self.separated.size} rows"
        infinite = [name for name, way in self.directions.items() if way.endswith("Inf")]
        ways = _listing([f"{name} ({self.directions[name]})" for name in infinite], 6)
        end = "the penalised estimates are finite." if self.penalised else NO_ESTIMATE
        return (
            f"{self.kind.capitalize()} separation: {_listing(self.variables, 6)} "
            f"{'tell' if len(self.variables) != 1 else 'tells'} classes apart without error "
            f"in {rows}, so maximum likelihood would send coefficients to infinity: {ways}; " + end
        )


def _listing(names: Sequence[str], most: int) -> str:
    shown = list(names[:most])
    if len(names) > most:
        return ", ".join(shown) + f" and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def find_separation(
    X: FloatArray,
    y: NDArray[np.int64],
    columns: Sequence[str],
    labels: Sequence[str],
    *,
    weights: FloatArray | None = None,
    offset: FloatArray | None = None,
) -> Separation:
    """Decide whether the rows of ``X`` separate the classes.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Design matrix with its intercept column, if any.
    y : ndarray of shape (n,)
        Class numbers, 0 the reference.
    columns : sequence of str, of length p
    labels : sequence of str, of length K - 1
        Names of the classes besides the reference.
    """
    names = coefficient_names(columns, labels)
    try:
        model = make_model(X, y, len(labels) + 1, weights=weights, offset=offset, tau=0.0)
        return _examine(X, y, columns, names, model, weights)
    except (FirthshotError, MemoryError, RuntimeError, np.linalg.LinAlgError) as error:
        # the fit is worth having without its diagnosis
        directions = dict.fromkeys(names, UNKNOWN)
        return Separation(UNKNOWN, (), directions, np.zeros(len(y), dtype=bool), why=reason(error))


def _examine(
    X: FloatArray, y: NDArray[np.int64], columns: Sequence[str], names: Sequence[str],
    model: Model, weights: FloatArray | None,
) -> Separation:  # fmt: skip
    (n, p), classes = X.shape, model.contrasts + 1
    used = np.ones(n, dtype=bool) if weights is None else np.asarray(weights) > 0.0
    kept = orthonormal_design(make_design(X[used])).kept
    positions = [j * p + k for j in range(classes - 1) for k in kept]
    directions = dict.fromkeys(names, "undetermined")
    directions |= dict.fromkeys([names[k] for k in positions], "finite")
    separated = np.zeros(n, dtype=bool)
    # Reaching an inner maximum of the likelihood itself is a proof, and cheap.
    ml = fit(model, max_iter=40)
    if surely_inside(ml):
        return Separation("none", (), directions, separated)
    first, back = _distinct(X[used][:, kept], y[used])
    rows = np.flatnonzero(used)[first]
    cone = Cone(X[np.ix_(rows, kept)], y[rows], classes)
    if not cone.strict.any():
        return Separation("none", (), directions, separated)
    separated[used] = np.isin(np.arange(len(first)), cone.rows[cone.strict])[back]
    directions |= dict(zip([names[k] for k in positions], cone.moves(), strict=True))
    sparse = [columns[k % p] for k, on in zip(positions, cone.sparsest(), strict=True) if on]
    slopes = [name for name in sparse if name != INTERCEPT]  # which needs no naming beside them
    kind = "complete" if cone.strict.all() else "quasi-complete"
    return Separation(kind, tuple(dict.fromkeys(slopes or sparse)), directions, separated)


def surely_inside(ml: Fit) -> bool:
    """Tell whether a fit without penalty ended at an inner maximum of the likelihood."""
    return ml.maximum.converged and min(ml.P.min(), ml.P0.min()) > _SURELY_INSIDE


def _distinct(X: FloatArray, y: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return where each distinct row with its class stands first, and the way back."""
    whole = np.ascontiguousarray(np.column_stack([X, y]) + 0.0)  # -0.0 is 0.0
    as_bytes = whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))).ravel()
    _, first, back = np.unique(as_bytes, return_index=True, return_inverse=True)
    return first, back.ravel()


def coefficient_names(columns: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Name coefficients by column, and by class too when there is more than one contrast."""
    if len(labels) == 1:
        return list(columns)
    return [f"{label}:{column}" for label in labels for column in columns]


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
