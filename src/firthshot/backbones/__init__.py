"""Pictures and texts to features: architectures, training, encoders, data sets.

What the examples of ``docs/backbones.md`` use can be imported from here; it is loaded when it is
first asked for, since most of it needs torch.
"""

from __future__ import annotations

from importlib import import_module

_HOME = {
    "EncoderOptions": "encoders",
    "Preparation": "images",
    "digest_module": "encoders",
    "embed_pictures": "embed",
    "embed_texts": "embed",
    "load_encoder": "encoders",
    "make_backbone": "architectures",
    "open_dataset": "datasets",
    "torch_encoder": "encoders",
}
__all__ = sorted(_HOME)  # noqa: PLE0605


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
