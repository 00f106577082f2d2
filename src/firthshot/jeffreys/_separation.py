"""Detect separation, name the variables that cause it, and say what follows from it.

A direction d separates when moving the coefficients along it never lowers the predictor of
the observed class against another, ``(d_{y_i} - d_k)'x_i >= 0`` for all i and k, and raises
some. Then the likelihood has no maximum. The directions form a cone; linear programmes find
which observations it separates, its sparsest member, and which coefficients it can move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.jeffreys._design import make_design, orthonormal_design
from firthshot.jeffreys._model import fit, make_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from firthshot.jeffreys._kernels import FloatArray

INTERCEPT = "(Intercept)"
NO_ESTIMATE = "the maximum-likelihood estimate does not exist."
_TOLERANCE = 1e-6
_SURELY_INSIDE = 1e-6  # fitted probabilities above this prove that an ML maximum was reached
_MOST_PROGRAMMES = 400


@dataclass(frozen=True)
class Separation:
    """What the data do to maximum likelihood.

    Attributes
    ----------
    kind : {"none", "quasi-complete", "complete"}
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
    """

    kind: str
    variables: tuple[str, ...]
    directions: dict[str, str]
    separated: NDArray[np.bool_]
    penalised: bool = True
    rows: int | None = None

    def __bool__(self) -> bool:
        """Tell whether there is separation of either kind."""
        return self.kind != "none"

    def __str__(self) -> str:
        """Explain in a sentence."""
        if not self:
            return "No separation: the maximum likelihood estimate exists."
        rows = f"{int(self.separated.sum())} of {self.rows or self.separated.size} rows"
        infinite = [name for name, way in self.directions.items() if way != "finite"]
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


def detect_separation(
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
    n, p = X.shape
    classes = len(labels) + 1
    names = coefficient_names(columns, labels)
    finite = dict.fromkeys(names, "finite")
    if _likelihood_has_maximum(X, y, classes, weights, offset):
        return Separation("none", (), finite, np.zeros(n, dtype=bool))
    used = np.ones(n, dtype=bool) if weights is None else np.asarray(weights) > 0.0
    kept = orthonormal_design(make_design(X[used])).kept
    D, rows, back = _comparisons(X[used][:, kept], y[used], classes)
    strict = _separable(D)
    separated = np.zeros(n, dtype=bool)
    separated[np.flatnonzero(used)[rows[strict[back]]]] = True
    if not strict.any():
        return Separation("none", (), finite, separated)
    positions = [j * p + k for j in range(classes - 1) for k in kept]
    moves = zip([names[k] for k in positions], _moves(D, strict), strict=True)
    directions = dict.fromkeys(names, "undetermined") | dict(moves)
    sparse = [k % p for k, on in zip(positions, _sparsest(D, strict), strict=True) if on]
    kind = "complete" if strict.all() else "quasi-complete"
    return Separation(kind, _variables(sparse, columns), directions, separated)


def coefficient_names(columns: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Name coefficients by column, and by class too when there is more than one contrast."""
    if len(labels) == 1:
        return list(columns)
    return [f"{label}:{column}" for label in labels for column in columns]


def _likelihood_has_maximum(
    X: FloatArray,
    y: NDArray[np.int64],
    classes: int,
    weights: FloatArray | None,
    offset: FloatArray | None,
) -> bool:
    """Try maximum likelihood itself: reaching an inner maximum is a proof, and cheap."""
    ml = fit(make_model(X, y, classes, weights=weights, offset=offset, tau=0.0), max_iter=40)
    least = min(float(ml.P.min()), float(ml.P0.min()))
    return ml.maximum.converged and least > _SURELY_INSIDE


def _comparisons(X: FloatArray, y: NDArray[np.int64], classes: int) -> tuple[Any, Any, Any]:
    """Return the distinct rows ``(e_y - e_k) ⊗ x``, the data row of each, and the way back."""
    p = X.shape[1]
    scaled = X / np.maximum(np.abs(X).max(axis=0), np.finfo(float).tiny)
    blocks, rows = [], []
    for k in range(classes):
        of = np.flatnonzero(y != k)
        block = np.zeros((len(of), classes, p))
        block[np.arange(len(of)), y[of]] = scaled[of]
        block[:, k] -= scaled[of]
        blocks.append(block[:, 1:].reshape(len(of), -1))
        rows.append(of)
    D, back = np.unique(np.concatenate(blocks), axis=0, return_inverse=True)
    return D, np.concatenate(rows), back.ravel()


def _solve(cost: FloatArray, **programme: Any) -> FloatArray:
    from scipy.optimize import linprog

    solution = linprog(cost, method="highs", **programme)
    if solution.x is None:
        raise FirthshotError(
            f"The linear programme that looks for separation failed ({solution.message}): "
            "rescale columns of very different size."
        )
    return np.asarray(solution.x)


def _separable(D: FloatArray) -> NDArray[np.bool_]:
    """Tell which comparisons some separating direction wins strictly: max Σ s, D d >= s <= 1."""
    m, q = D.shape
    x = _solve(
        np.concatenate([np.zeros(q), -np.ones(m)]),
        A_ub=np.hstack([-D, np.eye(m)]),
        b_ub=np.zeros(m),
        bounds=[(None, None)] * q + [(0.0, 1.0)] * m,
    )
    return np.asarray(x[q:] > 0.5)


def _sparsest(D: FloatArray, strict: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell which coefficients the separating direction of least 1-norm uses."""
    q = D.shape[1]
    signed = np.hstack([D, -D])
    x = _solve(np.ones(2 * q), A_ub=-signed, b_ub=-strict.astype(float), bounds=(0.0, None))
    size = np.abs(x[:q] - x[q:])
    return np.asarray(size > _TOLERANCE * max(1.0, size.max()))


def _moves(D: FloatArray, strict: NDArray[np.bool_]) -> list[str]:
    """Return where the cone of separating directions can move each coefficient."""
    q = D.shape[1]
    if 2 * q > _MOST_PROGRAMMES:
        return ["±Inf" if on else "finite" for on in _sparsest(D, strict)]
    words = {(False, False): "finite", (True, False): "-Inf", (False, True): "+Inf"}
    box = {"A_ub": -D, "b_ub": np.zeros(len(D)), "bounds": (-1.0, 1.0)}
    moves = []
    for j in range(q):
        unit = np.eye(q)[j]
        down = _solve(unit, **box)[j] < -_TOLERANCE
        up = _solve(-unit, **box)[j] > _TOLERANCE
        moves.append(words.get((bool(down), bool(up)), "±Inf"))
    return moves


def _variables(chosen: Sequence[int], columns: Sequence[str]) -> tuple[str, ...]:
    """Name columns once, and the intercept only if nothing else separates."""
    unique = list(dict.fromkeys(columns[k] for k in chosen))
    others = [name for name in unique if name != INTERCEPT]
    return tuple(others or unique)
