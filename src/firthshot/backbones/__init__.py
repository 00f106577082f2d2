"""Pictures and texts to features: architectures, training, encoders, data sets.

What the examples of ``docs/backbones.md`` use can be imported from here; it is loaded when it is
first asked for, since most of it needs torch.
"""

from __future__ import annotations

from firthshot.lazy import lazy_names

_HOMES = {
    "architectures": "make_backbone",
    "datasets": "open_dataset",
    "embed": "embed embed_pictures embed_texts",
    "encoders": "Encoder EncoderOptions digest_module encoding load_encoder torch_encoder",
    "images": "Preparation",
}
__all__ = sorted(" ".join(_HOMES.values()).split())  # noqa: PLE0605
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
