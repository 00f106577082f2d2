"""Rows that several linear heads share: coordinates of W and b, and a metric to descend in.

A point is the coordinates of W and b, flat, and behind them their image, from which the logits
follow without a product with the rows. A gradient is flat too, and pairs with one part of a point:
the plain product of the two is the inner product of W and b.

The metric P is about the inverse Hessian of the mean loss with L2: (c X'SX + l2)⁻¹ with the shares
S of the rows and c = ½/C, half the curvature of equal probabilities; for an intercept it is 1/c.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, spotrf, spotri

from firthshot.arrays import Array

# What a class's curvature is taken for, times C: 1 at equal probabilities, less at sure ones.
CURVATURE = 0.5


@dataclass(frozen=True)
class Rows:
    """Rows X (N, d), centred where there is an intercept, which is the last coordinate.

    ``X``, in float32 or float64, decides the precision of everything; ``shares`` (N,) of sum one
    weigh the rows; ``known_gram`` gives X X' where it need not be computed.
    """

    X: Array
    intercept: bool
    n_classes: int
    shares: Array
    known_gram: Callable[[], Array] | None = None

    @property
    def width(self) -> int:
        """Return the number of coordinates of a class."""
        raise NotImplementedError

    def point(self, x: Array) -> Array:
        """Return the points of coordinates (B, C, n)."""
        raise NotImplementedError

    def logits(self, point: Array) -> Array:
        """Return the logits (B, C, N) of points, as a new array."""
        raise NotImplementedError

    def gradient(self, by_logits: Array, point: Array, l2: Array) -> Array:
        """Return gradients from those by logits, and of ½ l2 ‖W‖²."""
        raise NotImplementedError

    def paired(self, point: Array) -> Array:
        """Return the part of points that pairs with gradients."""
        raise NotImplementedError

    def metric(self, l2: float, c: float | None = None) -> Metric:
        """Return the metric for about this L2 and this curvature, ½/C unless given."""
        raise NotImplementedError

    def _slopes(self, x: Array) -> Array:
        """Return W (B, C, d) of coordinates without the intercept."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Return the number of all coordinates."""
        return self.n_classes * self.width

    def coordinates(self, point: Array) -> Array:
        """Return the coordinates (B, C, n) of points."""
        return point[:, : self.size].reshape(len(point), self.n_classes, self.width)

    def weights(self, x: Array) -> tuple[Array, Array]:
        """Return W (B, C, d) and b (B, C)."""
        b = x[..., -1] if self.intercept else np.zeros(x.shape[:2], x.dtype)
        return self._slopes(x[..., : self.width - self.intercept]), b


class Metric:
    """The inverse Hessian of a class, about: (c products + l2)⁻¹.

    Attributes
    ----------
    inverse : (n, n)
    stiffest : a number of which ‖g‖² / (g'Pg) is never more
    """

    def __init__(self, rows: Rows, products: Array, l2: float, c: float) -> None:
        self.l2, self.c = l2, c
        self.stiffest = max(c * float(np.linalg.norm(products)) + l2, c * rows.intercept)
        products *= c
        products[np.diag_indices(len(products))] += l2
        self.inverse = _inverse(products)

    def times(self, gradient: Array) -> Array:
        """Return the points P g of gradients."""
        raise NotImplementedError


def _inverse(positive: Array) -> Array:
    """Return the inverse of a symmetric matrix that is positive definite."""
    factor, invert = (spotrf, spotri) if positive.dtype == np.float32 else (dpotrf, dpotri)
    half = invert(factor(positive, lower=1)[0], lower=1)[0]
    half[np.diag_indices(len(half))] *= 0.5
    return np.asarray(half + half.T)


class _GramRows(Rows):
    """Few rows: W = ν X. The image is ν X X', and pairs with gradients by ν and b."""

    @property
    def width(self) -> int:
        return len(self.X) + self.intercept

    @cached_property
    def gram(self) -> Array:
        """Return X X'."""
        return self.X @ self.X.T if self.known_gram is None else self.known_gram()

    def metric(self, l2: float, c: float | None = None) -> Metric:
        return _GramMetric(self, l2, c or CURVATURE / self.n_classes)

    def point(self, x: Array) -> Array:
        n, point = len(self.X), np.empty((len(x), 2, self.n_classes, self.width), self.X.dtype)
        point[:, 0] = x
        np.matmul(point[:, 0, :, :n], self.gram, out=point[:, 1, :, :n])
        point[:, 1, :, n:] = x[..., n:]
        return point.reshape(len(x), -1)

    def logits(self, point: Array) -> Array:
        image = self.paired(point).reshape(-1, self.n_classes, self.width)
        return image[..., :-1] + image[..., -1:] if self.intercept else image.copy()

    def gradient(self, by_logits: Array, point: Array, l2: Array) -> Array:
        found = self.coordinates(point) * l2
        if self.intercept:
            found[..., :-1] += by_logits
            np.add.reduce(by_logits, axis=2, out=found[..., -1])
        else:
            found += by_logits
        return found.reshape(len(found), -1)

    def paired(self, point: Array) -> Array:
        return point[..., self.size :]

    def _slopes(self, x: Array) -> Array:
        return _times(x, self.X)


