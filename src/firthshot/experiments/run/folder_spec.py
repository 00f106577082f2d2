"""The spec and the banks on record in a run folder, and whether they are still the same."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from firthshot.errors import FirthshotError
from firthshot.experiments.plan.cell import FORMAT
from firthshot.experiments.spec.fields import BANK_FIELDS, WORDS, Spec
from firthshot.experiments.spec.reading import load_spec
from firthshot.experiments.spec.writing import to_toml
from firthshot.files import raise_clearly, write_whole

if TYPE_CHECKING:
    from firthshot.banks import Bank
    from firthshot.experiments.spec.geometric import GeometricSpec

_STEPS = "steps.json"
BanksOnRecord = dict[str, dict[str, str]]


def run_identity(spec: Spec, banks: list[Bank]) -> str:
    """Return the hash that every part of a run carries."""
    content = [FORMAT, _comparable(spec), sorted(bank.meta.sha256 for bank in banks)]
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:32]


def describe_banks(banks: list[Bank]) -> BanksOnRecord:
    """Return what identifies each bank, by name."""
    return {
        bank.name: {
            "sha256": bank.meta.sha256,
            "dataset": bank.meta.dataset,
            "backbone": bank.meta.backbone,
            "extraction": bank.meta.extraction,
            "path": str(bank.path),
        }
        for bank in banks
    }


def claim(path: Path, spec: Spec, banks: list[Bank]) -> None:
    """Record spec and banks in a new folder, or refuse a folder that holds others.

    Raises
    ------
    FirthshotError
        With the fields in which the specs differ, or the bank that changed.
    """
    recorded = path / "spec.toml"
    try:
        if recorded.is_file():
            old = load_spec(str(recorded))
            if not _grows(old, spec):
                compare_specs(path, old, spec)
            _compare_banks(path, read_banks(path), describe_banks(banks))
            return
        if path.is_dir() and any((path / "parts").glob("*")):
            raise FirthshotError(f"{path} has parts but no spec.toml: choose another --out.")
        path.mkdir(parents=True, exist_ok=True)
        text = json.dumps(describe_banks(banks), indent=1, ensure_ascii=False)
        write_whole(path / "banks.json", text.encode())
        write_whole(recorded, to_toml(spec).encode())
    except OSError as error:
        raise_clearly(error, path)


def trial_steps(path: Path, spec: Spec) -> tuple[int, ...]:
    """Return the numbers of trials through which a folder grows to the spec's; nothing is written.

    Trials are numbered, and each has random streams of its own: what is there stays as it is.
    """
    if not (path / "spec.toml").is_file():
        return (spec.trials,)
    old = load_spec(str(path / "spec.toml"))
    before = tuple(step for step in _read_steps(path) if step < old.trials)
    steps = (*before, old.trials)
    return (*steps, spec.trials) if _grows(old, spec) else steps


def record_growth(path: Path, spec: Spec, steps: tuple[int, ...]) -> None:
    """Write a larger number of trials into a folder that is locked; others are there already."""
    if load_spec(str(path / "spec.toml")).trials == spec.trials:
        return
    try:
        write_whole(path / _STEPS, json.dumps(steps).encode())
        write_whole(path / "spec.toml", to_toml(spec).encode())  # last: it makes the step count
    except OSError as error:
        raise_clearly(error, path)


def _read_steps(path: Path) -> list[int]:
    try:
        return msgspec.json.decode((path / _STEPS).read_bytes(), type=list[int])
    except FileNotFoundError:
        return []
    except (OSError, ValueError, msgspec.DecodeError, RecursionError):
        raise FirthshotError(f"{path / _STEPS} is damaged: start a new --out.") from None


def _grows(old: Spec, new: Spec) -> bool:
    """Tell whether the specs differ in nothing but more trials.

    Rounds of ``until_ci`` begin with the spec's trials: another number is another run.
    """
    wider = _comparable(old) | {"trials": new.trials}
    return new.trials > old.trials and new.until_ci is None and wider == _comparable(new)


def read_banks(path: Path) -> BanksOnRecord:
    """Return the banks on record in a run folder."""
    try:
        content = (path / "banks.json").read_bytes()
        return msgspec.json.decode(content, type=BanksOnRecord)
    except (OSError, ValueError, msgspec.DecodeError, RecursionError):
        raise FirthshotError(
            f"{path}/banks.json is missing or damaged: start a new --out."
        ) from None


def _comparable(spec: Spec | GeometricSpec) -> dict[str, Any]:
    """Return the fields that decide what is computed; a bank is compared by what it holds."""
    left_out = {*WORDS, *BANK_FIELDS}
    return {key: value for key, value in spec.as_dict().items() if key not in left_out}


def compare_specs(path: Path, old: Spec | GeometricSpec, new: Spec | GeometricSpec) -> None:
    """Refuse to go on in a folder with a spec that asks for something else."""
    was, now = _comparable(old), _comparable(new)
    differing = [key for key in {**was, **now} if was.get(key) != now.get(key)]
    if differing:
        listed = "; ".join(
            f"{key} was {_show(was.get(key))}, is {_show(now.get(key))}" for key in differing
        )
        fewer = differing == ["trials"] and was["trials"] > now["trials"]
        what = "more trials" if fewer else "another spec"
        raise FirthshotError(
            f"{path} holds a run of {what} ({listed}): choose another --out, or repeat the old "
            "settings."
        )


def _compare_banks(path: Path, old: BanksOnRecord, new: BanksOnRecord) -> None:
    if set(old) != set(new):
        raise FirthshotError(
            f"{path} holds a run on {', '.join(old)}, not on {', '.join(new)}: "
            "choose another --out."
        )
    for name, record in new.items():
        for key in ("sha256", "dataset", "backbone", "extraction"):
            if record[key] != (was := old[name].get(key, "")):
                raise FirthshotError(
                    f"Bank {name!r} has changed since the run in {path} began ({key} was "
                    f"{was[:12]}…, is {record[key][:12]}…): choose another --out, or "
                    "bring the old bank back."
                )


def _show(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
