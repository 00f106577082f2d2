"""Our own checkpoints, and other people's weights for an architecture that we know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firthshot.backbones.encoders._base import Encoder
from firthshot.backbones.encoders._options import OF_PICTURES, EncoderOptions, refuse_others
from firthshot.backbones.encoders._packages import load_weights
from firthshot.backbones.encoders._torch import digest_module, torch_encoder
from firthshot.backbones.images import Preparation
from firthshot.backbones.weights import BEST
from firthshot.errors import FirthshotError, reason

_PREFIXES = ("module.", "backbone.", "encoder.", "learner.network.")
_USUAL = 84
_ALWAYS_BUILT = 100_000_000  # weights: a network below this may say itself what is missing


def load_checkpoint(path: Path, options: EncoderOptions, device: str) -> Encoder:
    """Load weights: a safetensors checkpoint of `firthshot backbone train`, or any state dict.

    The options must name the architecture where the file does not. The side of the input is theirs,
    else that of the training, else 84.
    """
    refuse_others(path.name, options, *OF_PICTURES)
    weights, notes = _read(path)
    setup = notes.get("setup", {})
    name = options.architecture or setup.get("architecture")
    if name is None:
        raise FirthshotError(
            f"{path} holds weights but not the name of their network: name the architecture, as "
            f"in {path.name}?architecture=resnet18."
        )
    prepared = options.prepare(Preparation(int(setup.get("size", _USUAL))))
    network = _network(path, name, weights)
    return torch_encoder(
        network,
        prepared,
        name=path.parent.name if path.name == BEST else path.stem,
        weights=digest_module(network),  # notes and a head in the file do not matter
        embed=lambda network, pictures: network.embed(pictures),
        device=device,
        files=(str(path),),
        description=f"{name} at {prepared.size} px",
        provenance=_provenance(path, name, notes),
    )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    if path.suffix == ".safetensors":
        from firthshot.backbones.training._files import read_tensors

        tensors, notes = read_tensors(path)
        _check_notes(path, notes)
        return tensors, notes
    content = load_weights(path)
    for key in ("state_dict", "state", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise FirthshotError(f"{path} does not hold a dict of weights.")
    return content, {}


def _check_notes(path: Path, notes: dict[str, Any]) -> None:
    """Refuse notes that no training of firthshot writes; a foreign file has none."""
    setup, epoch, classes = notes.get("setup"), notes.get("epoch", {}), notes.get("classes")
    if notes and not (
        isinstance(setup, dict)
        and isinstance(setup.get("architecture"), str)
        and type(setup.get("size")) is int
        and isinstance(epoch, dict)
        and type(epoch.get("monitored_accuracy", 0.0)) in (int, float)
        and isinstance(classes, list)
        and all(isinstance(name, str) for name in classes)
    ):
        raise FirthshotError(f"{path} has notes that are not of a firthshot training: train anew.")


def _refuse_larger(path: Path, name: str, weights: dict[str, Any]) -> None:
    """Refuse a network that the file cannot fill, before memory is reserved for it."""
    import torch

    from firthshot.backbones.architectures import make_backbone

    with torch.device("meta"):  # shapes only
        needed = sum(value.numel() for value in make_backbone(name).state_dict().values())
    given = sum(value.numel() for value in weights.values() if isinstance(value, torch.Tensor))
    if needed > max(given, _ALWAYS_BUILT):
        raise FirthshotError(
            f"{path} does not fit {name}, which has {needed:,} weights: the file has {given:,}."
        )


def _network(path: Path, name: str, weights: dict[str, Any]) -> Any:
    """Build the network and fill it; a classifier on top is left out, nothing may be missing."""
    from firthshot.backbones.architectures import make_backbone

    _refuse_larger(path, name, weights)
    network = make_backbone(name)
    own = _strip(weights, set(network.state_dict()))
    try:
        outcome = network.load_state_dict(own, strict=False)
    except RuntimeError as error:
        raise _misfit(path, name, reason(error)) from None
    if outcome.missing_keys:
        first, *others = outcome.missing_keys
        more = f" and {len(others)} more weights" if others else ""
        raise _misfit(path, name, f"it lacks {first}{more}")
    # Whatever is too many must be a classifier: other layers mean another network.
    layers = {key.split(".")[0] for key in network.state_dict()}
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


def _provenance(path: Path, name: str, notes: dict[str, Any]) -> str:
    if not notes:
        return f"{name} with the weights of {path.name}"
    setup = notes["setup"]
    recipe = setup.get("recipe", {})
    epoch = notes.get("epoch", {})
    words = f"{name} trained with firthshot on {_base_words(notes['classes'])}"
    if isinstance(recipe, dict) and recipe.get("name"):
        words += f", recipe {recipe['name']}"
    if "monitored_accuracy" in epoch:
        words += (
            f", best checkpoint by accuracy on the monitored tenth of the base pictures "
            f"({100 * epoch['monitored_accuracy']:.1f} %)"
        )
    return words


def _base_words(classes: list[str]) -> str:
    """Say on which classes a network was trained, by the name of the data set if it is known."""
    from firthshot.backbones.datasets import published
    from firthshot.backbones.datasets._splits import TITLES

    known = [name for name, own in published().items() if set(own["base"]) == set(classes)]
    owner = f" of {TITLES[known[0]]}" if known else ""
    return f"the {len(classes)} base classes{owner}"
