"""Mean and covariance of every base class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.banks import Bank
from firthshot.errors import BankError, FirthshotError


@dataclass(frozen=True, eq=False, repr=False)
class BaseStatistics:
    """What Distribution Calibration knows of the base classes."""

    means: Array  # (B, d) float32
    covariances: Array  # (B, d, d) float32, with n − 1 in the denominator
    source: str = ""  # name of the bank they come from, "" where they were given as arrays

    def __post_init__(self) -> None:
        means = np.ascontiguousarray(self.means, np.float32)
        covariances = np.ascontiguousarray(self.covariances, np.float32)
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "covariances", covariances)
        if means.ndim != 2 or covariances.shape != (len(means), means.shape[-1], means.shape[-1]):
            raise FirthshotError(
                f"Base means of shape {means.shape} and covariances of shape {covariances.shape} "
                "do not fit together: (B, d) and (B, d, d) are needed."
            )
        if not (np.isfinite(means).all() and np.isfinite(covariances).all()):
            raise FirthshotError(
                f"The base statistics {self.source!r} are not finite; ask the bank's doctor."
            )

    def __repr__(self) -> str:
        return f"<BaseStatistics of {len(self)} classes, d = {self.d}, from {self.source!r}>"

    def __len__(self) -> int:
        return len(self.means)

    def __deepcopy__(self, _memo: dict[int, Any]) -> BaseStatistics:
        """Return itself: it cannot change, and scikit-learn copies parameters."""
        return self

    @property
    def d(self) -> int:
        """Return the number of features."""
        return int(self.means.shape[1])

    @classmethod
    def from_rows(cls, classes: list[Array], source: str = "") -> BaseStatistics:
        """Compute the statistics of base classes given as matrices (n_b, d)."""
        if not classes:
            raise FirthshotError("There are no base classes to compute statistics of.")
        d = classes[0].shape[1]
        means = np.empty((len(classes), d), np.float32)
        covariances = np.empty((len(classes), d, d), np.float32)
        for b, rows in enumerate(classes):
            if len(rows) < 2:
                raise FirthshotError(
                    f"Base class {b} of {source!r} has one row, which has no covariance."
                )
            wide = np.asarray(rows, np.float64)
            means[b] = wide.mean(axis=0)
            wide -= wide.mean(axis=0)
            covariances[b] = wide.T @ wide / (len(wide) - 1)
        return cls(means, covariances, source)


def base_statistics(bank: Bank) -> BaseStatistics:
    """Return mean and covariance of every base class of a bank, of its raw features."""
    if "base" not in bank.splits:
        raise BankError(
            f"Bank {bank.name!r} has no base classes, whose statistics Distribution Calibration "
            "needs: import it with a base split, or name another source bank."
        )
    rows = bank.class_rows("base")
    return BaseStatistics.from_rows([bank.features[each] for each in rows], bank.name)
