"""The spec and the banks on record in a run folder, and whether they are still the same."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from firthshot.banks import Bank
from firthshot.errors import FirthshotError
from firthshot.experiments.plan.cell import FORMAT
from firthshot.experiments.run.record import read_record, write_record
from firthshot.experiments.spec.fields import BANK_FIELDS, WORDS, GeometricSpec, Spec, to_toml
from firthshot.experiments.spec.reading import load_any
from firthshot.files import write_whole, writing_to

_STEPS, _BANKS = "steps.json", "banks.json"
_ELSEWHERE = "choose another folder"
BanksOnRecord = dict[str, dict[str, str]]


@dataclass(frozen=True)
class FolderSpec:
    """A spec and what is on record in the folder that it runs in, read once."""

    path: Path
    spec: Spec | GeometricSpec
    old: Spec | GeometricSpec | None  # the spec on record; None in a new folder
    # numbers of trials through which the folder grows to the spec's; what is there stays as it is
    steps: tuple[int, ...]

    def claim(self, banks: list[Bank]) -> None:
        """Record spec and banks in a new folder, or refuse a folder that holds others."""
        if self.old is not None:
            if not _grows(self.old, self.spec):
                _compare_specs(self.path, self.old, self.spec)
            if banks:
                _compare_banks(self.path, read_banks(self.path), describe_banks(banks))
            return
        if any((self.path / "parts").glob("*")):
            raise FirthshotError(
                f"{self.path} has parts but no spec.toml: choose another folder.", "out"
            )
        with writing_to(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        if banks:
            write_record(self.path / _BANKS, describe_banks(banks))
        self._write_spec()

    def record_growth(self) -> None:
        """Write a larger number of trials into a folder that is locked; others are there."""
        if self.old is not None and self.old.trials != self.spec.trials:
            write_record(self.path / _STEPS, self.steps)
            self._write_spec()  # last: it makes the step count

    def _write_spec(self) -> None:
        with writing_to(self.path):
            write_whole(self.path / "spec.toml", to_toml(self.spec).encode())


def open_folder(path: Path, spec: Spec | GeometricSpec) -> FolderSpec:
    """Read what is on record in a folder that a spec is to run in; nothing is written."""
    if not (path / "spec.toml").is_file():
        return FolderSpec(path, spec, None, (spec.trials,))
    old = load_any(path)
    there = read_record(path / _STEPS, list[int], _ELSEWHERE, [])
    steps = (*(step for step in there if step < old.trials), old.trials)
    return FolderSpec(path, spec, old, (*steps, spec.trials) if _grows(old, spec) else steps)


def run_identity(spec: Spec, banks: list[Bank]) -> str:
    """Return the hash that every part of a run carries."""
    content = [FORMAT, _comparable(spec), sorted(bank.meta.sha256 for bank in banks)]
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:32]


def describe_banks(banks: list[Bank]) -> BanksOnRecord:
    """Return what identifies each bank, by name."""
    said = ("sha256", "dataset", "backbone", "extraction")
    return {
        bank.name: {name: getattr(bank.meta, name) for name in said} | {"path": str(bank.path)}
        for bank in banks
    }


def read_banks(path: Path) -> BanksOnRecord:
    """Return the banks on record in a run folder."""
    return read_record(path / _BANKS, BanksOnRecord, _ELSEWHERE)


def _grows(old: Spec | GeometricSpec, new: Spec | GeometricSpec) -> bool:
    """Tell whether the specs differ in nothing but more trials.

    Rounds of ``until_ci`` begin with the spec's trials: another number is another run.
    """
    if not isinstance(new, Spec) or new.until_ci is not None or new.trials <= old.trials:
        return False
    return _comparable(old) | {"trials": new.trials} == _comparable(new)


def _comparable(spec: Spec | GeometricSpec) -> dict[str, Any]:
    """Return the fields that decide what is computed; a bank is compared by what it holds."""
    left_out = {*WORDS, *BANK_FIELDS}
    return {key: value for key, value in spec.as_dict().items() if key not in left_out}


def _compare_specs(path: Path, old: Spec | GeometricSpec, new: Spec | GeometricSpec) -> None:
    if type(old) is not type(new):
        raise FirthshotError(f"{path} holds a run of another kind: choose another folder.", "out")
    was, now = _comparable(old), _comparable(new)
    differing = [key for key in {**was, **now} if was.get(key) != now.get(key)]
    if differing:
        listed = "; ".join(
            f"{key} was {show_value(was.get(key))}, is {show_value(now.get(key))}"
            for key in differing
        )
        fewer = differing == ["trials"] and was["trials"] > now["trials"]
        what = "more trials" if fewer else "another spec"
        raise FirthshotError(
            f"{path} holds a run of {what} ({listed}): repeat the old settings, or choose another "
            "folder.",
            "out",
        )


def _compare_banks(path: Path, old: BanksOnRecord, new: BanksOnRecord) -> None:
    if set(old) != set(new):
        raise FirthshotError(
            f"{path} holds a run on {', '.join(old)}, not on {', '.join(new)}: choose another "
            "folder.",
            "out",
        )
    for name, record in new.items():
        for key, value in record.items():
            if key != "path" and value != (was := old[name].get(key, "")):
                raise FirthshotError(
                    f"Bank {name!r} has changed since the run in {path} began ({key} was "
                    f"{was[:12]}…, is {value[:12]}…): bring the old bank back, or choose another "
                    "folder.",
                    "out",
                )


def show_value(value: Any) -> str:
    """Return a setting as a sentence says it."""
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
