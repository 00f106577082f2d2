"""The rows that are scored, read where they lie, and the cheapest way to their logits.

With "all the rest" as query set a trial scores nearly the whole split; copying its rows would cost
more than training the head. Rows that lie close together in the bank are therefore read in place,
a few unasked ones included; those carry no label and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from firthshot.arrays import Array

_GAP = 64  # rows closer than this are read as one piece
_SHORTEST_PIECE = 16  # below this many rows on average, copying is cheaper
# With fewer weights than this, BLAS is faster with the rows on the left, even with a copy of what
# comes out: 10 % at 40, nothing at 120. At twice the value products of 200 take 10 % longer.
_FEW = 128
# Logits are formed and scored in parts of this size, which stay in the cache in between. Half and
# twice as much take the same time; the whole of 60,000 queries takes 15 % longer.
_PART_BYTES = 2 << 20


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
        return self.project_part(weights, 0, np.empty((len(weights), self.padded), weights.dtype))

    def project_part(self, weights: Array, low: int, room: Array) -> Array:
        """Write the columns from ``low`` on into ``room`` (m, columns), and return it."""
        at, high = 0, low + room.shape[1]
        for piece in self.pieces:
            first, last = max(low - at, 0), min(high - at, len(piece))
            if first < last:
                place, rows = room[:, at + first - low : at + last - low], piece[first:last]
                if len(weights) < _FEW:
                    place[:] = (rows @ weights.T).T
                else:
                    np.matmul(weights, rows.T, out=place)
            at += len(piece)
        used = max(0, min(high, at) - low)
        if self.factors is not None:
            room[:, :used] *= self.factors[low : low + used]
        room[:, used:] = 0
        return room

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


@dataclass(frozen=True)
class Logits:
    """Logits of the queries as a product that is formed when it is needed, in parts if large.

    ``left`` (C, L, k) multiplies ``right``, the queries (k = d) or an array (k, Q + padding);
    ``bias`` (C, L) is added where given.
    """

    left: Array
    right: Queries | Array
    bias: Array | None = None

    @property
    def columns(self) -> int:
        """Return Q + padding."""
        return self.right.padded if isinstance(self.right, Queries) else self.right.shape[1]

    def whole(self) -> Array:
        """Return logits (C, L, Q + padding)."""
        return self._part(0, np.empty((*self.left.shape[:2], self.columns), self.left.dtype))

    def parts(self) -> Iterator[tuple[slice, Array]]:
        """Yield some columns and their logits (C, L, columns), in room that is used again."""
        n_classes, many, _ = self.left.shape
        lanes = 64 // self.left.itemsize
        each = max(1, _PART_BYTES // (64 * n_classes * many)) * lanes
        room = np.empty(n_classes * many * min(each, self.columns), self.left.dtype)
        for low in range(0, self.columns, each):
            high = min(low + each, self.columns)
            place = room[: n_classes * many * (high - low)].reshape(n_classes, many, -1)
            yield slice(low, high), self._part(low, place)

    def _part(self, low: int, room: Array) -> Array:
        """Write the logits of the columns from ``low`` on into ``room``, and return it."""
        left, flat = self.left.reshape(-1, self.left.shape[2]), room.reshape(-1, room.shape[2])
        if isinstance(self.right, Queries):
            self.right.project_part(left, low, flat)
        else:
            np.matmul(left, self.right[:, low : low + room.shape[2]], out=flat)
        if self.bias is not None:
            room += self.bias[:, :, None]
        return room


def side_by_side(parts: Sequence[Array | Logits]) -> Array | Logits:
    """Join the logits of several groups of coefficients, (C, L_i, Q + padding) each."""
    products = [part for part in parts if isinstance(part, Logits)]
    if not products:
        return np.concatenate(cast("list[Array]", parts), axis=1)
    left = np.concatenate([part.left for part in products], axis=1)
    biases = [part.bias for part in products if part.bias is not None]
    return Logits(left, products[0].right, np.concatenate(biases, axis=1) if biases else None)


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

    def logits(self, a: Array, s: Array, bias: Array) -> Logits:
        """Return the logits for dual variables (N, C·L), s and bias (C·L,)."""
        n_classes = self.start.shape[1]
        each = a.shape[1] // n_classes
        if self.products is None:
            weights = a.T @ self.support + (s * np.repeat(self.start, each, axis=1)).T
            added = bias.reshape(n_classes, each) if bias.any() else None
            return Logits(weights.reshape(n_classes, each, -1), self.queries, added)
        started = np.zeros((n_classes, n_classes, each), a.dtype)
        started[np.arange(n_classes), np.arange(n_classes)] = s.reshape(n_classes, each)
        left = np.concatenate([a, started.reshape(n_classes, -1), bias[None, :]])
        return Logits(left.T.reshape(n_classes, each, -1), self.products)
