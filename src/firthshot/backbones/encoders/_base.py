"""What an encoder is: a name, a width, a fingerprint, and one call from inputs to features."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from firthshot.backbones.images import LibraryPreparation, PictureError, Preparation, map_ahead
from firthshot.errors import FirthshotError, refusing

Kind = Literal["image", "text"]
WORDS = {"image": "pictures", "text": "texts"}
BATCH = 32
_WAITING = 1 << 28  # bytes of decoded pictures that may wait for the network


@dataclass(frozen=True)
class Network:
    """What an encoder runs, which is loaded when it is first needed."""

    # maps prepared pictures, float32 (n, 3, height, width), or n texts to (n, dim)
    run: Callable[[Any], np.ndarray]
    # how a picture becomes the network's input; None for texts
    preparation: Preparation | LibraryPreparation | None = None
    # the network itself; batch statistics need it, and ``embed``, which calls it
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
        Width of a row of features; 0 where only a call can tell.
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
        Whether the fingerprint says enough to keep its features for the next time. A function of
        the user's has none that does: it is given the items as they are, all at once.
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
        check_kind(self.name, self.kind, "image")
        assert self.network.preparation is not None
        return self.network.preparation

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
        if not self.cacheable:
            return self._run(list(items), len(items))
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

    def encode_ahead(
        self, items: Sequence[Any], *, skip_bad: bool = False
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yield rows and their features, batch by batch; pictures are decoded ahead in threads.

        Texts of like length are encoded together: little is padded. With ``skip_bad``, pictures
        that cannot be read are left out.
        """
        order = list(range(len(items)))
        if self.kind == "text":
            order.sort(key=lambda row: len(items[row]))
            inputs: Iterator[Any] = iter([items[row] for row in order])
        else:
            inputs = self.prepared(items, skip_bad=skip_bad)
        for start in range(0, len(order), BATCH):
            batch = {row: next(inputs) for row in order[start : start + BATCH]}
            good = {row: one for row, one in batch.items() if one is not None}
            if not good:
                continue
            given: Any = list(good.values())
            if self.kind == "image":
                given = self.preparation.normalise(np.stack(given))
            yield list(good), self._run(given, len(good))

    def prepared(
        self,
        items: Sequence[Any],
        names: Sequence[str] | None = None,
        threads: int | None = None,
        skip_bad: bool = False,
    ) -> Iterator[Any]:
        """Yield pictures as ``encode`` takes an array of them, decoded ahead in threads.

        With ``skip_bad`` those that cannot be read come as None.
        """
        preparation = self.preparation
        room = _WAITING // (12 * max(1, preparation.size) ** 2)
        called = names or [""] * len(items)

        def prepare(row: int) -> np.ndarray | None:
            item = items[row]
            picture = Path(item) if isinstance(item, str) else item
            try:
                return preparation.pixels(picture, "" if isinstance(picture, Path) else called[row])
            except PictureError:
                if skip_bad:
                    return None
                raise

        return map_ahead(prepare, range(len(items)), threads, min(256, max(BATCH, room)))

    def _run(self, batch: Any, count: int) -> np.ndarray:
        failing = f"Encoder {self.name} fails on a batch of {count}"  # such as statistics of one
        with refusing(failing, (RuntimeError, ValueError, TypeError)):
            features = np.asarray(self.network.run(batch), np.float32)
        due = (count, self.dim or features.shape[-1])
        if features.shape != due:
            raise FirthshotError(
                f"Encoder {self.name} returned {features.shape} for {count} {WORDS[self.kind]}: it "
                f"shall return an array (n, {self.dim or 'dim'})."
            )
        if not np.isfinite(features).all():
            raise FirthshotError(
                f"Encoder {self.name} returned NaN or infinite features: its weights or its input "
                "normalisation are wrong."
            )
        return features

    def with_batch_statistics(self) -> Encoder:
        """Return the encoder with BatchNorm layers that use the statistics of each batch.

        The published ResNet features were taken so, from class-sorted batches of 32: the network
        had been left in training mode.
        """
        from torch.nn.modules.batchnorm import _BatchNorm

        from firthshot.backbones.encoders._torch import torch_runner

        module, embed = copy.deepcopy(self.network.module), self.network.embed
        known = module.modules() if hasattr(module, "modules") else []
        layers = [layer for layer in known if isinstance(layer, _BatchNorm)]
        if self.kind == "text" or not layers or embed is None:
            raise FirthshotError(
                f"Encoder {self.name} shows no BatchNorm layers: batch statistics need a torch "
                "network of pictures with such layers.",
                "bn_train_sorted",
            )
        module.eval()
        for layer in layers:
            layer.train()
        run = torch_runner(module, embed)
        return replace(self, source=replace(self.network, module=module, run=run))


def check_kind(name: str, takes: Kind, wanted: str | None) -> None:
    """Refuse an encoder of texts for pictures, or the reverse."""
    if wanted not in (None, takes):
        raise FirthshotError(
            f"Encoder {name} takes {WORDS[takes]}, not {WORDS[str(wanted)]}: `firthshot backbone "
            f"list` lists some that take {WORDS[str(wanted)]}."
        )


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
