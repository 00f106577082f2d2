"""The rows that are scored, read where they lie, and the cheapest way to their logits.

With "all the rest" as query set a trial scores nearly the whole split; copying its rows would cost
more than training the head. Rows that lie close together in the bank are therefore read in place,
a few unasked ones included; those carry no label and are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array

_GAP = 64  # rows closer than this are read as one piece
_SHORTEST_PIECE = 16  # below this many rows on average, copying is cheaper
# With fewer weights than this, BLAS is faster with the rows on the left, even with a copy of what
# comes out: 10 % at 40, nothing at 120. At twice the value products of 200 take 10 % longer.
_FEW = 128


@dataclass(frozen=True)
class Queries:
    """Rows to score, in pieces (m_i, d); one column of the logits for each, padded to vectors.

    ``factors``, where given, multiply the rows (the cosine head's 1 / norm).
    """

    pieces: tuple[Array, ...]
    factors: Array | None = None

    def __len__(self) -> int:
        return sum(len(piece) for piece in self.pieces)

    @property
    def padded(self) -> int:
        """Return the number of columns of the logits."""
        from firthshot.arrays import round_up
        from firthshot.kernels.vectors import lanes_of

        return round_up(len(self), lanes_of(self.pieces[0].dtype))

    def stack(self) -> Array:
        """Return the rows as one array (Q, d)."""
        rows = np.concatenate(self.pieces) if len(self.pieces) > 1 else self.pieces[0]
        return rows if self.factors is None else rows * self.factors[:, None]

    def project(self, weights: Array) -> Array:
        """Return ``weights`` (m, d) times the rows, shape (m, padded); padding is zero."""
        result = np.empty((len(weights), self.padded), weights.dtype)
        at = 0
        for piece in self.pieces:
            place = result[:, at : at + len(piece)]
            if len(weights) < _FEW:
                place[:] = (piece @ weights.T).T
            else:
                np.matmul(weights, piece.T, out=place)
            at += len(piece)
        if self.factors is not None:
            result[:, :at] *= self.factors
        result[:, at:] = 0
        return result

    def unit(self) -> Queries:
        """Return the same rows, each divided by its norm + 1e-5."""
        squares = [np.einsum("ij,ij->i", piece, piece) for piece in self.pieces]
        return Queries(self.pieces, 1 / (np.sqrt(np.concatenate(squares)) + 1e-5))


def locate_queries(features: Array, rows: Array, labels: Array) -> tuple[Queries, Array, Array]:
    """Return the queries, the label of every column (-1: not asked for) and each query's column."""
    ordered = np.sort(rows)
    breaks = np.flatnonzero(np.diff(ordered) > _GAP) + 1
    lows = ordered[np.concatenate(([0], breaks))]
    highs = ordered[np.concatenate((breaks - 1, [len(rows) - 1]))] + 1
    covered = int((highs - lows).sum())
    if covered > 2 * len(rows) or len(rows) < _SHORTEST_PIECE * len(lows):
        queries, columns = Queries((features[rows],)), np.arange(len(rows))
    else:
        queries = Queries(tuple(features[a:b] for a, b in zip(lows, highs, strict=True)))
        starts = np.concatenate(([0], np.cumsum(highs - lows)[:-1]))
        piece = np.searchsorted(lows, rows, side="right") - 1
        columns = starts[piece] + rows - lows[piece]
    column_labels = np.full(queries.padded, -1, np.int64)
    column_labels[columns] = labels
    return queries, column_labels, columns


class Projector:
    """Logits of the queries for weights W = s W_0 + X'A, by the cheaper of two routes.

    Either through the products of queries and support rows (few rows, many coefficients), or
    through the weights themselves.
    """

    def __init__(self, queries: Queries, support: Array, start: Array, n_coefficients: int) -> None:
        self.queries, self.support, self.start = queries, support, start
        (n, d), c, q = support.shape, start.shape[1], len(queries)
        columns = c * n_coefficients
        through_products = q * (n + c) * (d + columns) < d * columns * (q + n)
        self.products: Array | None = None
        if through_products:
            ones = np.ones((1, queries.padded), support.dtype)
            both = queries.project(np.concatenate([support, start.T]))
            self.products = np.concatenate([both, ones])

    def logits(self, a: Array, s: Array, bias: Array) -> Array:
        """Return logits (C·L, padded) for dual variables (N, C·L), s and bias (C·L,)."""
        n_classes = self.start.shape[1]
        each = a.shape[1] // n_classes
        if self.products is None:
            weights = a.T @ self.support + (s * np.repeat(self.start, each, axis=1)).T
            logits = self.queries.project(weights)
            if bias.any():
                logits += bias[:, None]
            return logits
        started = np.zeros((n_classes, n_classes, each), a.dtype)
        started[np.arange(n_classes), np.arange(n_classes)] = s.reshape(n_classes, each)
        left = np.concatenate([a, started.reshape(n_classes, -1), bias[None, :]])
        return np.asarray(left.T @ self.products)
