"""Rows of unit length, gathered from a bank in one pass, and their nearest others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array
from firthshot.errors import FirthshotError
from firthshot.kernels import kernel


@dataclass(frozen=True)
class UnitRows:
    """Rows as heads compare them: seen from a centre, by their roots if asked, of unit length.

    The root of a negative value is −√−x. A row of zeros stays.
    """

    centre: Array | None = None
    root: bool = False

    def gather(self, features: Array, rows: Array) -> Array:
        """Return rows (…,) of features (n, d) as an array (…, d); refuse what is not finite."""
        d = features.shape[1]
        found = np.empty((rows.size, d), features.dtype)
        centre = np.zeros(d) if self.centre is None else self.centre
        centre = centre.astype(features.dtype)
        if not _gather(features, np.ascontiguousarray(rows).ravel(), centre, self.root, found):
            raise FirthshotError("A trial has features that are not finite.")
        return found.reshape(*rows.shape, d)


@kernel(fastmath={"reassoc", "contract"})
def _gather(features, rows, centre, root, out):
    """Write unit rows; return whether all are finite."""
    finite = True
    for i in range(rows.size):
        row, here = features[rows[i]], out[i]
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
        factor = row.dtype.type(1) / max(np.sqrt(square), row.dtype.type(1e-12))
        for j in range(row.size):
            here[j] *= factor
    return finite


@kernel
def largest_others(values, found):
    """Write the columns of the largest values of every row (n, n) but its own, largest first."""
    for i in range(len(values)):
        row, best = values[i], found[i]
        best[:] = -1
        for j in range(row.size):
            if j == i:
                continue
            at = best.size
            while at > 0 and (best[at - 1] < 0 or row[j] > row[best[at - 1]]):
                at -= 1
            for k in range(best.size - 1, at, -1):
                best[k] = best[k - 1]
            if at < best.size:
                best[at] = j
