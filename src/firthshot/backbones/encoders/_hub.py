"""Models of the Hugging Face hub, in the hub library's own cache: said, fetched, found again."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from firthshot.backbones.encoders._options import EncoderOptions, Loading, join_spec
from firthshot.backbones.encoders._packages import installed, require
from firthshot.errors import FirthshotError, reason

FAMILIES = ("hf", "st", "timm", "open-clip")
_SECONDS = 10  # until the hub must have answered
_READ = (".json", ".txt", ".model", ".jinja")
_CONFIGS = ("config.json", "open_clip_config.json", "modules.json")
_SAYS_HOW = ("README.md", "modules.json")  # other programs leave out how to pool
_MODULE = re.compile(r"\.|\d+_\w+")  # a folder of sentence-transformers, such as 1_Pooling
# file names of weights by family, the preferred kind first
_WEIGHTS = {
    "st": (("*.safetensors",), ("*.bin",)),
    "open-clip": (
        ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors"),
        ("open_clip_pytorch_model.bin",),
    ),
}
_USUAL_WEIGHTS = (
    ("model.safetensors", "model-*.safetensors"),
    ("pytorch_model.bin", "pytorch_model-*.bin"),
)


@dataclass(frozen=True)
class HubName:
    """A model on the hub as a user names it, ``hf:owner/name@revision``."""

    # prefix and what follows it, without the revision
    family: str
    name: str
    repo: str  # owner and name on the hub
    revision: str | None = None  # branch, tag or commit

    @property
    def weights(self) -> tuple[tuple[str, ...], ...]:
        """File names of weights, the preferred kind first."""
        return _WEIGHTS.get(self.family, _USUAL_WEIGHTS)

    def __str__(self) -> str:
        at = f"@{self.revision}" if self.revision else ""
        return f"{self.family}:{self.name}{at}"

    def select(self, names: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return which of the files of a repository are read: weights, and what describes them."""
        folders: dict[str, list[str]] = {}
        for name in names:
            folders.setdefault(str(PurePosixPath(name).parent), []).append(name)
        weights, others = [], []
        for folder, held in folders.items():
            if _MODULE.fullmatch(folder) is None:  # onnx, openvino and the like
                continue
            names_of = (
                [n for n in held if any(fnmatch(PurePosixPath(n).name, one) for one in kind)]
                for kind in self.weights
            )
            weights += next(filter(None, names_of), [])
            others += [n for n in held if n.endswith(_READ) or n == "README.md"]
        return weights, others


@dataclass(frozen=True)
class Snapshot:
    """One commit of a model on this machine."""

    name: HubName
    folder: Path
    licence: str

    @property
    def mark(self) -> str:
        """What identifies the weights: the repository and the commit."""
        return f"{self.name.repo}@{self.folder.name}"

    def words(self, options: EncoderOptions) -> dict[str, Any]:
        """Return the fields of an encoder that say where it comes from."""
        ref = self.folder.parents[1] / "refs" / (self.name.revision or "main")
        weights, _ = self.name.select(_held(self.folder))
        watched = [*(self.folder / one for one in weights), *([ref] if ref.is_file() else [])]
        model, commit = f"{self.name.family}:{self.name.name}", self.folder.name
        return {
            "spec": join_spec(f"{model}@{commit}", options),
            "licence": f"encoder {self.licence}" if self.licence else "",
            "provenance": (f"{model}, commit {commit} of {self.name.repo} on the Hugging Face hub"),
            "files": tuple(map(str, watched)),
        }


def fetch(name: HubName, loading: Loading) -> Snapshot:
    """Return a model's files: those on this machine, else downloaded after saying what comes."""
    hub = _library(name)
    offline = loading.offline or hub.constants.HF_HUB_OFFLINE
    folder = _local(hub, name)
    if folder is None and offline:
        raise FirthshotError(
            f"{name} is not on this machine, and downloads are off: fetch it once with `hf "
            f"download {name.repo}` where there is a network, or name the path of its folder."
        )
    if folder is None:
        folder = _download(hub, name, loading)
    elif not offline and not any((folder / one).is_file() for one in _SAYS_HOW):
        try:
            folder = _download(hub, name, loading)
        except FirthshotError:
            loading.say(f"{name} is used as it is on this machine: the hub did not give the rest.")
    weights, _ = name.select(_held(folder))
    if any(one.endswith(".bin") for one in weights):
        loading.say(f"{name} has its weights as pickles: only their tensors are read, no code.")
    return Snapshot(name, folder, _licence(hub, folder))


