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

from firthshot.errors import FirthshotError, reason
from firthshot.jeffreys._design import make_design, orthonormal_design
from firthshot.jeffreys._model import fit, make_model
from firthshot.jeffreys._separation_cone import Cone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from firthshot.jeffreys._kernels import FloatArray

INTERCEPT = "(Intercept)"
NO_ESTIMATE = "the maximum-likelihood estimate does not exist."
UNKNOWN = "unknown"
_SURELY_INSIDE = 1e-6  # fitted probabilities above this prove that an ML maximum was reached


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
    names = coefficient_names(columns, labels)
    try:
        return _examine(X, y, columns, names, len(labels) + 1, weights, offset)
    except (FirthshotError, MemoryError, RuntimeError, np.linalg.LinAlgError) as error:
        # the fit is worth having without its diagnosis
        directions = dict.fromkeys(names, UNKNOWN)
        return Separation(UNKNOWN, (), directions, np.zeros(len(y), dtype=bool), why=reason(error))


def _examine(
    X: FloatArray,
    y: NDArray[np.int64],
    columns: Sequence[str],
    names: Sequence[str],
    classes: int,
    weights: FloatArray | None,
    offset: FloatArray | None,
) -> Separation:
    n, p = X.shape
    used = np.ones(n, dtype=bool) if weights is None else np.asarray(weights) > 0.0
    kept = orthonormal_design(make_design(X[used])).kept
    positions = [j * p + k for j in range(classes - 1) for k in kept]
    directions = dict.fromkeys(names, "undetermined")
    directions |= dict.fromkeys([names[k] for k in positions], "finite")
    separated = np.zeros(n, dtype=bool)
    # Reaching an inner maximum of the likelihood itself is a proof, and cheap.
    ml = fit(make_model(X, y, classes, weights=weights, offset=offset, tau=0.0), max_iter=40)
    if ml.maximum.converged and min(ml.P.min(), ml.P0.min()) > _SURELY_INSIDE:
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
