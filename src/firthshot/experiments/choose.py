"""Which banks a run takes: those given, else the paper's that are installed, else the embedded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from firthshot.errors import FirthshotError
from firthshot.experiments.spec import Spec

if TYPE_CHECKING:
    from firthshot.banks import Bank

EMBEDDED = "clinc150-minilm"


def settle_banks(spec: Spec) -> Spec:
    """Return the spec with its banks named: by path where given by path, for any later folder."""
    if spec.banks:
        return msgspec.structs.replace(spec, banks=tuple(map(_lasting, spec.banks)))
    from firthshot.banks import list_banks

    names = list(dict.fromkeys(entry.name for entry in list_banks() if entry.bank is not None))
    found = tuple(
        name for name in names if any(is_paper_bank(name, paper) for paper in spec.paper_banks)
    )
    return msgspec.structs.replace(spec, banks=found or (EMBEDDED,))


def bank_remark(spec: Spec) -> str:
    """Say in a sentence on which banks the run is, and whether they are the paper's."""
    listed = ", ".join(spec.banks)
    if not spec.paper_banks:
        return f"On {listed}."
    own = [
        bank for bank in spec.banks if any(is_paper_bank(bank, paper) for paper in spec.paper_banks)
    ]
    if len(own) == len(spec.banks):
        missing = [
            p for p in spec.paper_banks if not any(is_paper_bank(bank, p) for bank in spec.banks)
        ]
        return f"On {listed}" + (f"; not installed: {', '.join(missing)}." if missing else ".")
    return f"On {listed}, not on the paper's banks ({', '.join(spec.paper_banks)})."


def open_banks(spec: Spec) -> list[Bank]:
    """Open the banks of a spec."""
    from firthshot.banks import load_bank

    if not spec.banks:
        raise FirthshotError("The spec names no banks: give --bank.")
    return [load_bank(name) for name in spec.banks]


def is_paper_bank(name: str, paper: str) -> bool:
    """Tell whether a bank is one of the paper's: its name, or that with a suffix like -eval."""
    stem = Path(name).stem.lower()
    return stem == paper or stem.startswith(f"{paper}-")


def _lasting(name: str) -> str:
    path = Path(name)
    given_as_path = name.endswith(".bank") or path.name != name
    return str(path.resolve()) if given_as_path else name
