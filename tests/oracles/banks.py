"""A bank for tests: the label layout and features, with nothing on disk."""

import numpy as np


class PlainBank:
    """Classes of given sizes, rows sorted by class; features drawn around class means."""

    name = "plain"
    splits = ("novel",)

    def __init__(self, n_classes=8, rows=30, d=12, seed=0, spread=1.0, order=None):
        sizes = [rows] * n_classes if np.isscalar(rows) else list(rows)
        rng = np.random.default_rng(seed)
        labels = np.repeat(np.arange(n_classes), sizes)
        self.labels = labels if order is None else labels[order]
        self.features = spread * rng.normal(size=(n_classes, d))[self.labels]
        self.features = self.features + rng.normal(size=self.features.shape)
        self._names = tuple(f"class-{c}" for c in range(n_classes))

    def classes(self, split):
        return self._names

    def class_rows(self, split):
        return [np.flatnonzero(self.labels == c) for c in range(len(self._names))]
