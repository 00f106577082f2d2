"""Torch networks as encoders: run in evaluation mode on a device, digested by their weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from firthshot.backbones.encoders._base import Encoder, Network, fingerprint
from firthshot.backbones.encoders._devices import Shrinking, inference, place_for
from firthshot.backbones.images import LibraryPreparation, Preparation
from firthshot.errors import FirthshotError, refusing


def text_encoder(
    run: Callable[[list[str]], np.ndarray], *, name: str, mark: str, module: Any, **words: Any
) -> Encoder:
    """Return a function from texts to rows as an encoder; batches shrink when memory runs out.

    ``mark`` is what identifies weights and options; ``words`` are other fields of `Encoder`.
    """
    careful = Shrinking(run)
    dim = int(careful(["a"]).shape[1])
    return Encoder("text", name, dim, mark, Network(careful, module=module), **words)


def torch_encoder(
    module: Any,
    preparation: Preparation | LibraryPreparation,
    *,
    name: str,
    weights: str,
    embed: Callable[[Any, Any], Any] | None = None,
    device: str = "cpu",
    **words: Any,
) -> Encoder:
    """Wrap a torch network as an encoder of pictures, which runs it in evaluation mode.

    The network keeps the mode that it is in: a loop that trains it may encode now and then.

    Parameters
    ----------
    module : torch.nn.Module
        Any network; its output, or that of ``embed``, is (n, dim), or (n, dim, h, w) and is then
        averaged over places.
    preparation : Preparation
        Size and normalisation of its input.
    name, weights : str
        Its name, and a digest of its weights (`digest_module`, `digest_files`).
    embed : callable, optional
        ``embed(module, pictures)`` instead of ``module(pictures)``.
    device : {"cpu", "cuda", "mps", "auto"}
        Where to run it: the network is moved there, and runs in half precision beside a CPU.
    **words
        Other fields of `Encoder`, such as description, licence and provenance.
    """
    call = embed or (lambda network, pictures: network(pictures))
    run = torch_runner(module, _in_evaluation_mode(call), device)
    size = preparation.size
    unable = f"Encoder {name} cannot take pictures of {size} px (give another: {name}?size=224)"
    with refusing(unable, (RuntimeError, ValueError, IndexError)):
        dim = int(run(np.zeros((1, 3, size, size), np.float32)).shape[1])
    mark = fingerprint(weights, preparation)
    network = Network(run, preparation, module, call)
    words |= {"side": preparation.size, "pictures": preparation.words}
    return Encoder("image", name, dim, mark, network, **words)


def torch_runner(
    module: Any, embed: Callable[[Any, Any], Any], device: str = "cpu"
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the map from pictures as an array to features as an array."""
    import torch

    place = place_for(device)
    # Convolutions of narrow networks are two to three times faster so on a CPU.
    module = module.to(device=place, memory_format=torch.channels_last)

    def run(pictures: np.ndarray) -> np.ndarray:
        batch = torch.from_numpy(pictures).to(place)
        with inference(place):
            rows = _rows(embed(module, batch.contiguous(memory_format=torch.channels_last)))
        return np.asarray(rows.float().cpu().numpy())

    return Shrinking(run)


def _rows(output: Any) -> Any:
    """Return the features (n, dim) in what a network gave."""
    import torch

    if not isinstance(output, torch.Tensor):
        raise FirthshotError(
            f"The network returns a {type(output).__name__}: let it, or embed=, return one tensor "
            "(n, dim)."
        )
    features = output.mean(dim=(2, 3)) if output.ndim == 4 else output
    if features.ndim != 2:
        raise FirthshotError(
            f"The network returns the shape {tuple(output.shape)}: let it, or embed=, return "
            "(n, dim), or (n, dim, h, w)."
        )
    return features


def _in_evaluation_mode(embed: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the call with every layer in evaluation mode, and each in its own mode afterwards."""

    def evaluated(module: Any, pictures: Any) -> Any:
        # a frozen TorchScript module has no mode
        training = [layer for layer in module.modules() if getattr(layer, "training", False)]
        module.eval()
        try:
            return embed(module, pictures)
        finally:
            for layer in training:
                layer.training = True

    return evaluated


def digest_module(module: Any) -> str:
    """Return a digest of a torch module's parameters and buffers."""
    state = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        array = tensor.detach().cpu().contiguous()
        state.update(f"{name} {array.dtype} {tuple(array.shape)}\n".encode())
        state.update(array.flatten().view(-1).numpy().tobytes())
    return state.hexdigest()
