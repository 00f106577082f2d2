"""Networks of transformers, from folders and from the hub: texts, pictures, and both (CLIP).

No code of a folder or a repository is ever run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from firthshot.backbones.encoders._base import Encoder, Kind, check_kind, digest_files, fingerprint
from firthshot.backbones.encoders._hub import HubName, fetch
from firthshot.backbones.encoders._libraries import READ
from firthshot.backbones.encoders._options import EncoderOptions, Loading
from firthshot.backbones.encoders._packages import require
from firthshot.backbones.encoders._torch import inference, place_for, text_encoder, torch_encoder
from firthshot.backbones.images import LibraryPreparation
from firthshot.errors import FirthshotError, reason, refusing

_DEFAULT_TOKENS = 512
_OF_PICTURES = ("preprocessor_config.json", "processor_config.json")
_OF_TEXTS = ("tokenizer_config.json", "tokenizer.json", "vocab.txt", "vocab.json", "spiece.model")


def load_transformers(name: HubName, loading: Loading) -> Encoder:
    """Load a model of the hub."""
    require("transformers", str(name), "hf")
    snapshot = fetch(name, loading)
    options = loading.options
    if options.takes == _usual_kind(snapshot.folder):
        options = replace(options, takes=None)
    words = snapshot.words(options)
    return load_transformers_folder(
        snapshot.folder, loading, name=str(name), weights=snapshot.mark, **words
    )


def load_transformers_folder(
    folder: Path,
    loading: Loading,
    *,
    name: str | None = None,
    weights: str | None = None,
    extra: str = "hf",
    **words: Any,
) -> Encoder:
    """Load a folder: pictures if it says how to prepare them and texts are not asked for.

    Without ``weights``, which identifies them, a digest of the files does. ``extra`` brings
    transformers, for a message; ``words`` are other fields of `Encoder`.
    """
    name = name or folder.resolve().name
    library = require("transformers", name, extra)
    library.utils.logging.disable_progress_bar()  # it would draw a bar for every little file
    held = sorted(path for path in folder.iterdir() if path.suffix in READ)
    words.setdefault("files", tuple(map(str, held)))
    words.setdefault("provenance", f"the transformers folder {name}")
    load = _load_texts if _kind(folder, loading.options, name) == "text" else _load_pictures
    return load(library, folder, loading, name, weights or digest_files(held), words)


def _usual_kind(folder: Path) -> Kind:
    return "image" if any((folder / one).is_file() for one in _OF_PICTURES) else "text"


def _kind(folder: Path, options: EncoderOptions, name: str) -> str:
    """Return what a folder is to encode; a text model for pictures, or the reverse, is refused."""
    usual = _usual_kind(folder)
    if usual == "text" or not any((folder / one).is_file() for one in _OF_TEXTS):
        check_kind(name, usual, options.takes)
    return options.takes or usual


def _load_texts(
    library: Any, folder: Path, loading: Loading, name: str, weights: str, words: dict[str, Any]
) -> Encoder:
    loading.options.check(name, "text", "pooling")
    with _quiet(library):
        tokenizer = _load_part(folder, library.AutoTokenizer)
        model, lacking = _model(library, folder)
    said = _json(folder / "1_Pooling" / "config.json").get("pooling_mode_cls_token", False)
    pooling = loading.options.pooling or ("cls" if said else "mean")
    longest = _longest(folder, tokenizer, model)
    run = _text_runner(tokenizer, model, longest, _pooling(pooling, lacking, name), loading.device)
    how = {"cls": "first token", "mean": "mean over tokens", "pooler": "pooled output"}[pooling]
    words.setdefault("description", f"{name} ({model.config.model_type}), {how}, unit length")
    # True and False are those of model files that were written before there was "pooler"
    mark = fingerprint(weights, longest, {"cls": True, "mean": False}.get(pooling, pooling))
    return text_encoder(run, name=name, mark=mark, module=model, **words)


def _longest(folder: Path, tokenizer: Any, model: Any) -> int:
    said = _json(folder / "sentence_bert_config.json").get("max_seq_length")
    towers = getattr(model.config, "text_config", model.config)
    most = int(getattr(towers, "max_position_embeddings", None) or _DEFAULT_TOKENS)
    return int(said or min(int(tokenizer.model_max_length), most, _DEFAULT_TOKENS))


def _text_runner(
    tokenizer: Any, model: Any, longest: int, pool: Callable[[Any, Any], Any], device: str
) -> Callable[[list[str]], np.ndarray]:
    import torch

    place = place_for(device)
    model = model.to(place)
    both = hasattr(model, "get_text_features")
    # SigLIP was trained on texts of one length
    padding = "max_length" if "siglip" in model.config.model_type else True

    def run(texts: list[str]) -> np.ndarray:
        tokens = tokenizer(
            texts, padding=padding, truncation=True, max_length=longest, return_tensors="pt"
        ).to(place)
        with inference(place):
            rows = _tensor(model.get_text_features(**tokens)) if both else None
            if rows is None:
                rows = pool(model(**tokens), tokens.get("attention_mask"))
        return np.asarray(torch.nn.functional.normalize(rows.float(), dim=1).cpu().numpy())

    return run


def _load_pictures(
    library: Any, folder: Path, loading: Loading, name: str, weights: str, words: dict[str, Any]
) -> Encoder:
    loading.options.check(name, "image", "pooling", "size", "resize", "mean", "std")
    with _quiet(library):
        processor = _load_processor(library, folder, loading.options)
        model, lacking = _model(library, folder)
    preparation = _preparation(processor, name)
    pooling = loading.options.pooling
    words.setdefault("description", f"{name} ({model.config.model_type})")
    return torch_encoder(
        model,
        preparation,
        name=name,
        weights=loading.options.mark(weights),
        embed=_picture_rows(pooling, _pooling(pooling, lacking, name)),
        device=loading.device,
        **words,
    )


def _picture_rows(
    pooling: str | None, pool: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """Return the call of a model: the features that it compares with texts, or pooled tokens."""

    def rows(model: Any, pictures: Any) -> Any:
        if pooling is None and hasattr(model, "get_image_features"):
            return _tensor(model.get_image_features(pixel_values=pictures))
        tower = getattr(model, "vision_model", model)
        return pool(tower(pixel_values=pictures), None)

    return rows


def _pooling(how: str | None, lacking: set[str], name: str) -> Callable[[Any, Any], Any]:
    """Return the map from a model's output and mask to one row each.

    The pooled output is taken only if its weights were in the files: transformers fills others at
    random.
    """
    trained = not any("pooler" in key for key in lacking)
    if how == "pooler" and not trained:
        raise FirthshotError(f"Encoder {name} has no trained pooler: choose pooling cls or mean.")

    def pool(output: Any, mask: Any) -> Any:
        pooled: Any = getattr(output, "pooler_output", None)
        hidden = output.last_hidden_state
        if how == "pooler" or (how is None and trained and pooled is not None):
            return pooled.flatten(1)
        if hidden.ndim == 4:
            return hidden
        if how == "cls" or (how is None and pooled is not None):
            return hidden[:, 0]
        if mask is None:
            return hidden.mean(dim=1)
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weight).sum(1) / weight.sum(1)

    return pool


def _tensor(features: Any) -> Any:
    """Return the features; older versions of transformers give the tensor itself."""
    return getattr(features, "pooler_output", features)


def _model(library: Any, folder: Path) -> tuple[Any, set[str]]:
    """Return the model, and the names of the weights that the files lack, a pooler's at most."""
    model, found = _load_part(
        folder,
        library.AutoModel,
        dtype="float32",
        weights_only=True,
        output_loading_info=True,
    )
    lacking = set(found["missing_keys"])
    if strange := sorted(key for key in lacking if "pooler" not in key):
        raise FirthshotError(
            f"{folder} lacks the weights {strange[0]}: it was saved for another task or is damaged."
        )
    return model.eval(), lacking


