"""Networks of the user's own that carry their code, by path: TorchScript and ONNX."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from firthshot.backbones.encoders._base import Encoder, Network, digest_files, fingerprint
from firthshot.backbones.encoders._options import Loading
from firthshot.backbones.encoders._packages import require
from firthshot.backbones.encoders._torch import probed, torch_encoder
from firthshot.backbones.images import Preparation
from firthshot.errors import FirthshotError, refusing
from firthshot.guard import zip_members

_USUAL = 224


def load_onnx(path: Path, loading: Loading) -> Encoder:
    """Load an ONNX file: input (n, 3, size, size), first output (n, dim) or (n, dim, h, w)."""
    options, device = loading.options, loading.device
    if device not in ("auto", "cpu"):
        raise FirthshotError(f"{path} runs on the CPU: leave out the device {device}.", "device")
    runtime = require("onnxruntime", str(path), "onnx")
    with refusing(f"{path} is not a usable ONNX file"):
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape
    colours = shape[1] if len(shape) == 4 else None
    if len(session.get_inputs()) != 1 or colours is None or colours not in (3, str(colours)):
        raise FirthshotError(f"{path} does not take pictures (n, 3, size, size) but {shape}.")
    side = shape[2] if isinstance(shape[2], int) else None
    if side and options.size not in (None, side):
        raise FirthshotError(
            f"{path} takes pictures of {side} px only: leave out the size {options.size}."
        )
    prepared = options.prepare(Preparation(side or _USUAL))
    run = _onnx_runner(session, shape[0] if isinstance(shape[0], int) else None)
    return probed(
        "image",
        path.stem,
        fingerprint(digest_files([path]), prepared),
        Network(run, prepared),
        files=(str(path),),
        description=f"{path.name} (ONNX)",
        provenance=f"the ONNX file {path.name}",
    )


def _onnx_runner(session: Any, fixed: int | None) -> Callable[[np.ndarray], np.ndarray]:
    """Return the map from pictures to features, in batches of the file's own length if fixed."""
    entry = session.get_inputs()[0].name

    def run(pictures: np.ndarray) -> np.ndarray:
        step = fixed or max(len(pictures), 1)
        parts = []
        for start in range(0, len(pictures), step):
            part = np.ascontiguousarray(pictures[start : start + step])
            short = step - len(part) if fixed else 0
            padded = np.pad(part, ((0, short), (0, 0), (0, 0), (0, 0)))
            out = np.asarray(session.run(None, {entry: padded})[0])[: len(part)]
            parts.append(out.mean(axis=(2, 3)) if out.ndim == 4 else out.reshape(len(part), -1))
        return np.concatenate(parts)

    return run


def load_torchscript(path: Path, loading: Loading) -> Encoder:
    """Load a TorchScript file."""
    torch = require("torch", str(path), "torch")
    unusable = refusing(f"{path} is not a usable TorchScript file", (RuntimeError, ValueError))
    with unusable, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated; people's files remain
        module = torch.jit.load(str(path), map_location="cpu")
    return torch_encoder(
        module,
        loading.options.prepare(Preparation(_USUAL)),
        name=path.stem,
        weights=digest_files([path]),
        device=loading.device,
        files=(str(path),),
        description=f"{path.name} (TorchScript)",
        provenance=f"the TorchScript file {path.name}",
    )


def is_torchscript(path: Path) -> bool:
    """Tell whether a file is a TorchScript archive, which carries its code."""
    return any(member.filename.endswith("/constants.pkl") for member in zip_members(path))