def hub_name(text: str) -> HubName | None:
    """Return the model of the hub that a name means; None for files, folders and other names."""
    family, colon, rest = text.partition(":")
    if not colon or family not in FAMILIES or Path(rest).is_dir() or Path(text).exists():
        return None
    name, _, revision = rest.partition("@")
    owner = {"timm": "timm/", "st": "" if "/" in name else "sentence-transformers/"}
    return HubName(family, name, owner.get(family, "") + name, revision or None)


def is_here(name: HubName) -> bool:
    """Tell whether a model's weights are on this machine, asking nobody."""
    return installed("huggingface_hub") and _local(_library(name), name) is not None


def _library(name: HubName) -> Any:
    """Return the hub's library with the submodules that are read here."""
    for part in ("constants", "errors"):
        require(f"huggingface_hub.{part}", str(name), name.family)
    return require("huggingface_hub", str(name), name.family)


def _local(hub: Any, name: HubName) -> Path | None:
    """Return the folder of the commit that is in the cache, if its weights are."""
    try:
        found = [
            hub.try_to_load_from_cache(name.repo, one, revision=name.revision) for one in _CONFIGS
        ]
    except hub.errors.HFValidationError:
        return None
    folder = next((Path(one).parent for one in found if isinstance(one, str)), None)
    return folder if folder is not None and name.select(_held(folder))[0] else None


def _held(folder: Path) -> list[str]:
    return [p.relative_to(folder).as_posix() for p in sorted(folder.rglob("*")) if p.is_file()]


def _licence(hub: Any, folder: Path) -> str:
    if not (folder / "README.md").is_file():
        return ""
    try:
        said = hub.metadata_load(folder / "README.md") or {}
    except (OSError, ValueError):
        return ""
    return str(said.get("license_name") or said.get("license") or "")


def _download(hub: Any, name: HubName, loading: Loading) -> Path:
    try:
        info = hub.HfApi().model_info(
            name.repo, revision=name.revision, files_metadata=True, timeout=_SECONDS
        )
        sizes = {one.rfilename: one.size or 0 for one in info.siblings or []}
        weights, others = name.select(sizes)
        if not weights:
            raise _without_weights(name, sizes)
        total = sum(sizes[one] for one in (*weights, *others))
        _refuse_full_disk(hub, name, total)
        said = info.card_data or {}
        terms = said.get("license_name") or said.get("license") or "not stated"
        loading.say(
            f"{name} comes from {hub.constants.ENDPOINT.split('//')[-1]}: "
            f"{total / 1e6:,.1f} MB, licence {terms}, commit {info.sha[:12]}."
        )
        wanted = [*weights, *others]
        return Path(hub.snapshot_download(name.repo, revision=name.revision, allow_patterns=wanted))
    except FirthshotError:
        raise
    except Exception as error:  # noqa: BLE001 - the hub library has had several HTTP libraries
        raise _refusal(hub, name, error) from None


def _without_weights(name: HubName, names: Iterable[str]) -> FirthshotError:
    others = sorted({PurePosixPath(n).suffix for n in names} & {".gguf", ".h5", ".ckpt", ".pt"})
    held = f", only {' and '.join(others)}" if others else ""
    wanted = " or ".join(kind[0] for kind in name.weights)
    return FirthshotError(f"{name} has no {wanted}{held}: choose another model.")


def _refuse_full_disk(hub: Any, name: HubName, total: int) -> None:
    place = Path(hub.constants.HF_HUB_CACHE)
    there = next(one for one in (place, *place.parents) if one.exists())
    free = shutil.disk_usage(there).free
    if free < total:
        raise _full(name, f"it takes {total / 1e6:,.0f} MB and {free / 1e6:,.0f} MB are free")


def _full(name: HubName, why: str) -> FirthshotError:
    return FirthshotError(
        f"There is no room for {name} in the hub's cache, {why}: free some, or set HF_HOME to a "
        "folder on another disk."
    )


def _refusal(hub: Any, name: HubName, error: Exception) -> FirthshotError:
    """Return an error of the hub's library as a sentence with a way out."""
    import errno

    errors = hub.errors
    page = f"{hub.constants.ENDPOINT}/{name.repo}"
    if isinstance(error, errors.GatedRepoError):
        return FirthshotError(
            f"{name} is gated: accept its terms at {page}, then log in with `hf auth login`."
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return FirthshotError(f"{name.repo} has no revision {name.revision}: see {page}/commits.")
    if isinstance(error, (errors.RepositoryNotFoundError, errors.HFValidationError)):
        return FirthshotError(
            f"There is no model {name.repo!r} on the hub, or it is private: check the id at {page}."
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(name, "the disk is full")
    return FirthshotError(
        f"{name} is not on this machine, and the hub cannot be reached ({reason(error)}): go "
        f"online once, or fetch it elsewhere with `hf download {name.repo}` and copy the cache."
    )
