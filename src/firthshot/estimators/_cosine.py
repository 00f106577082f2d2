"""The cosine head at its optimum: a convex problem once it is written in the right variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from firthshot.arrays import Array
from firthshot.engine import Cosine
from firthshot.errors import FirthshotError
from firthshot.estimators._columns import offset_columns
from firthshot.estimators._linear import FirthClassifier


@dataclass(kw_only=True, eq=False, repr=False)
class FirthCosineClassifier(FirthClassifier):
    """The paper's cosine head with Firth bias reduction, at its optimum.

    The logits are those of `firthshot.engine.Cosine` and `firthshot.torch.CosineHead`,

        z_k = s · g_k ⟨v_k/‖v_k‖, x/(‖x‖ + 1e-5)⟩,

    with a norm g and a direction v for every class and no intercept. They depend on
    w_k = g_k v_k/‖v_k‖ alone, and any w_k is reached. In w the objective

        Σ_i w_i [ CE(y_i‖p_i) + lam · KL(u‖p_i) ] + (l2 / 2) Σ_k g_k²

    is convex, since g_k = ‖w_k‖: it is that of `FirthClassifier` without intercept on rows of
    length s. So the optimum is found by the same Newton solver, is unique for ``l2 > 0``, and
    depends on no start. The published weight decay also acts on v, whose length does not matter:
    that part has no effect on the optimum. For a mean loss with weight decay c it is
    ``l2 = c · N``.

    The lengths of the rows are lost, which helps where they carry no class. For two classes the L2
    term is (l2 / 2) ‖w_1 - w_0‖², as in `FirthClassifier`.

    Parameters
    ----------
    lam, prior, class_weight, class_prior, calibrate, standardize, max_iter
        As in `FirthClassifier`.
    l2 : float, "scale" or "loo", default="scale"
        The L2 coefficient on the norms g; "scale" as in `FirthClassifier`, for rows of length s.
    scale : float, default=None
        The factor s; by the published rule 2, and 10 above 200 classes. A given ``l2`` counts as
        ``l2 / scale²``; with "scale" the factor does not matter.
    tol : float, default=1e-4
        Norm of the gradient by w, of the objective divided by (1 + lam) Σ w, at the end,
        for rows of length 1.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) for two classes
        w, which acts on rows of length s; for two classes the difference of the two.
    intercept_ : ndarray of zeros of shape (n_classes,), or (1,) for two classes
    directions_, norms_ : ndarray of shape (n_classes, n_features) and (n_classes,)
        v_k/‖v_k‖ and g_k: what to load into a `firthshot.torch.CosineHead`.
    scale_ : float
        The factor s that was used.
    classes_, lam_, l2_, temperature_, n_iter_, converged_, …
        As in `FirthClassifier`.
    """

    fit_intercept: ClassVar[bool] = False  # type: ignore[misc]
    scale: float | None = None
    tol: float = 1e-4

    _length_says_something: ClassVar[bool] = False

    @property
    def scale_(self) -> float:
        """The factor s: given, or by the published rule."""
        return Cosine(self.scale).scale_for(len(self.classes_))

    @property
    def directions_(self) -> Array:
        """Unit vectors v_k/‖v_k‖, (n_classes, n_features); zero where the norm is zero."""
        norms = self.norms_[:, None]
        return np.divide(self._both(), norms, where=norms > 0, out=np.zeros_like(self._both()))

    @property
    def norms_(self) -> Array:
        """The norms g_k, (n_classes,)."""
        return np.asarray(np.linalg.norm(self._both(), axis=1))

    def _both(self) -> Array:
        """Return w of every class, also where there are two."""
        w: Array = self.coef_
        return np.concatenate([-w / 2, w / 2]) if len(w) == 1 else w

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Without an intercept no class wins everywhere, whatever its weight: with class_weight
        # scikit-learn expects that of a classifier on two features unless it says so here.
        tags.classifier_tags.poor_score = True
        return tags

    def _column_faults(self, X: Any) -> list[tuple[Array, str]]:
        far = "is so far from zero that all rows have nearly one direction"
        return [*super()._column_faults(X), (offset_columns(X), far)]

    def _prepare(self, X: Any) -> Any:
        """Return s · x/(‖x‖ + 1e-5) for every row."""
        factors = (self.scale_ / (_lengths(X) + 1e-5)).astype(X.dtype)
        if isinstance(X, np.ndarray):
            return X * factors[:, None]
        return X.multiply(factors[:, None]).tocsr()


def _lengths(X: Any) -> Array:
    """Return the length of every row in float64, or refuse a row whose square overflows."""
    if isinstance(X, np.ndarray):
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    else:
        squares = np.asarray(X.astype(np.float64).power(2).sum(axis=1)).ravel()
    if not np.isfinite(squares).all():
        row = int(np.flatnonzero(~np.isfinite(squares))[0])
        raise FirthshotError(f"Row {row} is too long for its length to be computed: scale it.")
    return np.asarray(np.sqrt(squares))
