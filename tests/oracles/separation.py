"""Separation by one dense linear programme over all comparisons: what the fast search must find."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog


def comparisons(X, y, classes):
    """Return the rows ``(e_y - e_k) ⊗ x`` and the data row of each."""
    X = X / np.abs(X).max(axis=0)
    D, rows = [], []
    for i, (x, own) in enumerate(zip(X, y, strict=True)):
        for k in set(range(classes)) - {own}:
            block = np.zeros((classes, len(x)))
            block[own] += x
            block[k] -= x
            D.append(block[1:].ravel())
            rows.append(i)
    return np.array(D), np.array(rows)


def separation(X, y, classes):
    """Return kind, separated rows, and where each coefficient of full-rank columns can move."""
    D, rows = comparisons(X, y, classes)
    m, q = D.shape
    s = linprog(
        np.concatenate([np.zeros(q), -np.ones(m)]),
        A_ub=np.hstack([-D, np.eye(m)]),
        b_ub=np.zeros(m),
        bounds=[(None, None)] * q + [(0.0, 1.0)] * m,
    ).x[q:]
    strict = s > 0.5
    kind = "complete" if strict.all() else "quasi-complete" if strict.any() else "none"
    separated = np.zeros(len(y), dtype=bool)
    separated[rows[strict]] = True
    return kind, separated, [_move(D, j) for j in range(q)]


def _move(D, j):
    unit = np.eye(D.shape[1])[j]
    box = {"A_ub": -D, "b_ub": np.zeros(len(D)), "bounds": (-1.0, 1.0)}
    down, up = (linprog(sign * unit, **box).fun < -1e-6 for sign in (1, -1))
    return {(False, False): "finite", (True, False): "-Inf", (False, True): "+Inf"}.get(
        (bool(down), bool(up)), "±Inf"
    )
