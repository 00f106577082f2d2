"""Which banks a run takes: those given, else the paper's, else stand-ins, else the embedded."""

from __future__ import annotations

from pathlib import Path

import msgspec

from firthshot.banks import Bank, halve_novel, list_banks, load_bank
from firthshot.errors import FirthshotError
from firthshot.experiments.spec.fields import Spec

EMBEDDED = "clinc150-minilm"
OWN = "own"  # as a source: the bank itself


def settle_banks(spec: Spec) -> Spec:
    """Return the spec with its banks named: by path where given by path, for any later folder."""
    spec = msgspec.structs.replace(spec, banks=_targets(spec))
    if spec.calibration is None:
        return spec
    if spec.source:
        sources = tuple(name if name == OWN else _lasting(name) for name in spec.sources)
    else:
        sources = tuple(_suiting_source(spec, bank) for bank in open_banks(spec))
    return msgspec.structs.replace(spec, source=sources)


def _targets(spec: Spec) -> tuple[str, ...]:
    if spec.banks:
        return tuple(map(_lasting, spec.banks))
    names = list(dict.fromkeys(name for name, _ in _installed()))
    found = tuple(name for name in names if _is_papers(spec, name))
    standing_in = tuple(name for name in spec.stand_ins if name in names)
    return found or standing_in or (EMBEDDED,)


def _installed() -> list[tuple[str, Bank]]:
    return [(entry.name, entry.bank) for entry in list_banks() if entry.bank is not None]


def _suiting_source(spec: Spec, target: Bank) -> str:
    """Return the installed bank of ``paper_sources`` that suits, else the target itself."""
    for paper in spec.paper_sources:
        for name, bank in _installed():
            if is_paper_bank(name, paper) and _suits(bank, target):
                return name
    return OWN


def _suits(source: Bank, target: Bank) -> bool:
    """Tell whether the same backbone extracted both."""
    same = ("backbone", "extraction")
    return (
        "base" in source.splits
        and source.features.shape[1] == target.features.shape[1]
        and all(getattr(source.meta, name) == getattr(target.meta, name) for name in same)
    )


def bank_remark(spec: Spec) -> str:
    """Say in a sentence on which banks the run is, and whether they are the paper's."""
    listed = ", ".join(Path(bank).name for bank in spec.banks)
    if not spec.paper_banks:
        return f"On {listed}."
    if all(_is_papers(spec, bank) for bank in spec.banks):
        missing = [
            p for p in spec.paper_banks if not any(is_paper_bank(bank, p) for bank in spec.banks)
        ]
        return f"On {listed}" + (f"; not installed: {', '.join(missing)}." if missing else ".")
    return f"On {listed}, not on the paper's banks ({', '.join(spec.paper_banks)})."


def open_banks(spec: Spec) -> list[Bank]:
    """Open the banks of a spec, with validation classes where it asks for them."""
    if not spec.banks:
        raise FirthshotError("The spec names no banks: name at least one.", "bank")
    return [_with_validation(spec, load_bank(name)) for name in spec.banks]


def _with_validation(spec: Spec, bank: Bank) -> Bank:
    """Halve the novel classes of a bank without validation classes, where enough are left."""
    if "val" in bank.splits or not {"val", "novel"} <= set(spec.splits):
        return bank
    novel = bank.meta.class_splits.count("novel")
    return halve_novel(bank) if novel // 2 >= max(2, min(spec.ways)) else bank


def open_sources(spec: Spec, banks: list[Bank]) -> list[Bank]:
    """Open the source of every bank; none without Distribution Calibration."""
    if spec.calibration is None:
        return []
    if len(spec.sources) != len(banks):
        raise FirthshotError(
            f"There are {len(spec.sources)} sources for {len(banks)} banks: give one, or one each."
        )
    pairs = zip(spec.sources, banks, strict=True)
    sources = [bank if name == OWN else load_bank(name) for name, bank in pairs]
    for source, bank in zip(sources, banks, strict=True):
        _check_source(source, bank, spec.calibration.neighbours)
    return sources


def _check_source(source: Bank, bank: Bank, neighbours: int) -> None:
    if "base" not in source.splits:
        raise FirthshotError(
            f"Bank {source.name!r} has no base classes, whose statistics Distribution Calibration "
            "needs: name a source that has.",
            "set=source=BANK",
        )
    there, here = source.features.shape[1], bank.features.shape[1]
    if there != here:
        raise FirthshotError(
            f"Source {source.name!r} has {there} features and bank {bank.name!r} has {here}: both "
            "must come from the same backbone."
        )
    if neighbours > len(source.classes("base")):
        raise FirthshotError(
            f"calibration.neighbours = {neighbours}, but source {source.name!r} has "
            f"{len(source.classes('base'))} base classes."
        )


def _is_papers(spec: Spec, name: str) -> bool:
    return any(is_paper_bank(name, paper) for paper in spec.paper_banks)


def is_paper_bank(name: str, paper: str) -> bool:
    """Tell whether a bank is one of the paper's: its name, or that with a suffix like -eval."""
    stem = Path(name).stem.lower()
    return stem == paper or stem.startswith(f"{paper}-")


def _lasting(name: str) -> str:
    path = Path(name)
    given_as_path = name.endswith(".bank") or path.name != name
    return str(path.resolve()) if given_as_path else name
