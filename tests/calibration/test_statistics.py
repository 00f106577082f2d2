"""Statistics of base classes and where they are kept."""

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


def test_they_are_kept_beside_the_bank_by_its_content(
    bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = base_statistics(bank)
    (kept,) = tmp_path.glob("*.stats")
    assert bank.meta.sha256[:16] in kept.name
    monkeypatch.setattr(BaseStatistics, "from_rows", None)  # nothing is computed again
    again = base_statistics(bank)
    assert again.covariances.tobytes() == first.covariances.tobytes()
    monkeypatch.undo()
    kept.write_bytes(b"damaged")
    assert base_statistics(bank).covariances.tobytes() == first.covariances.tobytes()


def test_a_folder_that_cannot_be_written_to(
    bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from firthshot.calibration import _statistics

    monkeypatch.setenv("FIRTHSHOT_CACHE", str(tmp_path / "cache"))
    blocked = tmp_path / "a-file"
    blocked.write_text("")
    places = _statistics._places(bank)
    monkeypatch.setattr(_statistics, "_places", lambda _: [blocked / "x.stats", places[1]])
    base_statistics(bank)
    assert places[1].is_file()
    assert places[1].parent == tmp_path / "cache"


def test_a_bank_in_memory_keeps_nothing() -> None:
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
