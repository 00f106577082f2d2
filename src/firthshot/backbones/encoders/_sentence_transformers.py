"""Models of sentence-transformers, with their own pooling, prompts and normalisation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from firthshot.backbones.encoders._base import Encoder, digest_files, fingerprint
from firthshot.backbones.encoders._hub import HubName, fetch
from firthshot.backbones.encoders._options import EncoderOptions, Loading
from firthshot.backbones.encoders._packages import require
from firthshot.backbones.encoders._torch import inference, place_for, text_encoder
from firthshot.errors import FirthshotError, refusing

_READ = (".json", ".txt", ".safetensors", ".bin", ".model")


def load_hub(name: HubName, loading: Loading) -> Encoder:
    """Load a model of the hub."""
    require("sentence_transformers", str(name), "st")
    loading.options.check(str(name), "text", "prompt")
    snapshot = fetch(name, loading)
    words = snapshot.words(loading.options)
    return _load(snapshot.folder, loading, str(name), snapshot.mark, words)


def load_folder(folder: Path, loading: Loading) -> Encoder:
    """Load a folder that sentence-transformers has saved."""
    held = sorted(path for path in folder.rglob("*") if path.suffix in _READ)
    name = folder.resolve().name
    provenance = f"the sentence-transformers folder {name}"
    words = {"files": tuple(map(str, held)), "provenance": provenance}
    return _load(folder, loading, name, digest_files(held), words)


def _load(
    folder: Path, loading: Loading, name: str, weights: str, words: dict[str, Any]
) -> Encoder:
    library = require("sentence_transformers", name, "st")
    place = place_for(loading.device)
    with refusing(f"sentence-transformers cannot build {name}"):
        model = library.SentenceTransformer(
            str(folder), device=str(place), local_files_only=True, trust_remote_code=False
        )
    return wrap(model, loading.options, name=name, weights=weights, **words)


def wrap(model: Any, options: EncoderOptions, *, name: str, weights: str, **words: Any) -> Encoder:
    """Return a SentenceTransformer as an encoder; it stays on the device where it is."""
    options.check(name, "text", "prompt")
    prompts = dict(getattr(model, "prompts", None) or {})
    if options.prompt is not None and options.prompt not in prompts:
        raise FirthshotError(
            f"Encoder {name} has no prompt {options.prompt!r}: it has "
            f"{', '.join(map(repr, prompts)) or 'none'}."
        )

    def run(texts: list[str]) -> np.ndarray:
        with inference(model.device):
            rows = model.encode(
                texts,
                prompt_name=options.prompt,
                batch_size=len(texts),
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return np.asarray(rows, np.float32)

    used = options.prompt or getattr(model, "default_prompt_name", None)
    told = f", prompt {used!r}" if used and prompts.get(used) else ""
    words.setdefault("description", f"{name} (sentence-transformers{told})")
    mark = fingerprint("sentence-transformers", weights, used, prompts.get(used or ""))
    return text_encoder(run, name=name, mark=mark, module=model, **words)
