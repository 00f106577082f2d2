"""Networks by path: our checkpoints, other people's weights, and TorchScript and ONNX."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from firthshot.backbones.encoders._base import Encoder, Network, digest_files, fingerprint
from firthshot.backbones.encoders._names import BEST
from firthshot.backbones.encoders._options import Loading
from firthshot.backbones.encoders._packages import load_weights, require
from firthshot.backbones.encoders._torch import digest_module, probed, torch_encoder
from firthshot.backbones.images import Preparation
from firthshot.errors import FirthshotError, reason, refusing
from firthshot.guard import zip_members

_PREFIXES = ("module.", "backbone.", "encoder.", "learner.network.")
_USUAL, _USUAL_OF_OTHERS = 84, 224  # sides of pictures where nobody says another


@dataclass(frozen=True)
class _Setup:
    """What a checkpoint says of its training."""

    architecture: str
    size: int
    recipe: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Epoch:
    monitored_accuracy: float | None = None


@dataclass(frozen=True)
class _Notes:
    setup: _Setup
    classes: list[str]
    epoch: _Epoch = field(default_factory=_Epoch)


def load_checkpoint(path: Path, loading: Loading) -> Encoder:
    """Load weights: a safetensors checkpoint of `firthshot backbone train`, or any state dict.

    The options must name the architecture where the file does not. The side of the input is theirs,
    else that of the training, else 84.
    """
    options = loading.options
    options.check(path.name, "image", "size", "resize", "mean", "std", "architecture")
    weights, notes = _read(path)
    name = options.architecture or (None if notes is None else notes.setup.architecture)
    if name is None:
        raise FirthshotError(
            f"{path} holds weights but not the name of their network: name the architecture, as "
            f"in {path.name}?architecture=resnet18."
        )
    prepared = options.prepare(Preparation(_USUAL if notes is None else notes.setup.size))
    network = _network(path, name, weights)
    return torch_encoder(
        network,
        prepared,
        name=path.parent.name if path.name == BEST else path.stem,
        weights=digest_module(network),  # notes and a head in the file do not matter
        embed=lambda network, pictures: network.embed(pictures),
        device=loading.device,
        files=(str(path),),
        description=f"{name} at {prepared.size} px",
        provenance=(
            f"{name} with the weights of {path.name}" if notes is None else _trained(name, notes)
        ),
    )


def _read(path: Path) -> tuple[dict[str, Any], _Notes | None]:
    """Return the weights, and the notes that a training of ours has left; others have none."""
    if path.suffix == ".safetensors":
        from firthshot.backbones.training._files import read_tensors

        tensors, notes = read_tensors(path)
        try:
            return tensors, msgspec.convert(notes, _Notes) if notes else None
        except msgspec.ValidationError:
            raise FirthshotError(
                f"{path} has notes that are not of a firthshot training: train anew."
            ) from None
    content = load_weights(path)
    for key in ("state_dict", "state", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise FirthshotError(f"{path} does not hold a dict of weights.")
    return content, None


def _network(path: Path, name: str, weights: dict[str, Any]) -> Any:
    """Build the network of the file's weights; a classifier on top is left out.

    No memory is reserved for weights that the file lacks, whatever network it names.
    """
    import torch

    from firthshot.backbones.architectures import make_backbone

    with torch.device("meta"):  # shapes only
        network = make_backbone(name)
    wanted = network.state_dict()
    own = {
        key: value.to(wanted[key].dtype) if torch.is_tensor(value) and key in wanted else value
        for key, value in _strip(weights, set(wanted)).items()
    }
    try:
        outcome = network.load_state_dict(own, strict=False, assign=True)
    except RuntimeError as error:
        raise _misfit(path, name, reason(error)) from None
    if outcome.missing_keys:
        first, *others = outcome.missing_keys
        more = f" and {len(others)} more weights" if others else ""
        raise _misfit(path, name, f"it lacks {first}{more}")
    # Whatever is too many must be a classifier: other layers mean another network.
    layers = {key.split(".")[0] for key in wanted}
    strange = [key for key in outcome.unexpected_keys if key.split(".")[0] in layers]
    if strange:
        raise _misfit(path, name, f"which has no {strange[0]}")
    return network


def _misfit(path: Path, name: str, why: str) -> FirthshotError:
    return FirthshotError(
        f"{path} does not fit {name}, {why}: give another architecture; `firthshot backbone list` "
        "lists them."
    )


def _strip(weights: dict[str, Any], wanted: set[str]) -> dict[str, Any]:
    """Remove a prefix that a wrapper put before every name, if the names fit without it."""
    for prefix in ("", *_PREFIXES):
        own = {key.removeprefix(prefix): value for key, value in weights.items()}
        if wanted & set(own):
            return own
    return weights


def _trained(name: str, notes: _Notes) -> str:
    """Return on what a network was trained, how, and how well it did."""
    from firthshot.backbones.datasets import TITLES, published

    classes, accuracy = notes.classes, notes.epoch.monitored_accuracy
    known = [name for name, own in published().items() if set(own["base"]) == set(classes)]
    owner = f" of {TITLES[known[0]]}" if known else ""
    words = f"{name} trained with firthshot on the {len(classes)} base classes{owner}"
    if recipe := notes.setup.recipe.get("name"):
        words += f", recipe {recipe}"
    if accuracy is not None:
        words += (
            f", best checkpoint by accuracy on the monitored tenth of the base pictures "
            f"({100 * accuracy:.1f} %)"
        )
    return words


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
    prepared = options.prepare(Preparation(side or _USUAL_OF_OTHERS))
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
        loading.options.prepare(Preparation(_USUAL_OF_OTHERS)),
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
