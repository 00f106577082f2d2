"""Networks of open_clip: both halves, with their own preparation of pictures and tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from firthshot.backbones.encoders._base import Encoder, fingerprint
from firthshot.backbones.encoders._hub import HubName, fetch
from firthshot.backbones.encoders._options import Loading
from firthshot.backbones.encoders._packages import require
from firthshot.backbones.encoders._torch import inference, place_for, text_encoder, torch_encoder
from firthshot.backbones.images import LibraryPreparation
from firthshot.errors import FirthshotError, refusing


def load_hub(name: HubName, loading: Loading) -> Encoder:
    """Load a model by architecture and tag, ``ViT-B-32/laion2b_s34b_b79k``, or by hub id."""
    library, options = require("open_clip", str(name), "open-clip"), loading.options
    if options.takes == "text":
        options.check(str(name), "text")
    else:
        options = replace(options, takes=None)
        options.check(str(name), "image", "size", "mean", "std")
    snapshot = fetch(_on_hub(library, name), loading)
    place = f"local-dir:{snapshot.folder}"
    given = {"force_image_size": options.size, "image_mean": options.mean, "image_std": options.std}
    with refusing(f"open_clip cannot build {name}"):
        model, _, transform = library.create_model_and_transforms(
            place, **{key: value for key, value in given.items() if value is not None}
        )
    words = snapshot.words(options)
    if options.takes == "text":
        tokenizer = library.get_tokenizer(place)
        mark = fingerprint("open_clip", snapshot.mark, "text")
        return _texts(model.eval(), tokenizer, name, loading.device, mark, words)
    return _pictures(model, transform, name, loading.device, options.mark(snapshot.mark), words)


def _on_hub(library: Any, name: HubName) -> HubName:
    """Return the repository of an architecture and a tag; anything else is an id itself."""
    architecture, _, tag = name.name.partition("/")
    found = library.get_pretrained_cfg(architecture, tag)
    if not found and architecture in library.list_models():
        tags = ", ".join(library.list_pretrained_tags_by_model(architecture))
        raise FirthshotError(f"open_clip has no {tag!r} of {architecture}: choose from {tags}.")
    if found and not found.get("hf_hub"):
        raise FirthshotError(f"{name} is not on the Hugging Face hub: choose another tag.")
    return replace(name, repo="/".join(found["hf_hub"].split("/")[:2])) if found else name


def _pictures(
    model: Any, transform: Any, name: HubName, device: str, weights: str, words: dict[str, Any]
) -> Encoder:
    from PIL import Image

    side = int(transform(Image.new("RGB", (320, 240))).shape[1])
    told = " ".join(str(transform).split())
    return torch_encoder(
        model,
        LibraryPreparation(side, f"open_clip's transform {told}", transform),
        name=str(name),
        weights=weights,
        embed=lambda network, pictures: network.encode_image(pictures),
        device=device,
        description=f"{name.name} (open_clip, pictures)",
        **words,
    )


def _texts(
    model: Any, tokenizer: Any, name: HubName, device: str, mark: str, words: dict[str, Any]
) -> Encoder:
    place = place_for(device)
    model = model.to(place)

    def run(texts: list[str]) -> np.ndarray:
        with inference(place):
            rows = model.encode_text(tokenizer(texts).to(place), normalize=True)
        return np.asarray(rows.float().cpu().numpy())

    description = f"{name.name} (open_clip, texts)"
    return text_encoder(
        run, name=str(name), mark=mark, module=model, description=description, **words
    )