@contextmanager
def _quiet(library: Any) -> Iterator[None]:
    """Keep transformers from remarks on weights that are not used here."""
    before = library.utils.logging.get_verbosity()
    library.utils.logging.set_verbosity_error()
    try:
        yield
    finally:
        library.utils.logging.set_verbosity(before)


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    with refusing(f"{path} is not valid JSON", ValueError):
        content = json.loads(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


def _preparation(processor: Any, name: str) -> LibraryPreparation:
    """Return the preparation of pictures that a processor does."""
    from PIL import Image

    def process(image: Any) -> np.ndarray:
        return np.asarray(processor(image, return_tensors="np")["pixel_values"][0])

    unable = f"Encoder {name} cannot prepare pictures as its processor says"
    with refusing(unable, (ValueError, KeyError, TypeError)):
        shape = process(Image.new("RGB", (320, 240))).shape
    if len(shape) != 3 or shape[0] != 3:
        raise FirthshotError(f"Encoder {name} does not take pictures but inputs {shape}.")
    kind = type(processor).__name__.removesuffix("Pil").removesuffix("Fast")
    kept = ("size", "crop_size", "image_mean", "image_std", "resample")
    said = {key: getattr(processor, key, None) for key in kept}
    told = ", ".join(f"{key} {value}" for key, value in said.items() if value is not None)
    return LibraryPreparation(int(shape[1]), f"transformers' {kind} ({told})", process)


def _load_processor(library: Any, folder: Path, options: EncoderOptions) -> Any:
    """Load the image processor; Pillow's, so that features do not depend on torchvision."""
    modern = int(library.__version__.split(".")[0]) >= 5
    backend: dict[str, Any] = {"backend": "pil"} if modern else {"use_fast": False}
    processor = _load_part(folder, library.AutoImageProcessor, **backend)
    if changes := _changes(processor, options):
        backend |= changes
        processor = _load_part(folder, library.AutoImageProcessor, **backend)
    return processor


def _changes(processor: Any, options: EncoderOptions) -> dict[str, Any]:
    """Return a user's options in the words of transformers' processors."""
    changes: dict[str, Any] = {}
    if options.mean is not None:
        changes["image_mean"] = list(options.mean)
    if options.std is not None:
        changes["image_std"] = list(options.std)
    side, crop = options.size, getattr(processor, "crop_size", None)
    if side is None and options.resize is None:
        return changes
    if not crop or not getattr(processor, "do_center_crop", True):
        length = side or options.resize
        return changes | {"size": {"height": length, "width": length}}
    before, size = _length(crop), _length(processor.size)
    side = side or before
    short = options.resize or round(size * side / before)
    return changes | {
        "size": {"shortest_edge": short},
        "crop_size": {"height": side, "width": side},
    }


def _length(size: Any) -> int:
    said = dict(size) if not isinstance(size, int) else {"height": size}
    return int(said.get("shortest_edge") or said["height"])


def _load_part(folder: Path, kind: Any, **options: Any) -> Any:
    """Load one part of a folder with a class of transformers; no code of the folder runs."""
    try:
        return kind.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False, **options
        )
    except Exception as error:  # noqa: BLE001 - a damaged folder may raise anything
        if "trust_remote_code" in str(error):
            raise FirthshotError(
                f"{folder} brings code of its own, which is never run here: choose a model that "
                "transformers itself knows."
            ) from None
        raise FirthshotError(
            f"{folder} is not a usable transformers folder: {reason(error)}."
        ) from None
