"""Torch networks as encoders, in evaluation mode, and whatever else a user holds in Python."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from firthshot.backbones.encoders._base import Encoder, Kind, Network, fingerprint
from firthshot.backbones.encoders._memory import Shrinking
from firthshot.backbones.encoders._options import Loading
from firthshot.backbones.images import LibraryPreparation, Preparation
from firthshot.errors import FirthshotError, check_choice, refusing

DEVICES = ("auto", "cpu", "cuda", "mps")
_SIDE = 224  # of pictures for a module that somebody hands over


def probed(kind: Kind, name: str, mark: str, network: Network, **words: Any) -> Encoder:
    """Return an encoder whose width a first call tells.

    ``mark`` is what identifies weights and options; ``words`` are other fields of `Encoder`.
    """
    first: Any = ["a"]
    if kind == "image":
        assert network.preparation is not None
        size = network.preparation.size
        first = np.zeros((1, 3, size, size), np.float32)
        words |= {"side": size, "pictures": network.preparation.words}
    return Encoder(kind, name, int(network.run(first).shape[1]), mark, network, **words)


def text_encoder(
    run: Callable[[list[str]], np.ndarray], *, name: str, mark: str, module: Any, **words: Any
) -> Encoder:
    """Return a function from texts to rows as an encoder; batches shrink when memory runs out."""
    return probed("text", name, mark, Network(Shrinking(run), module=module), **words)


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
    network = Network(run, preparation, module, call)
    with refusing(unable, (RuntimeError, ValueError, IndexError)):
        return probed("image", name, fingerprint(weights, preparation), network, **words)


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


def place_for(device: str) -> Any:
    """Return the torch device of a name; "auto" takes an accelerator where there is one."""
    import torch

    check_choice("The device", device, DEVICES)
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return torch.device(next((name for name, usable in there.items() if usable), "cpu"))
    if not there.get(device, True):
        raise FirthshotError(
            f"torch sees no {device} device on this machine: use the device cpu, or auto, which "
            "takes what there is.",
            "device",
        )
    return torch.device(device)


@contextmanager
def inference(place: Any) -> Iterator[None]:
    """Compute without gradients; matrix products in half precision on accelerators."""
    import torch

    half = torch.autocast(place.type, torch.float16, enabled=runs_in_half(place))
    with torch.inference_mode(), half:
        yield


def runs_in_half(place: Any) -> bool:
    """Tell whether a device computes in float16.

    A CPU does not: bfloat16, the half that some CPUs are quick at, moves rows of MiniLM by more
    than 1e-3, so that a model would depend on the machine; float16 moves them by 2e-4.
    """
    return bool(place.type != "cpu")


def wrap(thing: Any, kind: Kind | None, loading: Loading) -> Encoder:
    """Return an object as an encoder.

    A torch module takes prepared pictures; a callable takes a list of what is to be encoded, texts
    or paths, and returns an array (n, dim).
    """
    if isinstance(thing, Encoder):
        return thing
    if _is_a(thing, "sentence_transformers", "SentenceTransformer"):
        from firthshot.backbones.encoders._libraries import wrap_sentences

        weights = digest_module(thing)
        name = f"SentenceTransformer ({weights[:8]})"
        return wrap_sentences(thing, loading.options, name=name, weights=weights)
    if _is_a(thing, "torch.nn", "Module") and kind != "text":
        prepared = loading.options.prepare(Preparation(_SIDE))
        name, weights = type(thing).__name__, digest_module(thing)
        return torch_encoder(thing, prepared, name=name, weights=weights, device=loading.device)
    if not callable(thing):
        raise FirthshotError(
            f"A {type(thing).__name__} is no encoder: give a name, a path, a torch or "
            "sentence-transformers model, or a function from a list to an array."
        )
    return _from_function(thing, kind or "text")


def _is_a(thing: Any, module: str, name: str) -> bool:
    """Tell whether a thing is of a class, importing nothing: without the module it cannot be."""
    known = getattr(sys.modules.get(module), name, None)
    return known is not None and isinstance(thing, known)


def _from_function(function: Any, kind: Kind) -> Encoder:
    """Return a function as an encoder; what it computes is not known, so nothing is cached."""
    named = getattr(function, "__qualname__", type(function).__qualname__)
    name = f"{getattr(function, '__module__', '')}.{named}".lstrip(".")
    told = f"the Python function {name}"
    return Encoder(
        kind,
        name,
        0,
        fingerprint("function", name),
        Network(function),
        spec=f"python:{name}",
        description=told,
        provenance=told,
        cacheable=False,
    )
