"""Rows that several linear heads share: coordinates of W and b, and a metric to descend in.

A point is flat: a part that comes along, then the part that pairs with gradients, which are flat
too: the plain product of the two is the inner product of W and b. Either part holds the logits, or
their share by W, so that they follow without a product with the rows.

The metric P is about the inverse Hessian of the mean loss with L2: (c X'SX + l2)⁻¹ with the shares
S of the rows and c = ½/C, half the curvature of equal probabilities; for an intercept it is 1/c.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, spotrf, spotri

from firthshot.arrays import Array

# What a class's curvature is taken for, times C: 1 at equal probabilities, less at sure ones.
CURVATURE = 0.5
# Beyond so many rows an inverse takes longer than the rest of a fit, and the means of the classes
# stand for it; but not where other directions have on average this share of the curvature of L2.
MANY_ROWS, REST = 128, 0.3


@dataclass(frozen=True)
class Rows(ABC):
    """Rows X (N, d), centred where there is an intercept.

    ``X``, in float32 or float64, decides the precision of everything; ``labels`` and ``shares``
    (N,), of sum one, tell class and weight of the rows; ``known_gram`` gives X X' where it need not
    be computed.
    """

    X: Array
    labels: Array
    intercept: bool
    n_classes: int
    shares: Array
    known_gram: Callable[[], Array] | None = None

    @property
    @abstractmethod
    def size(self) -> int:
        """Return the length of a point."""

    @abstractmethod
    def logits(self, point: Array) -> Array:
        """Return the logits (B, C, N) of points, as a new array."""

    @abstractmethod
    def gradient(self, by_logits: Array, point: Array, l2: Array) -> Array:
        """Return gradients from those by logits, and of ½ l2 ‖W‖² with l2 (B, 1)."""

    @abstractmethod
    def paired(self, point: Array) -> Array:
        """Return the part of points that pairs with gradients."""

    @abstractmethod
    def metric(self, l2: float, c: float | None = None) -> Metric:
        """Return the metric for about this L2 and this curvature, ½/C unless given."""

    @abstractmethod
    def weights(self, point: Array) -> tuple[Array, Array]:
        """Return W (B, C, d) and b (B, C) of points."""


class Metric(ABC):
    """The inverse Hessian, about.

    Attributes
    ----------
    l2, c : what it was made for
    stiffest : a number of which ‖g‖² / (g'Pg) is never more
    """

    def __init__(self, l2: float, c: float, norm: float, intercept: bool) -> None:
        self.l2, self.c = l2, c
        self.stiffest = max(c * norm + l2, c * intercept)

    @abstractmethod
    def times(self, gradient: Array) -> Array:
        """Return the points P g of gradients."""

    def strayed(self, point: Array) -> Array:
        """Return how far logits are from those of W and b, (B,), after steps in this metric."""
        return np.zeros(len(point))


def _inverse(positive: Array) -> Array:
    """Return the inverse of a symmetric matrix that is positive definite."""
    factor, invert = (spotrf, spotri) if positive.dtype == np.float32 else (dpotrf, dpotri)
    half = invert(factor(positive, lower=1)[0], lower=1)[0]
    half[np.diag_indices(len(half))] *= 0.5
    return np.asarray(half + half.T)


class _GramRows(Rows):
    """Few rows: W = ν X. A point is ν, ν X X' and b."""

    @cached_property
    def n(self) -> int:
        """Return the number of logits of a problem."""
        return self.n_classes * len(self.X)

    @property
    def size(self) -> int:
        return 2 * self.n + self.intercept * self.n_classes

    @cached_property
    def gram(self) -> Array:
        """Return X X'."""
        return self.X @ self.X.T if self.known_gram is None else self.known_gram()

    @cached_property
    def weighted_gram(self) -> Array:
        """Return the Gram matrix of the rows times the roots of their shares."""
        roots = np.sqrt(self.shares)
        return np.asarray(roots[:, None] * self.gram * roots)

    def metric(self, l2: float, c: float | None = None) -> Metric:
        c = c or CURVATURE / self.n_classes
        if len(self.X) > MANY_ROWS:
            by_means = _MeansMetric(self, l2, c)
            if by_means.rest <= REST * l2:
                return by_means
        return _InverseMetric(self, l2, c)

    def with_image(self, point: Array) -> Array:
        """Return points of which ν X X' was missing."""
        np.matmul(self.by_class(point), self.gram, out=self.by_class(point[:, self.n :]))
        return point

    def by_class(self, flat: Array) -> Array:
        """Return the first logits or coordinates of flat arrays as (B, C, N)."""
        return flat[:, : self.n].reshape(len(flat), self.n_classes, -1)

    def logits(self, point: Array) -> Array:
        image = self.by_class(point[:, self.n :])
        return image + point[:, 2 * self.n :, None] if self.intercept else image.copy()

    def gradient(self, by_logits: Array, point: Array, l2: Array) -> Array:
        found = np.empty((len(point), self.size - self.n), point.dtype)
        np.multiply(point[:, : self.n], l2, out=found[:, : self.n])
        found[:, : self.n] += by_logits.reshape(len(point), -1)
        if self.intercept:
            np.add.reduce(by_logits, axis=2, out=found[:, self.n :])
        return found

    def paired(self, point: Array) -> Array:
        return point[..., self.n :]

    def weights(self, point: Array) -> tuple[Array, Array]:
        b = np.zeros((len(point), self.n_classes), point.dtype)
        b += point[:, 2 * self.n :] if self.intercept else 0.0
        return self.by_class(point) @ self.X, b


class _InverseMetric(Metric):
    """With P X'g = X'M g it is X P X'g = (g − l2 M g) / (c s): one product gives both."""

    def __init__(self, rows: _GramRows, l2: float, c: float) -> None:
        self.rows, products = rows, rows.weighted_gram
        super().__init__(l2, c, float(np.linalg.norm(products)), rows.intercept)
        products = c * products
        products[np.diag_indices(len(products))] += l2
        roots = np.sqrt(rows.shares)
        self.inverse = roots * _inverse(products) / roots[:, None]
        self.over = 1 / (c * rows.shares)

    def times(self, gradient: Array) -> Array:
        rows = self.rows
        point = np.empty((len(gradient), rows.size), gradient.dtype)
        g, x = rows.by_class(gradient), rows.by_class(point)
        image = rows.by_class(point[:, rows.n :])
        np.matmul(g, self.inverse, out=x)
        np.multiply(x, -self.l2, out=image)
        image += g
        image *= self.over
        np.divide(gradient[:, rows.n :], self.c, out=point[:, 2 * rows.n :])
        return point

    def strayed(self, point: Array) -> Array:
        away = self.rows.with_image(point.copy()) - point
        return np.asarray(np.abs(away).max(axis=1))


class _MeansMetric(Metric):
    """The inverse where nothing but the means of the classes is curved: V (V'AV)⁻¹ V' is A there.

    With A = S^½ X X' S^½ and the weighted means V, c A V (c V'AV)⁻¹ V'A c + l2 has the inverse
    (1 − c A V (l2 V'AV + c V'A A V)⁻¹ V'A) / l2.
    """

    def __init__(self, rows: _GramRows, l2: float, c: float) -> None:
        self.rows, A, roots = rows, rows.weighted_gram, np.sqrt(rows.shares)
        super().__init__(l2, c, float(np.linalg.norm(A)), rows.intercept)
        V = np.zeros((len(A), rows.n_classes), A.dtype)
        V[np.arange(len(A)), rows.labels] = roots
        along = A @ V
        inner, square = V.T @ along, along.T @ along
        self.rest = c * max(0.0, _trace(A) - _trace(_solve(inner, square))) / len(A)
        self.left = along / roots[:, None]
        self.right = _solve(l2 * inner + c * square, (c * roots[:, None] * along).T)

    def times(self, gradient: Array) -> Array:
        rows = self.rows
        point = np.empty((len(gradient), rows.size), gradient.dtype)
        g, x = rows.by_class(gradient), rows.by_class(point)
        np.matmul(g @ self.left, self.right, out=x)
        np.subtract(g, x, out=x)
        x *= 1 / self.l2
        np.divide(gradient[:, rows.n :], self.c, out=point[:, 2 * rows.n :])
        return rows.with_image(point)


def _trace(matrix: Array) -> float:
    return float(np.trace(matrix))


def _solve(positive: Array, right: Array) -> Array:
    """Return positive⁻¹ right, where means of classes may depend on each other."""
    least = 1e-5 * max(_trace(positive) / len(positive), 1e-30)
    return np.linalg.solve(positive + least * np.eye(len(positive), dtype=positive.dtype), right)


class _FeatureRows(Rows):
    """Many rows: a point is the logits, and W and b of every class."""

    @cached_property
    def n(self) -> int:
        """Return the number of logits of a problem."""
        return self.n_classes * len(self.X)

    @property
    def size(self) -> int:
        return self.n + self.n_classes * (int(self.X.shape[1]) + self.intercept)

    @cached_property
    def _features(self) -> tuple[Array, Array]:
        X = self.X
        if self.intercept:
            X = np.column_stack([X, np.ones(len(X), X.dtype)])
        # Both ways: BLAS multiplies a few rows by a transposed matrix much more slowly.
        return X, np.ascontiguousarray(X.T)

    def metric(self, l2: float, c: float | None = None) -> Metric:
        return _FeatureMetric(self, l2, c or CURVATURE / self.n_classes)

    def by_class(self, flat: Array) -> Array:
        """Return flat arrays by class, (B, C, …)."""
        return flat.reshape(len(flat), self.n_classes, -1)

    def point(self, x: Array) -> Array:
        """Return the points of W and b (B, C, d + 1)."""
        parts = [part.reshape(len(x), -1) for part in (_times(x, self._features[1]), x)]
        return np.concatenate(parts, axis=1)

    def logits(self, point: Array) -> Array:
        return self.by_class(point[:, : self.n]).copy()

    def gradient(self, by_logits: Array, point: Array, l2: Array) -> Array:
        found, d = _times(by_logits, self._features[0]), self.X.shape[1]
        found[..., :d] += self.by_class(self.paired(point))[..., :d] * l2[:, None]
        return found.reshape(len(found), -1)

    def paired(self, point: Array) -> Array:
        return point[..., self.n :]

    def weights(self, point: Array) -> tuple[Array, Array]:
        x, d = self.by_class(self.paired(point)), self.X.shape[1]
        return x[..., :d], x[..., d] if self.intercept else np.zeros(x.shape[:2], x.dtype)


class _FeatureMetric(Metric):
    def __init__(self, rows: _FeatureRows, l2: float, c: float) -> None:
        X = np.sqrt(rows.shares)[:, None] * rows.X
        products, n = X.T @ X, X.shape[1]
        super().__init__(l2, c, float(np.linalg.norm(products)), rows.intercept)
        products *= c
        products[np.diag_indices(n)] += l2
        self.rows, width = rows, n + rows.intercept
        self.inverse = np.zeros((width, width), X.dtype)
        self.inverse[:n, :n] = _inverse(products)
        self.inverse[n:, n:] = 1 / c

    def times(self, gradient: Array) -> Array:
        return self.rows.point(_times(self.rows.by_class(gradient), self.inverse))


def shared_rows(
    X: Array, labels: Array, intercept: bool, n_classes: int, shares: Array,
    known_gram: Callable[[], Array] | None = None, *, l2: bool = True,
) -> Rows:  # fmt: skip
    """Return rows X (N, d) in the space where they take the fewest operations.

    Beyond twice as many rows as features, coordinates of the rows would also be too dependent.
    Without L2 nothing holds such coordinates, and X must have independent columns.
    """
    space = _GramRows if l2 and len(X) <= 2 * X.shape[1] else _FeatureRows
    return space(X, labels, intercept, n_classes, np.asarray(shares, X.dtype), known_gram)


def _times(left: Array, right: Array) -> Array:
    """Return left (B, C, m) times right (m, k), as one product."""
    return (left.reshape(-1, left.shape[2]) @ right).reshape(*left.shape[:2], -1)
