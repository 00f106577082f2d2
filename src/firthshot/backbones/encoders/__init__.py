"""Encoders: networks with weights, by name, by path, or as an object of the user's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from firthshot import __version__
from firthshot.backbones.cache import recall_note, remember_note
from firthshot.backbones.encoders._base import WORDS, Encoder, Kind, Network, check_kind
from firthshot.backbones.encoders._hub import hub_name
from firthshot.backbones.encoders._names import (
    BEST,
    DEFAULTS,
    ENCODERS,
    RECOMMENDED,
    KnownEncoder,
    describe_weights,
    find_weights,
)
from firthshot.backbones.encoders._options import (
    EncoderOptions,
    Loading,
    join_spec,
    split_spec,
    three_numbers,
)
from firthshot.backbones.encoders._packages import installed, load_packaged
from firthshot.backbones.encoders._torch import DEVICES, digest_module, torch_encoder, wrap
from firthshot.errors import FirthshotError
from firthshot.progress import ProgressListener

__all__ = [
    "BEST", "DEFAULTS", "DEVICES", "ENCODERS", "RECOMMENDED", "WORDS", "Encoder", "EncoderOptions",
    "Kind", "KnownEncoder", "Network", "check_kind", "describe_weights", "digest_module",
    "encoding", "find_weights", "installed", "join_spec", "load_encoder", "split_spec",
    "three_numbers", "torch_encoder",
]  # fmt: skip


_LOADERS = {  # by family of the hub
    "hf": "_transformers.load_transformers",
    "st": "_libraries.load_sentences",
    "timm": "_libraries.load_timm",
    "open-clip": "_libraries.load_open_clip",
}
_KEPT = tuple(one.name for one in fields(Encoder) if one.name != "source")
_ALONE = Loading()
_usual: ContextVar[Loading] = ContextVar("loading", default=_ALONE)


@contextmanager
def encoding(*, device: str = "auto", offline: bool = False) -> Iterator[None]:
    """Let encoders that are loaded meanwhile run on a device, and download nothing if offline."""
    token = _usual.set(Loading(device=device, offline=offline))
    try:
        yield
    finally:
        _usual.reset(token)


def load_encoder(
    spec: Any,
    *,
    kind: Kind | None = None,
    device: str | None = None,
    offline: bool | None = None,
    listener: ProgressListener | None = None,
    **options: Any,
) -> Encoder:
    """Load an encoder; its network waits until something is to be encoded, if it is known.

    Parameters
    ----------
    spec : str, Path or object
        A name of `ENCODERS`, or of a checkpoint in ``weights/`` (`find_weights`); a model of the
        hub, ``hf:owner/name``, ``st:name``, ``timm:name`` or ``open-clip:architecture/tag``, with
        ``@revision`` if it is to be pinned; or a path: a checkpoint (``.safetensors``, ``.pth``,
        ``.pt``) or the folder of a training, a TorchScript file, an ``.onnx`` file, a transformers
        folder, ``st:`` and a folder of sentence-transformers. Options may follow, as in
        ``net.ts?size=32&mean=0&std=1``: model files keep them so. Or an `Encoder`, a torch or
        sentence-transformers model, or a function from a list to an array.
    kind : {"image", "text"}, optional
        What is to be encoded; an encoder of the other kind is refused.
    device : {"auto", "cpu", "cuda", "mps"}, optional
        Where to run it; accelerators compute in half precision. Else as `encoding` says, or auto.
    offline : bool, optional
        Refuse a model that is not on this machine at once. Else as `encoding` says, or False.
    listener : ProgressListener, optional
        Hears what is downloaded; else standard error does.
    **options
        Fields of `EncoderOptions`, such as ``size=64``; what is not given is what suits the
        encoder. The mean and deviation of a file that does not say them are ImageNet's; 0 and 1
        leave pixels of 0 … 1.

    Raises
    ------
    FirthshotError
        When there is no such encoder, its package is missing, or its file is unusable.
    """
    usual = _usual.get()
    loading = replace(
        usual,
        options=_options(kind, options),
        device=device or usual.device,
        offline=usual.offline if offline is None else offline,
        say=usual.say if listener is None else listener.say,
    )
    if isinstance(spec, str | Path):
        encoder = _named(str(spec), loading)
    else:
        encoder = wrap(spec, kind, loading)
    check_kind(encoder.name, encoder.kind, kind)
    return encoder


def _options(kind: Kind | None, given: dict[str, Any]) -> EncoderOptions:
    strange = set(given) - {one.name for one in fields(EncoderOptions)}
    if strange:
        raise FirthshotError(f"An encoder has no option {', '.join(sorted(strange))}.")
    return EncoderOptions(**{"takes": kind, **given})


def _named(spec: str, loading: Loading) -> Encoder:
    """Return the encoder of a name or path; one that is known from before is not loaded yet.

    What is known of it is kept in the cache by the line that names it. That holds while its files
    have the sizes and times that they had, and the version of firthshot is the same.
    """
    text, told = split_spec(spec)
    path = _path(text)
    # a name that means the same in every folder
    place = text if path is None else f"{'st:' * text.startswith('st:')}{path.resolve()}"
    options = replace(told, **loading.options.given)
    loading = replace(loading, options=options)

    def load() -> Encoder:
        own = _load(text, path, loading)
        named = text if text in find_weights() else place
        return replace(own, spec=own.spec or join_spec(named, replace(options, takes=None)))

    line = join_spec(place, options)
    note = recall_note(line)
    if note and note.get("state") == _state(note.get("files")) and set(_KEPT) <= set(note):
        card = {name: note[name] for name in _KEPT}
        return Encoder(**{**card, "files": tuple(card["files"])}, source=lambda: load().network)
    encoder = load()
    if encoder.files:  # others cannot be known again
        card = {name: getattr(encoder, name) for name in _KEPT}
        for name in {line, encoder.spec}:  # a model file keeps the latter
            remember_note(name, {**card, "state": _state(encoder.files)}, encoder.fingerprint)
    return encoder


def _state(files: Any) -> list[Any] | None:
    """Return our version with size and time of each file; None where one is gone."""
    try:
        found = [Path(name).stat() for name in files]
    except (OSError, TypeError):
        return None
    return [__version__, *([one.st_size, one.st_mtime_ns] for one in found)]


def _path(text: str) -> Path | None:
    """Return the file or folder that a name means, if it means one."""
    if text in ENCODERS or hub_name(text) is not None:
        return None
    path = find_weights().get(text, Path(text.removeprefix("st:").removeprefix("hf:")))
    if not path.exists():
        raise FirthshotError(
            f"There is no encoder {text!r}, neither by name "
            f"({', '.join((*ENCODERS, *find_weights()))}) nor as a file: `firthshot backbone list` "
            "tells what there is; hf:, st:, timm: and open-clip: take models of the hub."
        )
    return path


def _load(text: str, path: Path | None, loading: Loading) -> Encoder:
    name = hub_name(text)
    if name is not None:
        module, function = _LOADERS[name.family].split(".")
        loaded: Encoder = getattr(import_module(f"{__name__}.{module}"), function)(name, loading)
        return loaded
    if path is None:
        return load_packaged(text, loading)
    if path.is_dir():
        return _load_folder(path, loading, text.partition(":")[0])
    return _load_file(path, loading)


def _load_folder(path: Path, loading: Loading, library: str) -> Encoder:
    from firthshot.backbones.encoders import _files, _libraries, _transformers

    if library == "st":
        return _libraries.load_sentences_folder(path, loading)
    if (path / BEST).is_file():
        return _files.load_checkpoint(path / BEST, loading)
    if (path / "config.json").is_file():
        return _transformers.load_transformers_folder(path, loading)
    raise FirthshotError(
        f"{path} is neither the folder of a training ({BEST}) nor one of transformers "
        "(config.json)."
    )


def _load_file(path: Path, loading: Loading) -> Encoder:
    from firthshot.backbones.encoders import _files

    ending = path.suffix.lower()
    if ending == ".onnx":
        return _files.load_onnx(path, loading)
    if ending in (".pt", ".pth", ".ts") and _files.is_torchscript(path):
        return _files.load_torchscript(path, loading)
    if ending in (".pt", ".pth", ".safetensors"):
        return _files.load_checkpoint(path, loading)
    raise FirthshotError(
        f"{path} has the ending {path.suffix!r}: .safetensors, .pth, .pt, .ts, .onnx can be read."
    )
