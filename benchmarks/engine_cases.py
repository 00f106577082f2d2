"""The cases of the engine bench: the protocol's sizes on synthetic features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from firthshot.banks import Bank, make_bank
from firthshot.engine import Cosine, Linear, Mlp, Penalty, Sgd
from firthshot.episodes import Episodes, sample_episodes

LOGISTIC_GRID = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
COSINE_GRID = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
ROWS_PER_CLASS = 600
FIXED_QUERIES = 60


@dataclass(frozen=True)
class Case:
    """One setting of the protocol: a head, ways, shots and the feature dimension."""

    head: Linear | Cosine | Mlp
    ways: int
    shots: int
    d: int
    n_coefficients: int = 8
    passes: int | None = None  # the published number by default

    @property
    def name(self) -> str:
        """Return a short name, the same in tables and files."""
        return f"{self.head.name} {self.ways}w {self.shots}s d{self.d}"

    @property
    def family(self) -> str:
        """Return what means are taken over: the head and, where it has several, the dimension."""
        return f"linear d{self.d}" if isinstance(self.head, Linear) else self.head.name

    @property
    def n(self) -> int:
        """Return the number of support rows N."""
        return self.ways * self.shots

    @property
    def sgd(self) -> Sgd:
        """Return the published solver settings."""
        published = self.head.published_sgd(self.shots)
        return published if self.passes is None else replace(published, epochs=self.passes)

    @property
    def steps(self) -> int:
        """Return the number of SGD steps of one training."""
        return self.sgd.epochs * -(-self.n // self.sgd.batch_size)

    @property
    def weight_decay(self) -> float:
        """Return the published weight decay."""
        return self.head.published_l2[0]

    @property
    def penalty(self) -> Penalty:
        """Return the published grid, tiled or cut to the number of coefficients."""
        grid = COSINE_GRID if isinstance(self.head, Cosine) else LOGISTIC_GRID
        coefficients = tuple(grid[i % len(grid)] for i in range(self.n_coefficients))
        return Penalty("firth", coefficients, l2=self.weight_decay, l2_kind="weight-decay")

    @property
    def useful_flop(self) -> float:
        """Return the useful FLOP of one classifier.

        2·|batch|·N·C per step; for the 3-layer head 2·|batch|·N·h0 in the first layer and
        6·|batch|·(h0·h1 + h1·C) (forward, and both backward products) in the dense layers.
        """
        rows_visited = self.n * self.sgd.epochs
        if isinstance(self.head, Mlp):
            first, second = self.head.hidden
            return rows_visited * (2.0 * self.n * first + 6 * second * (first + self.ways))
        return rows_visited * 2.0 * self.n * self.ways

    def episodes(self, trials: int) -> Episodes:
        """Sample the first trials: 60 fixed queries per class, or for cosine all the rest."""
        if isinstance(self.head, Cosine):
            return sample_episodes(
                self.bank, "novel", ways=self.ways, shots=self.shots, trials=trials, queries="rest"
            )
        return sample_episodes(
            self.bank,
            "novel",
            ways=self.ways,
            shots=self.shots,
            trials=trials,
            queries=FIXED_QUERIES,
            fixed_query=True,
            first_classes=True,
        )

    @property
    def bank(self) -> Bank:
        """Return the synthetic bank: as many classes as ways, 600 rows each."""
        return synthetic_bank(self.ways, self.d)

    def fields(self) -> dict[str, Any]:
        """Return what identifies the case in a record."""
        return {
            "case": self.name,
            "head": self.head.name,
            "ways": self.ways,
            "shots": self.shots,
            "d": self.d,
            "coefficients": self.n_coefficients,
            "passes": self.sgd.epochs,
            "steps": self.steps,
        }


@lru_cache(maxsize=1)
def synthetic_bank(classes: int, d: int) -> Bank:
    """Return rectified Gaussian features around class means, like pooled ReLU features."""
    generator = np.random.default_rng(0)
    means = generator.standard_normal((classes, 1, d), dtype=np.float32)
    noise = generator.standard_normal((classes, ROWS_PER_CLASS, d), dtype=np.float32)
    features = np.maximum(0.3 * means + noise, 0).reshape(-1, d) / np.float32(np.sqrt(d / 4))
    return make_bank(
        features,
        np.repeat(np.arange(classes), ROWS_PER_CLASS),
        name=f"synthetic-{classes}-{d}",
        classes=[f"class {i}" for i in range(classes)],
        class_splits=["novel"] * classes,
    )


def all_cases() -> list[Case]:
    """Return the cases of the full bench."""
    linear = [Case(Linear(), 16, shots, d) for d in (512, 2048) for shots in (1, 5, 10, 15, 20, 25)]
    cosine = [
        Case(Cosine(), ways, shots, 640) for ways, shots in ((20, 1), (20, 5), (20, 10), (100, 5))
    ]
    return [*linear, *cosine, *(Case(Mlp(), 16, shots, 512) for shots in (5, 25))]


def quick_cases() -> list[Case]:
    """Return the cases of the quick look."""
    linear = [
        Case(Linear(), 16, shots, d) for d, shots in ((512, 1), (512, 5), (512, 25), (2048, 5))
    ]
    return [*linear, Case(Cosine(), 20, 5, 640), Case(Mlp(), 16, 5, 512)]
