"""Networks of other libraries, prepared as these say: timm, open_clip, sentence-transformers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from firthshot.backbones.encoders._base import Encoder, digest_files, fingerprint
from firthshot.backbones.encoders._hub import HubName, fetch
from firthshot.backbones.encoders._options import EncoderOptions, Loading
from firthshot.backbones.encoders._packages import require
from firthshot.backbones.encoders._torch import inference, place_for, text_encoder, torch_encoder
from firthshot.backbones.images import LibraryPreparation
from firthshot.errors import FirthshotError, refusing

READ = (".json", ".txt", ".safetensors", ".bin", ".model")  # of a folder that a library has saved


def load_timm(name: HubName, loading: Loading) -> Encoder:
    """Load a network of the hub's ``timm/`` by its name in timm, without its classifier."""
    library, options = require("timm", str(name), "timm"), loading.options
    options.check(str(name), "image", "size", "mean", "std")
    snapshot = fetch(_full_name(library, name), loading)
    changes = {"img_size": options.size} if options.size else {}
    with refusing(f"timm cannot build {name}"):
        model = library.create_model(
            f"local-dir:{snapshot.folder}", pretrained=True, num_classes=0, **changes
        )
    return torch_encoder(
        model,
        _timm_preparation(library, model, options.given),
        name=str(name),
        weights=options.mark(snapshot.mark),
        device=loading.device,
        description=f"{name.name} (timm)",
        **snapshot.words(options),
    )


def _full_name(library: Any, name: HubName) -> HubName:
    """Return the name with the tag that timm takes by default, as its repositories have it."""
    if "." in name.name:
        return name
    found = library.get_pretrained_cfg(name.name) if library.is_model(name.name) else None
    if found is None or not found.tag:
        raise FirthshotError(f"timm has no weights for {name.name!r}: see timm.list_pretrained().")
    full = f"{name.name}.{found.tag}"
    return replace(name, name=full, repo=f"timm/{full}")


def _timm_preparation(library: Any, model: Any, given: dict[str, Any]) -> LibraryPreparation:
    told: dict[str, Any] = {key: given[key] for key in ("mean", "std") if key in given}
    if "size" in given:
        told["input_size"] = (3, given["size"], given["size"])
    config = library.data.resolve_data_config(told, model=model)
    transform = library.data.create_transform(**config, is_training=False)
    words = ", ".join(f"{key} {value}" for key, value in sorted(config.items()))
    side = int(config["input_size"][-1])
    return LibraryPreparation(side, f"timm's transform ({words})", transform)


def load_open_clip(name: HubName, loading: Loading) -> Encoder:
    """Load either half of a model by architecture and tag, as ``ViT-B-32/openai``, or by hub id."""
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


def load_sentences(name: HubName, loading: Loading) -> Encoder:
    """Load a model of the hub with its own pooling, prompts and normalisation."""
    require("sentence_transformers", str(name), "st")
    loading.options.check(str(name), "text", "prompt")
    snapshot = fetch(name, loading)
    words = snapshot.words(loading.options)
    return _load_sentences(snapshot.folder, loading, str(name), snapshot.mark, words)


def load_sentences_folder(folder: Path, loading: Loading) -> Encoder:
    """Load a folder that sentence-transformers has saved."""
    held = sorted(path for path in folder.rglob("*") if path.suffix in READ)
    name = folder.resolve().name
    provenance = f"the sentence-transformers folder {name}"
    words = {"files": tuple(map(str, held)), "provenance": provenance}
    return _load_sentences(folder, loading, name, digest_files(held), words)


def _load_sentences(
    folder: Path, loading: Loading, name: str, weights: str, words: dict[str, Any]
) -> Encoder:
    library = require("sentence_transformers", name, "st")
    place = place_for(loading.device)
    with refusing(f"sentence-transformers cannot build {name}"):
        model = library.SentenceTransformer(
            str(folder), device=str(place), local_files_only=True, trust_remote_code=False
        )
    return wrap_sentences(model, loading.options, name=name, weights=weights, **words)


def wrap_sentences(
    model: Any, options: EncoderOptions, *, name: str, weights: str, **words: Any
) -> Encoder:
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
