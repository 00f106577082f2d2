"""Run folders for the report's tests: real runs of the runner on a small bank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.toy import toy_spec, write_bank
from firthshot.experiments import run
from firthshot.experiments.spec.checking import without_idle

HOSTILE = "<script>alert(1)</script>"


def toy_run(folder: Path, *, bank: dict[str, Any] | None = None, **fields: Any) -> Path:
    """Run a few cells into ``folder/run`` on a bank in ``folder``; return the run folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = write_bank(folder / "toy.bank", **{"novel": 9, **(bank or {})})
    defaults: dict[str, Any] = {
        "heads": ["linear"],
        "ways": [3, 5],
        "shots": [1, 4],
        "trials": 30,
        "coefficients": [0, 0.1, 1, 10],
        "references": True,
        "sgd": {"epochs": 20},
    }
    out = folder / "run"
    read = without_idle({"name": "toy", **defaults, **fields}, keep=fields)
    run(toy_spec(file, **read), out, workers=1)
    return out
