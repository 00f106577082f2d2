"""What an encoder is: a name, a width, a fingerprint, and one call from inputs to features."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from firthshot.backbones.images import Preparation, map_ahead
from firthshot.errors import FirthshotError, reason

if TYPE_CHECKING:
    from firthshot.backbones.images import LibraryPreparation

Kind = Literal["image", "text"]
WORDS = {"image": "pictures", "text": "texts"}
BATCH = 32
_WAITING = 1 << 28  # bytes of decoded pictures that may wait for the network


@dataclass(frozen=True)
class Network:
    """What an encoder runs, which is loaded when it is first needed.

    Attributes
    ----------
    run : callable
        Maps prepared pictures, float32 (n, 3, height, width), or n texts to (n, dim).
    preparation : Preparation or LibraryPreparation, optional
        How a picture becomes the network's input; None for texts.
    module : torch.nn.Module, optional
        The network itself; batch statistics need it, and ``embed``, which calls it.
    """

    run: Callable[[Any], np.ndarray]
    preparation: Preparation | LibraryPreparation | None = None
    module: Any = None
    embed: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True)
class Encoder:
    """Encode pictures or texts.

    Attributes
    ----------
    kind : {"image", "text"}
        What it takes.
    name : str
        Short name.
    dim : int
        Width of a row of features.
    fingerprint : str
        Digest of weights and preparation: the same fingerprint, the same features.
    source : Network or callable
        The network, or what loads it.
    spec : str
        How to load it again from any folder, with the resolved revision and all options.
    description, licence, provenance : str
        What it is, on what terms, and where its weights come from.
    side : int or None
        Side of the pictures that the network sees, in pixels.
    pictures : str
        What is done to pictures, in words.
    files : tuple of str
        The files that it was made of: while they stay as they are, so does the encoder.
    cacheable : bool
        Whether the fingerprint says enough to keep its features for the next time.
    """

    kind: Kind
    name: str
    dim: int
    fingerprint: str
    source: Network | Callable[[], Network]
    spec: str = ""
    description: str = ""
    licence: str = ""
    provenance: str = ""
    side: int | None = None
    pictures: str = ""
    files: tuple[str, ...] = ()
    cacheable: bool = True

    @cached_property
    def network(self) -> Network:
        """The network, loaded now if it was not before."""
        return self.source if isinstance(self.source, Network) else self.source()

    @property
    def preparation(self) -> Preparation | LibraryPreparation:
        """How a picture becomes the network's input."""
        found = self.network.preparation
        if found is None:
            raise FirthshotError(f"Encoder {self.name} takes texts, not pictures.")
        return found

    def encode(self, items: Any) -> np.ndarray:
        """Return features (n, dim) float32.

        Parameters
        ----------
        items : list or ndarray
            Texts; or pictures: paths, the bytes of files, pixels (height, width, 3) uint8; or one
            array (n, …) of pictures that ``preparation.pixels`` has made.
        """
        if isinstance(items, str | Path | bytes):
            raise FirthshotError(f"Encoder {self.name} takes a list of {WORDS[self.kind]}.")
        if self._prepared(items):
            return self._run(self.preparation.normalise(items), len(items))
        out = np.empty((len(items), self.dim), np.float32)
        for rows, features in self.encode_ahead(items):
            out[rows] = features
        return out

    def _prepared(self, items: Any) -> bool:
        """Tell whether pictures are prepared; a library's are normalised then, no more uint8."""
        if self.kind == "text" or not isinstance(items, np.ndarray) or items.ndim != 4:
            return False
        return isinstance(self.preparation, Preparation) or items.dtype != np.uint8

    def encode_ahead(self, items: Sequence[Any]) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yield rows and their features, batch by batch; pictures are decoded ahead in threads.

        Texts of like length are encoded together: little is padded.
        """
        order = list(range(len(items)))
        if self.kind == "text":
            order.sort(key=lambda row: len(items[row]))
            inputs: Iterator[Any] = iter([items[row] for row in order])
        else:
            inputs = self.prepared(items)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            batch: Any = [next(inputs) for _ in rows]
            if self.kind == "image":
                batch = self.preparation.normalise(np.stack(batch))
            yield rows, self._run(batch, len(rows))

    def prepared(
        self, items: Sequence[Any], names: Sequence[str] | None = None, threads: int | None = None
    ) -> Iterator[np.ndarray]:
        """Yield pictures as ``encode`` takes an array of them, decoded ahead in threads."""
        preparation = self.preparation
        room = _WAITING // (12 * max(1, preparation.size) ** 2)
        called = names or [""] * len(items)

        def prepare(row: int) -> np.ndarray:
            item = items[row]
            picture = Path(item) if isinstance(item, str) else item
            return preparation.pixels(picture, "" if isinstance(picture, Path) else called[row])

        return map_ahead(prepare, range(len(items)), threads, min(256, max(BATCH, room)))

    def _run(self, batch: Any, count: int) -> np.ndarray:
        try:
            features = np.asarray(self.network.run(batch), np.float32)
        except WrongOutputError as error:
            raise FirthshotError(f"Encoder {self.name} {error}.") from None
        except FirthshotError:
            raise
        except (RuntimeError, ValueError, TypeError) as error:  # such as statistics of one value
            raise FirthshotError(
                f"Encoder {self.name} fails on a batch of {count}: {reason(error)}."
            ) from None
        return _checked(features, (count, self.dim), self.name)

    def with_batch_statistics(self) -> Encoder:
        """Return the encoder with BatchNorm layers that use the statistics of each batch.

        The published ResNet features were taken so, from class-sorted batches of 32: the network
        had been left in training mode.
        """
        if self.kind == "text":
            raise FirthshotError(
                f"Encoder {self.name} reads texts and has no batch statistics: leave them out.",
                "bn_train_sorted",
            )
        from torch.nn.modules.batchnorm import _BatchNorm

        module, embed = copy.deepcopy(self.network.module), self.network.embed
        known = [] if module is None else module.modules()
        layers = [layer for layer in known if isinstance(layer, _BatchNorm)]
        if not layers or embed is None:
            raise FirthshotError(
                f"Encoder {self.name} shows no BatchNorm layers: batch statistics need a torch "
                "network with such layers.",
                "bn_train_sorted",
            )
        module.eval()
        for layer in layers:
            layer.train()
        run = torch_runner(module, embed)
        return replace(self, source=replace(self.network, module=module, run=run))


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
    call = embed or _call
    run = torch_runner(module, _in_evaluation_mode(call), device)
    try:
        dim = int(run(np.zeros((1, 3, preparation.size, preparation.size), np.float32)).shape[1])
    except WrongOutputError as error:
        raise FirthshotError(f"Encoder {name} {error}.") from None
    except (RuntimeError, ValueError, IndexError) as error:
        raise FirthshotError(
            f"Encoder {name} cannot take pictures of {preparation.size} px: {reason(error)}; "
            "give another size.",
            "size",
        ) from None
    mark = fingerprint(weights, preparation)
    network = Network(run, preparation, module, call)
    words |= {"side": preparation.size, "pictures": preparation.words}
    return Encoder("image", name, dim, mark, network, **words)


def torch_runner(
    module: Any, embed: Callable[[Any, Any], Any], device: str = "cpu"
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the map from pictures as an array to features as an array."""
    import torch

    from firthshot.backbones.encoders._devices import Shrinking, inference, place_for

    place = place_for(device)
    # Convolutions of narrow networks are two to three times faster so on a CPU.
    module = module.to(device=place, memory_format=torch.channels_last)

    def run(pictures: np.ndarray) -> np.ndarray:
        batch = torch.from_numpy(pictures).to(place)
        with inference(place):
            rows = _rows(embed(module, batch.contiguous(memory_format=torch.channels_last)))
        return np.asarray(rows.float().cpu().numpy())

    return Shrinking(run)


class WrongOutputError(ValueError):
    """The network gives what cannot be features; words that go on after its name."""


def _rows(output: Any) -> Any:
    """Return the features (n, dim) in what a network gave."""
    import torch

    if not isinstance(output, torch.Tensor):
        raise WrongOutputError(
            f"returns a {type(output).__name__}: let it, or embed=, return one tensor (n, dim)"
        )
    features = output.mean(dim=(2, 3)) if output.ndim == 4 else output
    if features.ndim != 2:
        raise WrongOutputError(
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
