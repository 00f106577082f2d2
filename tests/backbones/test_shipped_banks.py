from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from firthshot.backbones.datasets import published_homes
from firthshot.banks import diagnose, load_bank

FOLDER = Path(__file__).parents[2] / "banks"
BANKS = sorted(FOLDER.glob("*.bank"))
pytestmark = pytest.mark.skipif(not BANKS, reason="The banks of the repository are not here.")
DATASETS = {"mini": "mini-imagenet", "cub": "cub", "cifarfs": "cifar-fs"}


@pytest.mark.parametrize("path", BANKS, ids=lambda path: path.stem)
def test_a_shipped_bank_is_what_it_says(path: Path) -> None:
    bank = load_bank(path)
    bank.verify()
    assert bank.name == path.stem
    assert bank.features.dtype == np.float16
    assert bank.meta.extraction == (
        "bn-train-sorted" if path.stem.endswith("bn-train-sorted") else "eval"
    )
    assert bank.meta.licence
    assert "trained" in bank.meta.provenance
    assert not [finding for finding in diagnose(bank) if finding.severity == "broken"]
    homes = published_homes(DATASETS[path.stem.split("-")[0]])
    assert all(
        homes[name] == split
        for name, split in zip(bank.meta.classes, bank.meta.class_splits, strict=True)
    )
    for split in ("val", "novel"):
        assert len(bank.classes(split)) == list(homes.values()).count(split)
        assert max(map(len, bank.class_rows(split))) <= 150


def test_the_folder_stays_small_and_says_what_it_holds() -> None:
    assert sum(path.stat().st_size for path in BANKS) <= 50e6
    listed = re.findall(r"^\| `([\w-]+)`", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert set(listed) == {path.stem for path in BANKS}


def test_modes_of_one_network_have_the_same_rows() -> None:
    pairs = [path for path in BANKS if path.stem.endswith("-bn-train-sorted")]
    for path in pairs:
        bank, other = (
            load_bank(path),
            load_bank(FOLDER / f"{path.stem.removesuffix('-bn-train-sorted')}.bank"),
        )
        np.testing.assert_array_equal(bank.labels, other.labels)
        assert bank.meta.classes == other.meta.classes  # hence the same trials
