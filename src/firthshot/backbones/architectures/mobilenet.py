"""MobileNet (Howard et al., 2017) in SimpleShot's variant for 84 px."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import nn

from firthshot.backbones.architectures._base import Backbone, Piece, make_head, start_convolutions

# Channels and stride of each separable convolution, group by group.
GROUPS = (
    ((64, 1),),
    ((128, 2), (128, 1)),
    ((256, 2), (256, 1)),
    ((512, 2), *((512, 1),) * 5),
    ((1024, 2), (1024, 1)),
)


def _separable(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """Return a 3 x 3 convolution within each channel, then a 1 x 1 convolution across them."""
    parts = {
        "conv1": nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False),
        "bn1": nn.BatchNorm2d(inputs),
        "relu1": nn.ReLU(inplace=True),
        "conv2": nn.Conv2d(inputs, outputs, 1, bias=False),
        "bn2": nn.BatchNorm2d(outputs),
        "relu2": nn.ReLU(inplace=True),
    }
    return nn.Sequential(OrderedDict(parts))


class MobileNet(Backbone):
    """MobileNet whose stem keeps the size (stride 1 instead of 2): 84 px end as 6 x 6."""

    HEAD = "linear"
    features_dim = 1024

    def __init__(self, classes: int | None = None, head: str = "linear") -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(32)
        self.relu = nn.ReLU(inplace=True)
        self.layers = nn.Sequential()
        inputs = 32
        for outputs, stride in (layer for group in GROUPS for layer in group):
            self.layers.append(_separable(inputs, outputs, stride))
            inputs = outputs
        start_convolutions(self)
        self.linear = make_head(head, self.features_dim, classes)

    def _stem(self, x: torch.Tensor) -> torch.Tensor:
        stem: torch.Tensor = self.relu(self.bn1(self.conv1(x)))
        return stem

    def pieces(self) -> Sequence[Piece]:
        """Return the stem and the groups of separable convolutions."""
        pieces: list[Piece] = [self._stem]
        start = 0
        for group in GROUPS:
            pieces.append(self.layers[start : start + len(group)])
            start += len(group)
        return pieces
