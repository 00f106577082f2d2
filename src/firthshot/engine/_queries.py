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

from firthshot.arrays import Array, round_up

_GAP = 64  # rows closer than this are read as one piece
_SHORTEST_PIECE = 16  # below this many rows on average, copying is cheaper
# Logits are formed and scored in parts of this size, which stay in the second-level cache in
# between. Twice as much takes the same time, eight times as much 5 to 10 % longer.
_PART_BYTES = 1 << 19


@dataclass(frozen=True)
class Queries:
    """Rows to score, in pieces (m_i, d); one column of the logits for each, padded to vectors.

    ``scaled``: each row counts divided by its norm + 1e-5, as the cosine head has it.
    """

    pieces: tuple[Array, ...]
    scaled: bool = False

    def __len__(self) -> int:
        return sum(len(piece) for piece in self.pieces)

    @property
    def padded(self) -> int:
        """Return the number of columns of the logits."""
        from firthshot.kernels.vectors import lanes_of

        return round_up(len(self), lanes_of(self.pieces[0].dtype))

    def stack(self) -> Array:
        """Return the rows as one array (Q, d)."""
        rows = np.concatenate(self.pieces) if len(self.pieces) > 1 else self.pieces[0]
        return (
            rows / (np.sqrt(np.einsum("ij,ij->i", rows, rows)) + 1e-5)[:, None]
            if self.scaled
            else rows
        )

    def project(self, weights: Array) -> Array:
        """Return the products of the rows and weights (m, d), (padded, m); padding is zero."""
        from firthshot.kernels.products import pack
        from firthshot.kernels.vectors import lanes_of

        columns = round_up(len(weights), lanes_of(weights.dtype))
        room = np.empty((self.padded, columns), weights.dtype)
        room *= self.multiply(pack(weights), 0, room)[:, None]
        return room[:, : len(weights)]

    def multiply(self, packed: Array, low: int, room: Array) -> Array:
        """Write the products of the rows from ``low`` on; return factors that they still need."""
        from firthshot.kernels.products import multiply

        factors, none = np.ones(len(room), room.dtype), np.empty(0, room.dtype)
        at, high = 0, low + len(room)
        for piece in self.pieces:
            first, last = max(low - at, 0), min(high - at, len(piece))
            if first < last:
                place = slice(at + first - low, at + last - low)
                rows = np.ascontiguousarray(piece[first:last])
                multiply(rows, packed, room[place], factors[place] if self.scaled else none)
            at += len(piece)
        room[max(0, min(high, at) - low) :] = 0
        return factors

    def unit(self) -> Queries:
        """Return the same rows, each divided by its norm + 1e-5."""
        return Queries(self.pieces, scaled=True)


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

    ``left`` (C, L, k) multiplies ``right``, the queries (k = d) or their products (Q + padding, k);
    ``bias`` (C, L) is added where given.
    """

    left: Array
    right: Queries | Array
    bias: Array | None = None

    @property
    def columns(self) -> int:
        """Return Q + padding."""
        return self.right.padded if isinstance(self.right, Queries) else len(self.right)

    def whole(self) -> Array:
        """Return logits (C, L, Q + padding)."""
        return next(self._parts(self.columns))[1]

    def parts(self) -> Iterator[tuple[slice, Array]]:
        """Yield some columns and their logits (C, L, columns), in room that is used again."""
        from firthshot.kernels.vectors import lanes_of

        each = _PART_BYTES // (64 * self.left.shape[0] * self.left.shape[1])
        return self._parts(max(1, each) * lanes_of(self.left.dtype))

    def _parts(self, each: int) -> Iterator[tuple[slice, Array]]:
        """Yield the logits of ``each`` columns at a time."""
        from firthshot.kernels.products import multiply, pack, stand_up
        from firthshot.kernels.vectors import lanes_of

        (n_classes, many, _), dtype = self.left.shape, self.left.dtype
        packed, used = pack(self.left.reshape(n_classes * many, -1)), n_classes * many
        bias = np.zeros(used, dtype) if self.bias is None else self.bias.astype(dtype).ravel()
        each = min(each, self.columns)
        products = np.empty((each, round_up(used, lanes_of(dtype))), dtype)
        room = np.empty(used * each, dtype)
        for low in range(0, self.columns, each):
            high = min(low + each, self.columns)
            mine, factors = products[: high - low], np.ones(high - low, dtype)
            if isinstance(self.right, Queries):
                factors = self.right.multiply(packed, low, mine)
            else:
                multiply(self.right[low:high], packed, mine, np.empty(0, dtype))
            logits = room[: used * (high - low)].reshape(used, -1)
            stand_up(mine, factors, bias, logits)
            yield slice(low, high), logits.reshape(n_classes, many, -1)


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
            both = queries.project(np.concatenate([support, start.T]))
            self.products = np.ascontiguousarray(both)

    def logits(self, a: Array, s: Array, bias: Array) -> Logits:
        """Return the logits for dual variables (N, C·L), s and bias (C·L,)."""
        n_classes = self.start.shape[1]
        each = a.shape[1] // n_classes
        added = bias.reshape(n_classes, each) if bias.any() else None
        if self.products is None:
            weights = a.T @ self.support + (s * np.repeat(self.start, each, axis=1)).T
            return Logits(weights.reshape(n_classes, each, -1), self.queries, added)
        started = np.zeros((n_classes, n_classes, each), a.dtype)
        started[np.arange(n_classes), np.arange(n_classes)] = s.reshape(n_classes, each)
        left = np.concatenate([a, started.reshape(n_classes, -1)])
        return Logits(left.T.reshape(n_classes, each, -1), self.products, added)
