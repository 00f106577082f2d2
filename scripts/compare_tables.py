"""Compare the classifiers with LogisticRegression on two small tables of scikit-learn.

Prints the figures of iris and wine in docs/estimators.md: ten rows per class to fit, all others to
test, means over 20 draws.

    python scripts/compare_tables.py
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from firthshot import FirthClassifier, FirthCosineClassifier
from firthshot.errors import ScaleWarning

TABLES = {"iris": load_iris, "wine": load_wine}
HEADS = (LogisticRegression, FirthClassifier, FirthCosineClassifier)
ROWS, DRAWS = 10, 20


def draws(y: Any) -> Iterator[Any]:
    """Yield, for every draw, which rows are fitted: so many of each class."""
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        chosen = [rng.choice(np.flatnonzero(y == k), ROWS, replace=False) for k in np.unique(y)]
        fitted = np.zeros(len(y), bool)
        fitted[np.concatenate(chosen)] = True
        yield fitted


def accuracy(head: Any, X: Any, y: Any, *, standardized: bool) -> float:
    """Return the mean accuracy over the draws; the scale is that of the fitted rows."""
    found = []
    for fitted in draws(y):
        rows = StandardScaler().fit(X[fitted]).transform(X) if standardized else X
        found.append(head().fit(rows[fitted], y[fitted]).score(rows[~fitted], y[~fitted]))
    return float(np.mean(found))


def main() -> None:
    """Print one table per data set."""
    warnings.simplefilter("ignore", ScaleWarning)  # wine as it is has just that
    warnings.simplefilter("ignore", ConvergenceWarning)  # LogisticRegression on wine as it is
    for name, load in TABLES.items():
        X, y = load(return_X_y=True)
        print(f"| {name} | as it is | standardized |\n|---|---:|---:|")
        for head in HEADS:
            raw, scaled = (accuracy(head, X, y, standardized=s) for s in (False, True))
            print(f"| `{head.__name__}()` | {100 * raw:.1f} % | {100 * scaled:.1f} % |")
        print()


if __name__ == "__main__":
    main()
