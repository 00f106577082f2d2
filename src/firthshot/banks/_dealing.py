"""Divide the classes of a bank between choosing λ and testing it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import numpy as np

from firthshot.banks._bank import Bank
from firthshot.banks._find import load_bank
from firthshot.banks._meta import digest
from firthshot.errors import BankError

DEALT = "dealt"  # the note of a bank whose novel classes were divided, in words


def dealt(names: list[str], share: float, seed: int) -> set[str]:
    """Return the classes of val: so large a share of them, drawn by a seed."""
    if not 0 < share < 1:
        raise BankError(f"val_classes = {share} must be a share between 0 and 1.", "val-classes")
    count = min(max(2, round(share * len(names))), len(names) - 2)
    drawn = np.random.default_rng(seed).permutation(len(names))[:count]
    return {names[at] for at in drawn}


def halve_novel(bank: Bank) -> Bank:
    """Return the bank with half of its novel classes, drawn by seed 0, as validation classes.

    Features and file are the same; digest and notes are those of the division.
    """
    novel = bank.classes("novel")
    val = dealt(sorted(novel), 0.5, 0)
    pairs = zip(bank.meta.classes, bank.meta.class_splits, strict=True)
    splits = ["val" if own == "novel" and name in val else own for name, own in pairs]
    words = (
        f"λ is chosen on {len(val)} of its {len(novel)} novel classes, drawn by seed 0, and "
        f"tested on the other {len(novel) - len(val)}"
    )
    notes = bank.meta.notes | {DEALT: words}
    meta = msgspec.structs.replace(bank.meta, class_splits=splits, notes=notes)
    sha256 = digest(bank.features, bank.labels, meta)
    return dataclasses.replace(bank, meta=msgspec.structs.replace(meta, sha256=sha256))


def load_version(source: str | Path, sha256: str) -> Bank | None:
    """Open the bank with this digest, its novel classes halved where that has it; else None."""
    bank = load_bank(source)
    if bank.meta.sha256 != sha256 and bank.splits[-1:] == ("novel",) and "val" not in bank.splits:
        bank = halve_novel(bank)
    return bank if bank.meta.sha256 == sha256 else None
