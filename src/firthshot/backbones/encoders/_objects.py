"""Encoders that a user has in Python already: functions, torch and sentence-transformers models."""

from __future__ import annotations

import sys
from typing import Any

from firthshot.backbones.encoders._base import Encoder, Kind, Network, fingerprint
from firthshot.backbones.encoders._options import Loading
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

        weights = digest_module(thing)
        name = f"SentenceTransformer ({weights[:8]})"
        return _sentence_transformers.wrap(thing, loading.options, name=name, weights=weights)
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
    told = f"the Python function {name}"
    return Encoder(
        kind,
        name,
        0,
        fingerprint("function", name),
        Network(function),
        spec=f"python:{name}",
        description=told,
        provenance=told,
        cacheable=False,
    )
