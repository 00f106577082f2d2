"""Where banks are looked for: by path, then in folders, then inside the package."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from firthshot.banks._bank import Bank, halve_novel
from firthshot.banks._file import open_bank
from firthshot.errors import BankError
from firthshot.files import user_data

SUFFIX = ".bank"
_EMBEDDED = Path(__file__).parent / "data"


@dataclass(frozen=True)
class BankEntry:
    """A bank file that was found: its name, where, and the bank or why it cannot be read."""

    name: str
    path: Path
    origin: str
    bank: Bank | None
    error: str | None


def search_folders() -> list[tuple[str, Path]]:
    """Return the folders where names are looked up, first to last, each with its origin."""
    listed = os.environ.get("FIRTHSHOT_BANKS", "").split(os.pathsep)
    return [
        *(("FIRTHSHOT_BANKS", Path(folder)) for folder in listed if folder),
        ("./banks", Path("banks")),
        ("user data", user_data() / "banks"),
        ("embedded", _EMBEDDED),
    ]


def load_bank(name_or_path: str | Path) -> Bank:
    """Open a bank by path or by name.

    A name is looked up as ``NAME.bank`` in the folders of ``FIRTHSHOT_BANKS``, in ``./banks``, in
    the user's data folder, then among the embedded banks; the first found is taken. Features are
    memory-mapped; the sha256 is not checked here (see `Bank.verify`).

    Raises
    ------
    BankError
        When there is no such bank or its file is damaged.
    """
    text = os.fspath(name_or_path)
    separated = any(sign in text for sign in (os.sep, os.altsep) if sign)
    if isinstance(name_or_path, Path) or text.endswith(SUFFIX) or separated:
        return open_bank(text)
    places = [folder / f"{text}{SUFFIX}" for _, folder in search_folders()]
    for path in (*places, Path(text)):
        if path.is_file():
            return open_bank(path)
    for path in places:
        if path.is_symlink():
            raise BankError(
                f"Bank {text!r} is a link to {path.readlink()}, which is not there: restore that "
                f"file, or remove {path}."
            )
    names = ", ".join(sorted({path.stem for _, path in _files() if path.is_file()})) or "none"
    raise BankError(
        f"There is no bank named {text!r}: give a path, or one of those that "
        f"`firthshot bank list` shows ({names})."
    )


def load_version(source: str | Path, sha256: str) -> Bank | None:
    """Open the bank with this digest, its novel classes halved where that has it; else None."""
    bank = load_bank(source)
    if bank.meta.sha256 != sha256 and bank.splits[-1:] == ("novel",) and "val" not in bank.splits:
        bank = halve_novel(bank)
    return bank if bank.meta.sha256 == sha256 else None


def list_banks() -> list[BankEntry]:
    """Return every bank file in the search folders, in the order in which they are found.

    Files that cannot be read are listed too, with the reason; of two with one name, `load_bank`
    takes the first.
    """
    return [_entry(origin, path) for origin, path in _files()]


def _files() -> list[tuple[str, Path]]:
    return [
        (origin, path)
        for origin, folder in search_folders()
        for path in sorted(folder.glob(f"*{SUFFIX}"))
    ]


def _entry(origin: str, path: Path) -> BankEntry:
    try:
        return BankEntry(path.stem, path, origin, open_bank(path), None)
    except BankError as error:
        return BankEntry(path.stem, path, origin, None, str(error))
