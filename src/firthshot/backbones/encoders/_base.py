"""What an encoder is: a name, a width, a fingerprint, and one call from a batch to features."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from firthshot.errors import FirthshotError, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from firthshot.backbones.images import Preparation


@dataclass(frozen=True)
class ImageEncoder:
    """Encode pictures: normalise the pixels, run the network.

    Attributes
    ----------
    name : str
        Short name.
    dim : int
        Width of a row of features.
    fingerprint : str
        Digest of weights and preparation: the same fingerprint, the same features.
    preparation : Preparation
        Size and normalisation of the pictures.
    run : callable
        Maps float32 (n, 3, size, size) to (n, dim).
    description, licence, provenance : str
        What it is, on what terms, and how it was trained.
    module : torch.nn.Module, optional
        The network behind it; batch statistics need it, and ``embed``, which calls it.
    """

    name: str
    dim: int
    fingerprint: str
    preparation: Preparation
    run: Callable[[np.ndarray], np.ndarray]
    description: str = ""
    licence: str = ""
    provenance: str = ""
    module: Any = None
    embed: Callable[[Any, Any], Any] | None = None
    kind: ClassVar[Literal["image"]] = "image"

    def encode(self, batch: np.ndarray) -> np.ndarray:
        """Return features (n, dim) float32 of pixels (n, size, size, 3) uint8."""
        try:
            features = np.asarray(self.run(self.preparation.normalise(batch)), np.float32)
        except _WrongOutputError as error:
            raise FirthshotError(f"Encoder {self.name} {error}.") from None
        except (RuntimeError, ValueError) as error:  # such as batch statistics of a single value
            raise FirthshotError(
                f"Encoder {self.name} fails on a batch of {len(batch)}: {reason(error)}."
            ) from None
        return _checked(features, (len(batch), self.dim), self.name)

    def with_batch_statistics(self) -> ImageEncoder:
        """Return the encoder with BatchNorm layers that use the statistics of each batch.

        The published ResNet features were taken so, from class-sorted batches of 32: the network
        had been left in training mode.
        """
        from torch.nn.modules.batchnorm import _BatchNorm

        module: Any = copy.deepcopy(self.module)
        known = [] if module is None else module.modules()
        layers = [layer for layer in known if isinstance(layer, _BatchNorm)]
        if not layers or self.embed is None:
            raise FirthshotError(
                f"Encoder {self.name} shows no BatchNorm layers: batch statistics need a torch "
                "network with such layers.",
                "bn_train_sorted",
            )
        module.eval()
        for layer in layers:
            layer.train()
        return replace(self, module=module, run=torch_runner(module, self.embed))


@dataclass(frozen=True)
class TextEncoder:
    """Encode texts, as `ImageEncoder` does pictures; ``run`` maps n texts to (n, dim)."""

    name: str
    dim: int
    fingerprint: str
    run: Callable[[list[str]], np.ndarray]
    description: str = ""
    licence: str = ""
    provenance: str = ""
    kind: ClassVar[Literal["text"]] = "text"

    def encode(self, batch: Sequence[str]) -> np.ndarray:
        """Return features (n, dim) float32 of n texts."""
        features = np.asarray(self.run(list(batch)), np.float32)
        return _checked(features, (len(batch), self.dim), self.name)


Encoder = ImageEncoder | TextEncoder


def torch_encoder(
    module: Any,
    preparation: Preparation,
    *,
    name: str,
    weights: str,
    embed: Callable[[Any, Any], Any] | None = None,
    **words: str,
) -> ImageEncoder:
    """Wrap a torch network as an encoder, which runs it in evaluation mode.

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
    **words
        description, licence, provenance.
    """
    call = embed or _call
    run = torch_runner(module, _in_evaluation_mode(call))
    try:
        dim = int(run(np.zeros((1, 3, preparation.size, preparation.size), np.float32)).shape[1])
    except _WrongOutputError as error:
        raise FirthshotError(f"Encoder {name} {error}.") from None
    except (RuntimeError, ValueError, IndexError) as error:
        raise FirthshotError(
            f"Encoder {name} cannot take pictures of {preparation.size} px: {reason(error)}; "
            "give another size.",
            "size",
        ) from None
    mark = fingerprint(weights, preparation)
    return ImageEncoder(name, dim, mark, preparation, run, module=module, embed=call, **words)


def torch_runner(
    module: Any, embed: Callable[[Any, Any], Any]
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the map from pictures as an array to features as an array."""
    import torch

    # Convolutions of narrow networks are two to three times faster so on a CPU.
    module = module.to(memory_format=torch.channels_last)

    def run(pictures: np.ndarray) -> np.ndarray:
        batch = torch.from_numpy(pictures).contiguous(memory_format=torch.channels_last)
        with torch.inference_mode():
            return np.asarray(_rows(embed(module, batch)).float().numpy())

    return run


class _WrongOutputError(ValueError):
    """The network gives what cannot be features; words that go on after its name."""


def _rows(output: Any) -> Any:
    """Return the features (n, dim) in what a network gave."""
    import torch

    if not isinstance(output, torch.Tensor):
        raise _WrongOutputError(
            f"returns a {type(output).__name__}: let it, or embed=, return one tensor (n, dim)"
        )
    features = output.mean(dim=(2, 3)) if output.ndim == 4 else output
    if features.ndim != 2:
        raise _WrongOutputError(
            f"returns the shape {tuple(output.shape)}: let it, or embed=, return (n, dim), or "
            "(n, dim, h, w)"
        )
    return features


def _call(module: Any, pictures: Any) -> Any:
    return module(pictures)


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


def _checked(features: np.ndarray, shape: tuple[int, int], name: str) -> np.ndarray:
    if features.shape != shape:
        raise FirthshotError(f"Encoder {name} returned {features.shape} where {shape} was due.")
    if not np.isfinite(features).all():
        raise FirthshotError(
            f"Encoder {name} returned NaN or infinite features: its weights or its input "
            "normalisation are wrong."
        )
    return features


def fingerprint(*parts: object) -> str:
    """Return a digest of what the features depend on."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def digest_files(paths: Iterable[Path]) -> str:
    """Return a digest of files by content; the names count where there are several."""
    found = {}
    for path in sorted(paths):
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return next(iter(found.values())) if len(found) == 1 else fingerprint(found)


def digest_module(module: Any) -> str:
    """Return a digest of a torch module's parameters and buffers."""
    state = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        array = tensor.detach().cpu().contiguous()
        state.update(f"{name} {array.dtype} {tuple(array.shape)}\n".encode())
        state.update(array.flatten().view(-1).numpy().tobytes())
    return state.hexdigest()
