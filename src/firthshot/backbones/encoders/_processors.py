"""Image processors of transformers: how a model's pictures are prepared, as its own files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from firthshot.backbones.encoders._options import EncoderOptions
from firthshot.backbones.images import LibraryPreparation
from firthshot.errors import FirthshotError, reason, refusing


def processor_preparation(processor: Any, name: str) -> LibraryPreparation:
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


def load_processor(library: Any, folder: Path, options: EncoderOptions) -> Any:
    """Load the image processor; Pillow's, so that features do not depend on torchvision."""
    modern = int(library.__version__.split(".")[0]) >= 5
    backend: dict[str, Any] = {"backend": "pil"} if modern else {"use_fast": False}
    processor = load_part(folder, library.AutoImageProcessor, **backend)
    if changes := _changes(processor, options):
        backend |= changes
        processor = load_part(folder, library.AutoImageProcessor, **backend)
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


def load_part(folder: Path, kind: Any, **options: Any) -> Any:
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