class _GramMetric(Metric):
    """With P X'g = X'M g it is X P X'g = (g − l2 M g) / (c s): one product gives both."""

    def __init__(self, rows: _GramRows, l2: float, c: float) -> None:
        roots = np.sqrt(rows.shares)
        super().__init__(rows, roots[:, None] * rows.gram * roots, l2, c)
        self.shape = 2, rows.n_classes, rows.width
        self.n = len(rows.X)
        self.inverse *= roots / roots[:, None]
        self.over = 1 / (c * rows.shares)

    def times(self, gradient: Array) -> Array:
        n_problems, n = len(gradient), self.n
        point = np.empty((n_problems, *self.shape), gradient.dtype)
        g, x, image = gradient.reshape(-1, *self.shape[1:]), point[:, 0], point[:, 1]
        x[..., :n] = _times(g[..., :n], self.inverse)
        np.multiply(x[..., :n], -self.l2, out=image[..., :n])
        image[..., :n] += g[..., :n]
        image[..., :n] *= self.over
        point[..., n:] = (g[..., n:] / self.c)[:, None]
        return point.reshape(n_problems, -1)


class _FeatureRows(Rows):
    """Many rows: the coordinates are W and b themselves, the image their logits."""

    @property
    def width(self) -> int:
        return int(self.X.shape[1]) + self.intercept

    @cached_property
    def _features(self) -> tuple[Array, Array]:
        X = self.X
        if self.intercept:
            X = np.column_stack([X, np.ones(len(X), X.dtype)])
        # Both ways: BLAS multiplies a few rows by a transposed matrix much more slowly.
        return X, np.ascontiguousarray(X.T)

    def metric(self, l2: float, c: float | None = None) -> Metric:
        return _FeatureMetric(self, l2, c or CURVATURE / self.n_classes)

    def point(self, x: Array) -> Array:
        x = np.asarray(x, self.X.dtype)
        parts = [part.reshape(len(x), -1) for part in (x, _times(x, self._features[1]))]
        return np.concatenate(parts, axis=1)

    def logits(self, point: Array) -> Array:
        return point[:, self.size :].reshape(len(point), self.n_classes, -1).copy()

    def gradient(self, by_logits: Array, point: Array, l2: Array) -> Array:
        found, n = _times(by_logits, self._features[0]), self.X.shape[1]
        found[..., :n] += self.coordinates(point)[..., :n] * l2
        return found.reshape(len(found), -1)

    def paired(self, point: Array) -> Array:
        return point[..., : self.size]

    def _slopes(self, x: Array) -> Array:
        return x


class _FeatureMetric(Metric):
    def __init__(self, rows: _FeatureRows, l2: float, c: float) -> None:
        X = np.sqrt(rows.shares)[:, None] * rows.X
        super().__init__(rows, X.T @ X, l2, c)
        self.rows, n = rows, X.shape[1]
        wide = np.zeros((rows.width, rows.width), X.dtype)
        wide[:n, :n] = self.inverse
        wide[n:, n:] = 1 / c
        self.inverse = wide

    def times(self, gradient: Array) -> Array:
        g = gradient.reshape(len(gradient), -1, self.rows.width)
        return self.rows.point(_times(g, self.inverse))


def shared_rows(
    X: Array, intercept: bool, n_classes: int, shares: Array,
    known_gram: Callable[[], Array] | None = None,
) -> Rows:  # fmt: skip
    """Return rows X (N, d) in the space where they take the fewest operations.

    Beyond twice as many rows as features, coordinates of the rows would also be too dependent.
    """
    space = _GramRows if len(X) <= 2 * X.shape[1] else _FeatureRows
    return space(X, intercept, n_classes, np.asarray(shares, X.dtype), known_gram)


def _times(left: Array, right: Array) -> Array:
    """Return left (B, C, m) times right (m, k), as one product."""
    return (left.reshape(-1, left.shape[2]) @ right).reshape(*left.shape[:2], -1)
