"""Checkpoints: one safetensors file each, replaced atomically, never a pickle."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from firthshot.backbones.training._recipes import EpochRecord
from firthshot.errors import FirthshotError
from firthshot.files import replacing, write_whole


def write_tensors(path: Path, tensors: dict[str, torch.Tensor], notes: dict[str, Any]) -> None:
    """Write tensors and their notes (plain JSON values, kept in the header) as one whole file."""
    from safetensors.torch import save

    flat = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    write_whole(path, save(flat, metadata={"firthshot": json.dumps(notes)}))


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read what :func:`write_tensors` wrote; notes are empty in a foreign safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            notes = dict(json.loads((file.metadata() or {}).get("firthshot", "{}")))
            return {name: file.get_tensor(name) for name in file.keys()}, notes  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, TypeError, RecursionError) as error:
        raise FirthshotError(f"{path} is not a readable safetensors file ({error}).") from error


def read_notes(path: Path) -> dict[str, Any]:
    """Read the notes of a checkpoint alone; a foreign file, which has none, is refused."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return dict(json.loads((file.metadata() or {})["firthshot"]))
    except (OSError, SafetensorError, LookupError, ValueError, TypeError, RecursionError) as error:
        raise FirthshotError(f"{path} is not a checkpoint of firthshot ({error}).") from error


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Return the optimiser's state as named tensors, ``optimiser.<parameter>.<quantity>``."""
    state = optimiser.state_dict()["state"]
    return {
        f"optimiser.{parameter}.{quantity}": value
        for parameter, quantities in state.items()
        for quantity, value in quantities.items()
        if isinstance(value, torch.Tensor)
    }


def load_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]) -> None:
    """Put back what :func:`optimiser_tensors` took out."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimiser."):
            _, parameter, quantity = name.split(".", 2)
            state.setdefault(int(parameter), {})[quantity] = value
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": state, "param_groups": groups})


def write_history(history: list[EpochRecord], path: Path) -> None:
    """Write the records of epochs as a table, a line each."""
    import polars as pl

    with replacing(path) as partial:
        pl.DataFrame([asdict(record) for record in history]).write_csv(partial)
