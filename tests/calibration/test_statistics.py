"""Statistics of base classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibration.made_up import base_rows
from firthshot.banks import Bank, load_bank, make_bank, save_bank
from firthshot.calibration import BaseStatistics, base_statistics
from firthshot.errors import BankError, FirthshotError


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    rows = base_rows(classes=4)
    splits = ["base", "base", "base", "novel"]
    labels = np.repeat(np.arange(4), 60)
    save_bank(
        tmp_path / "b.bank", np.concatenate(rows).astype(np.float32), labels,
        classes=list("abcd"), class_splits=splits,
    )  # fmt: skip
    return load_bank(tmp_path / "b.bank")


def test_they_are_numpys(bank: Bank) -> None:
    found = base_statistics(bank)
    assert found.means.shape == (3, 24)
    for b, rows in enumerate(bank.class_rows("base")):
        X = bank.features[rows].astype(float)
        np.testing.assert_allclose(found.means[b], X.mean(0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.covariances[b], np.cov(X.T), rtol=1e-4, atol=1e-6)


def test_a_bank_in_memory_has_them() -> None:
    X, y = np.concatenate(base_rows(classes=2)), np.repeat([0, 1], 60)
    made = make_bank(X, y, name="m", classes=["a", "b"], class_splits=["base", "base"])
    assert len(base_statistics(made)) == 2


def test_ill_posed() -> None:
    X, y = np.concatenate(base_rows(classes=2)), np.repeat([0, 1], 60)
    made = make_bank(X, y, name="m", classes=["a", "b"], class_splits=["val", "novel"])
    with pytest.raises(BankError, match="no base classes"):
        base_statistics(made)
    with pytest.raises(FirthshotError, match="do not fit together"):
        BaseStatistics(np.zeros((2, 3)), np.zeros((2, 4, 4)))
    with pytest.raises(FirthshotError, match="not finite"):
        BaseStatistics(np.full((1, 1), np.nan), np.zeros((1, 1, 1)))
    with pytest.raises(FirthshotError, match="one row"):
        BaseStatistics.from_rows([np.zeros((1, 3))])
