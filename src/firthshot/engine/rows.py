"""Rows of unit length, gathered from a bank trial by trial, and their nearest others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from firthshot.arrays import Array, round_up
from firthshot.kernels import kernel
from firthshot.kernels.narrow import dots
from firthshot.kernels.vectors import lanes_above, lanes_in, lanes_of, lowest_bit, vfill, vload

_TILE = 20  # rows that stay in the nearest cache while the others pass


class TrialRows(NamedTuple):
    """Rows (T, n) of features (N, d), seen from a centre, and room for those of one trial."""

    features: Any
    wanted: Any
    centre: Any
    root: Any
    here: Any


@dataclass(frozen=True)
class UnitRows:
    """Rows as heads compare them: seen from a centre, by their roots if asked, of unit length.

    The root of a negative value is −√−x. A row of zeros stays.
    """

    centre: Array | None = None
    root: bool = False

    def of(self, features: Array, wanted: Array) -> TrialRows:
        """Return what `take` gathers trial by trial; rows end in whole vectors."""
        d = round_up(features.shape[1], lanes_of(features.dtype))
        centre = np.zeros(features.shape[1]) if self.centre is None else self.centre
        here = np.empty((wanted.shape[1], d), features.dtype)
        return TrialRows(features, wanted, centre.astype(features.dtype), self.root, here)


@kernel(fastmath={"reassoc", "contract"})
def take(rows, t):
    """Write the unit rows of a trial into the room; return whether all are finite."""
    features, wanted, centre, root, out = rows
    finite = True
    for i in range(wanted.shape[1]):
        row, here = features[wanted[t, i]], out[i]
        square = row.dtype.type(0)
        if root:
            for j in range(row.size):
                value = row[j] - centre[j]
                here[j] = np.copysign(np.sqrt(abs(value)), value)
                square += abs(value)
        else:
            for j in range(row.size):
                here[j] = row[j] - centre[j]
                square += here[j] * here[j]
        finite &= np.isfinite(square)
        here[row.size :] = 0
        factor = row.dtype.type(1) / max(np.sqrt(square), row.dtype.type(1e-12))
        for j in range(row.size):
            here[j] *= factor
    return finite


@kernel
def nearest_others(rows, found):
    """Write for every unit row (n, d) the numbers (n, count) of the others with largest cosines.

    The largest comes first, of equal ones the first. A pair is computed once.
    """
    (n, count), lanes = found.shape, lanes_in(rows)
    columns = -(-n // lanes) * lanes
    best, cosines = np.full((n, count), -np.inf, rows.dtype), np.empty((_TILE, columns), rows.dtype)
    least = np.full(columns, -np.inf, rows.dtype)  # of the best of every row, which a value passes
    if not count:
        return
    for start in range(0, n, _TILE):
        end = min(start + _TILE, n)
        dots(rows[start:end], rows, start, n, cosines)
        cosines[:, n:] = -np.inf
        for i in range(start, end):
            first = (i + 1) // lanes * lanes
            cosines[i - start, first : i + 1] = -np.inf
            for q in range(first, columns, lanes):
                values = vload(cosines, (i - start) * columns + q)
                above = lanes_above(values, vload(least, q))
                own = lanes_above(values, vfill(least, least[i]))
                while above:
                    j = q + lowest_bit(above)
                    _insert(cosines[i - start, j], i, best[j], found[j])
                    least[j] = best[j, count - 1]
                    above &= above - 1
                while own:
                    j = q + lowest_bit(own)
                    value = cosines[i - start, j]
                    if value > least[i]:
                        _insert(value, j, best[i], found[i])
                        least[i] = best[i, count - 1]
                    own &= own - 1


@kernel
def _insert(value, number, best, found):
    """Put a number after those whose values are at least as large; the last falls out."""
    at = best.size - 1
    while at > 0 and value > best[at - 1]:
        best[at], found[at] = best[at - 1], found[at - 1]
        at -= 1
    best[at], found[at] = value, number
