"""Mean and covariance of every base class, computed once per bank and kept beside it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.banks import Bank
from firthshot.errors import BankError, FirthshotError
from firthshot.files import replacing, user_cache

_FORMAT = "1"
_PACKAGE = Path(__file__).parents[1]


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
    """Return mean and covariance of every base class of a bank, of its raw features.

    Kept as ``NAME-HASH.stats`` (safetensors, float32) beside the bank's file, or in the user's
    cache folder (``FIRTHSHOT_CACHE``) where that is not writable or inside the package; the hash is
    of the bank's content. A bank in memory has no such file.
    """
    if "base" not in bank.splits:
        raise BankError(
            f"Bank {bank.name!r} has no base classes, whose statistics Distribution Calibration "
            "needs: import it with a base split, or name another source bank."
        )
    for path in _places(bank):
        if (found := _read(path, bank)) is not None:
            return found
    made = BaseStatistics.from_rows([bank.features[r] for r in bank.class_rows("base")], bank.name)
    _write(made, bank)
    return made


def _places(bank: Bank) -> list[Path]:
    """Return where the statistics may be kept, first to last; nowhere for a bank in memory."""
    if bank.path is None:
        return []
    name = f"{bank.name}-{bank.meta.sha256[:16]}.stats"
    beside = Path(bank.path).resolve().parent
    inside = beside.is_relative_to(_PACKAGE)
    return [*([] if inside else [beside / name]), user_cache() / name]


def _read(path: Path, bank: Bank) -> BaseStatistics | None:
    """Return kept statistics, None where there are none or the file is damaged or of others."""
    from safetensors import SafetensorError, safe_open

    shape = (len(bank.classes("base")), bank.features.shape[1])
    try:
        with safe_open(path, framework="np") as file:
            said = file.metadata() or {}
            if (said.get("bank"), said.get("format")) != (bank.meta.sha256, _FORMAT):
                return None
            means, covariances = (file.get_tensor(name) for name in ("means", "covariances"))
    except (OSError, SafetensorError):
        return None
    fits = means.shape == shape and covariances.shape == (*shape, shape[1])
    return BaseStatistics(means, covariances, bank.name) if fits else None


def _write(statistics: BaseStatistics, bank: Bank) -> None:
    """Keep statistics in the first place that can be written to; none is no failure."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    arrays = {"means": statistics.means, "covariances": statistics.covariances}
    said = {"bank": bank.meta.sha256, "format": _FORMAT}
    for path in _places(bank):
        with suppress(OSError, SafetensorError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:
                save_file(arrays, temporary, metadata=said)
            return
