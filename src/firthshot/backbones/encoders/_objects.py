"""Encoders that a user has in Python already: functions, torch and sentence-transformers models."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from firthshot.backbones.encoders._base import WORDS, Encoder, Kind, Network, fingerprint
from firthshot.backbones.encoders._hub import Loading
from firthshot.backbones.encoders._torch import digest_module, torch_encoder
from firthshot.backbones.images import Preparation
from firthshot.errors import FirthshotError

_SIDE = 224


def wrap(thing: Any, kind: Kind | None, loading: Loading) -> Encoder:
    """Return an object as an encoder.

    A torch module takes prepared pictures; a callable takes a list of what is to be encoded, texts
    or paths, and returns an array (n, dim).
    """
    if isinstance(thing, Encoder):
        return thing
    if _is_a(thing, "sentence_transformers", "SentenceTransformer"):
        from firthshot.backbones.encoders import _sentence_transformers

        name = f"SentenceTransformer ({digest_module(thing)[:8]})"
        return _sentence_transformers.wrap(
            thing, loading.options, name=name, weights=digest_module(thing)
        )
    if _is_a(thing, "torch.nn", "Module") and kind != "text":
        prepared = loading.options.prepare(Preparation(_SIDE))
        name, weights = type(thing).__name__, digest_module(thing)
        return torch_encoder(thing, prepared, name=name, weights=weights, device=loading.device)
    if not callable(thing):
        raise FirthshotError(
            f"A {type(thing).__name__} is no encoder: give a name, a path, a torch or "
            "sentence-transformers model, or a function from a list to an array."
        )
    return _from_function(thing, kind or "text")


def _is_a(thing: Any, module: str, name: str) -> bool:
    """Tell whether a thing is of a class, importing nothing: without the module it cannot be."""
    known = getattr(sys.modules.get(module), name, None)
    return known is not None and isinstance(thing, known)


def _from_function(function: Any, kind: Kind) -> Encoder:
    """Return a function as an encoder; what it computes is not known, so nothing is cached."""
    named = getattr(function, "__qualname__", type(function).__qualname__)
    name = f"{getattr(function, '__module__', '')}.{named}".lstrip(".")
    return FunctionEncoder(
        kind,
        name,
        0,
        fingerprint("function", name),
        Network(function),
        spec=f"python:{name}",
        description=f"the Python function {name}",
        provenance=f"the Python function {name}",
        cacheable=False,
    )


class FunctionEncoder(Encoder):
    """Encode with a function of a user, which is given the items as they are, all at once."""

    def encode(self, items: Sequence[Any]) -> np.ndarray:
        """Return features (n, dim) float32."""
        features = np.asarray(self.network.run(list(items)), np.float32)
        if features.ndim != 2 or len(features) != len(items):
            raise FirthshotError(
                f"The encoder {self.name} returned {features.shape} for {len(items)} "
                f"{WORDS[self.kind]}: it shall return an array (n, dim)."
            )
        if not np.isfinite(features).all():
            raise FirthshotError(f"The encoder {self.name} returned NaN or infinite features.")
        return features
