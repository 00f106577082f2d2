"""The 3-layer head, trained on the whole support set at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from firthshot.arrays import Array
from firthshot.errors import FirthshotError
from firthshot.estimators._base import LAM_GRID, Grid, HeadEstimator
from firthshot.estimators._full_batch import forward, layers_of, minimise, xavier_start
from firthshot.estimators._linear import DEFAULT_LAM
from firthshot.estimators._optimum import FittedHead
from firthshot.estimators._saving import Shapes
from firthshot.estimators._support import Candidates, Support

# λ as for one layer. l2 by a small probe on base classes of the embedded bank (5 and 20 ways, 1 and
# 5 shots); without any penalty this head is lost at one shot.
DEFAULT_L2: float | str = 0.1
L2_GRID, L2_FALLBACK = (0.001, 0.01, 0.03, 0.1, 0.3), 0.1
ONE_BY_ONE, FOLDS = 10, 5  # rows that are left out singly; folds of more


@dataclass(kw_only=True, eq=False, repr=False)
class FirthMLPClassifier(HeadEstimator):
    """A small ReLU network with Firth bias reduction, trained to a tolerance.

    The layers are those of the paper, features → 100 → 50 → classes. The objective is

        Σ_i w_i [ CE(y_i‖p_i) + lam · KL(u‖p_i) ] + (l2 / 2) Σ_layers ‖W‖²

    with free biases, where the first W acts on rows less their mean, in units of their spread (the
    root of their mean squared distance from it), so that nothing depends on the scale or the origin
    of the features; ``coefs_`` and ``intercepts_`` act on rows as they are. It is not convex: the
    result is the local optimum that L-BFGS reaches from a Xavier start drawn from ``random_state``,
    the same in every run and, since rows are first put into one order and equal ones joined, for
    every order of the rows. Columns that do not vary have no part in it, nor has the part of the
    first layer's start outside the span of the rows: no row sees it, and it would only add noise
    to new ones.

    Parameters
    ----------
    lam : float, "shots", "theory" or "loo", default="shots"
        As in `FirthClassifier`; for this head "theory" is a rule of thumb. "loo" leaves rows out
        one by one up to 10 of them and in 5 folds above, and every such head starts afresh:
        started from the network that knows the rows it would not forget them. That is 48 fits.
    l2 : float or "loo", default=0.1
        L2 on the weights of all layers. Above some value all weights go to zero, which is much
        lower than for one layer.
    hidden : tuple of int, default=(100, 50)
        Widths of the hidden layers, one or more.
    prior, class_weight, class_prior, calibrate, standardize
        As in `FirthClassifier`; to calibrate costs up to five more fits.
    tol : float, default=1e-3
        The descent ends when the largest entry of the gradient, of the objective divided by
        (1 + lam) Σ w, is at most this; or, at a kink, when ten steps together lower the objective
        (above its value for perfect predictions and no weights) by less than tol of itself.
    max_iter : int, default=1000
    random_state : int, RandomState instance or None, default=0
        Determines the start.

    Attributes
    ----------
    coefs_, intercepts_ : list of ndarray
        Weights (inputs, outputs) and biases (outputs,) of the layers, as in scikit-learn.
    classes_, lam_, l2_, lam_source_, l2_source_, loo_path_, temperature_, n_iter_, converged_, …
        As in `FirthClassifier`.
    """

    lam: float | str = DEFAULT_LAM
    l2: float | str = DEFAULT_L2
    prior: Any = "uniform"
    hidden: tuple[int, ...] = (100, 50)
    class_weight: Any = "balanced"
    class_prior: Any = None
    calibrate: bool = True
    standardize: bool = False
    tol: float = 1e-3
    max_iter: int = 1000
    random_state: Any = 0

    _accepts_sparse: ClassVar[bool] = True
    fit_intercept: ClassVar[bool] = True  # type: ignore[misc]  # every layer has a bias

    @property
    def coefs_(self) -> list[Array]:
        """Weights of the layers, (inputs, outputs) each."""
        return [W for W, _ in _layers(self._fitted_parameters())]

    @property
    def intercepts_(self) -> list[Array]:
        """Biases of the layers."""
        return [b for _, b in _layers(self._fitted_parameters())]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.l2 == "scale":
            raise FirthshotError(
                "l2 is 'scale', which is for heads of one layer: give a number or 'loo'."
            )
        widths = self.hidden if isinstance(self.hidden, tuple | list) else ()
        whole = [isinstance(width, int | np.integer) and width >= 1 for width in widths]
        if not whole or not all(whole):
            raise FirthshotError(
                f"hidden is {self.hidden!r}; give the widths of the hidden layers, as in (100, 50)."
            )

    def _fit_path(self, support: Support, path: Candidates) -> list[FittedHead]:
        """Return heads that all start alike: they are as if fitted one by one."""
        X, columns = varying_columns(support)
        merged = merge_equal_rows(replace(support, X=X))
        away, centre = merged.centred
        unit = _coarse(float(np.sqrt(merged.moments.spread)))
        rows, basis = rows_in_their_span(away / unit, X.dtype)
        found = []
        for lam, l2 in path:
            layers, n_iter, problem = self._descend(replace(merged, X=rows), basis, lam, l2)
            W, b = layers[0]  # on coordinates; it is to act on the rows as they are
            varying, whole = basis @ W / unit, np.zeros((support.X.shape[1], W.shape[1]))
            whole[columns] = varying
            layers[0] = whole, b - centre @ varying
            found.append(FittedHead(_parameters(layers, support.X.dtype), n_iter, problem))
        return found

    def _grid(self, name: str, support: Support) -> tuple[Grid, float]:
        return (L2_GRID, L2_FALLBACK) if name == "l2" else super()._grid(name, support)

    def _descend(
        self, support: Support, basis: Array, lam: float, l2: float
    ) -> tuple[list[tuple[Array, Array]], int, str]:
        """Return layers fitted to rows in a basis of their span, iterations, and what is wrong.

        The first layer's start is drawn for all columns and then projected on the span.
        """
        widths = [len(basis), *self.hidden, support.n_classes]
        theta = xavier_start(widths, check_random_state(self.random_state))
        first, size = layers_of(theta, widths)[0][0], len(basis) * self.hidden[0]
        widths[0] = basis.shape[1]
        total = support.weights.sum()
        found = minimise(
            np.concatenate([(basis.T @ first).ravel(), theta[size:]]),
            widths,
            support.X,
            (support.one_hot() + lam * support.prior) * (support.weights / total)[:, None],
            l2 / total,
            tolerance=self.tol * (1 + lam),
            stall=self.tol,
            max_iterations=self.max_iter,
        )
        layers = layers_of(found.x, widths)
        problem = _problem(forward(support.X, layers)[-1], lam, found.success)
        return layers, int(found.nit), problem

    def _logits(self, X: Array, parameters: dict[str, Array]) -> Array:
        return forward(X, _layers(parameters))[-1]

    def _shapes(self, d: int, n_classes: int) -> Shapes:
        shapes: Shapes = {}
        for layer, (inputs, outputs) in enumerate(pairwise([d, *self.hidden, n_classes])):
            shapes |= {f"coef_{layer}_": (inputs, outputs), f"intercept_{layer}_": (outputs,)}
        return shapes

    def _left_out_logits(
        self, support: Support, rows: Array, path: Candidates, _fits: list[FittedHead]
    ) -> Array:
        n_folds = len(rows) if len(rows) <= ONE_BY_ONE else FOLDS
        parts = [rows[fold] for fold in folds(support.labels[rows], n_folds)]
        back = np.argsort(np.concatenate(parts))
        return self._refitted_logits(support, parts, path)[:, back]


def nets_of_search(lam: object, l2: object) -> tuple[int, int]:
    """Return how many candidates "loo" has, and how many nets of each leave rows out, at most."""
    return (len(LAM_GRID) if lam == "loo" else 1) * (len(L2_GRID) if l2 == "loo" else 1), FOLDS


def folds(labels: Array, n_folds: int) -> list[Array]:
    """Deal the positions of labels, class by class, to as many folds as there are, or n_folds.

    A class of two or more is never all in one fold.
    """
    order = np.argsort(labels, kind="stable")
    n = min(n_folds, len(labels))
    return [order[first::n] for first in range(n)]


def merge_equal_rows(support: Support) -> Support:
    """Return a support set in a canonical order, equal rows of one class joined by their weights.

    Floating-point sums depend on the order of their terms, and a descent on an objective that is
    not convex may carry such a difference anywhere.
    """
    keyed = np.column_stack([support.labels, support.X])
    _, first, group = np.unique(keyed, axis=0, return_index=True, return_inverse=True)
    weights = np.bincount(group.ravel(), support.weights)
    return replace(support, X=support.X[first], labels=support.labels[first], weights=weights)


def _coarse(value: float) -> float:
    """Return a number rounded to 24 bits, whatever the order in which it was summed."""
    share, exponent = np.frexp(value)
    return float(np.ldexp(np.round(np.ldexp(share, 24)), exponent - 24))


def varying_columns(support: Support) -> tuple[Array, Array]:
    """Return the columns that vary, at least one, as an ordinary array, and which they are.

    A sparse table and an ordinary one of the same numbers give the same array.
    """
    dense, occurring = support.dense
    varying = np.flatnonzero((dense != dense[0]).any(axis=0))
    if not len(varying):
        varying = np.zeros(1, np.intp)
    which = varying if occurring is None else occurring[varying]
    return np.ascontiguousarray(dense[:, varying]), which


def rows_in_their_span(X: Array, dtype: Any) -> tuple[Array, Array]:
    """Return the rows (N, r) in an orthonormal basis (d, r) of their span, in float64.

    ``dtype`` is that of the features: what is smaller than its rounding is no direction.
    """
    left, sizes, right = np.linalg.svd(np.asarray(X, np.float64), full_matrices=False)
    r = max(1, int((sizes > max(X.shape) * np.finfo(dtype).eps * sizes[0]).sum()))
    return left[:, :r] * sizes[:r], np.ascontiguousarray(right[:r].T)


def _parameters(layers: list[tuple[Array, Array]], dtype: Any) -> dict[str, Array]:
    """Name the arrays of the layers by the attributes that will hold them."""
    named = {}
    for number, (W, b) in enumerate(layers):
        named[f"coef_{number}_"] = np.array(W, dtype, order="C")
        named[f"intercept_{number}_"] = np.array(b, dtype)
    return named


def _layers(parameters: dict[str, Array]) -> list[tuple[Array, Array]]:
    return [
        (parameters[f"coef_{number}_"], parameters[f"intercept_{number}_"])
        for number in range(len(parameters) // 2)
    ]


def _problem(logits: Array, lam: float, converged: bool) -> str:
    """Say what is wrong with a fit, or nothing."""
    if not np.isfinite(logits).all():
        return "The descent ran off to infinity: scale the features."
    if not converged:
        return "L-BFGS stopped before reaching tol: raise max_iter, or scale the features."
    n_classes = logits.shape[1]
    gap = min(1.0, np.log1p(n_classes / lam)) if lam else 1.0  # what a free network would reach
    if np.ptp(logits, axis=0).max() < 0.01 * gap:
        return (
            "Every row gets the same logits: lower l2, widen hidden or change random_state, unless "
            "the rows are all alike."
        )
    return ""
