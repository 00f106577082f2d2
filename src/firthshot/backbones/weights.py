"""Checkpoints of our own that are found by name."""

from __future__ import annotations

import os
from pathlib import Path

BEST = "best.safetensors"  # of a training, in its folder


def find_weights() -> dict[str, Path]:
    """Return the checkpoints in ``FIRTHSHOT_WEIGHTS`` and ``./weights``, by their names.

    The repository ships its trained networks in ``weights/``, outside the wheel. Where both folders
    have a name, that of the environment variable counts.
    """
    folders = [Path("weights")]
    if named := os.environ.get("FIRTHSHOT_WEIGHTS"):
        folders.append(Path(named))
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.safetensors"))}


def describe_weights(path: Path) -> tuple[int, int]:
    """Return the side of the pictures that a checkpoint was trained on and its features' width."""
    import torch

    from firthshot.backbones.architectures import make_backbone
    from firthshot.backbones.training import read_notes

    setup = read_notes(path)["setup"]
    with torch.device("meta"):  # shapes only
        return setup["size"], make_backbone(setup["architecture"]).features_dim
