"""ResNet-12, the residual network of the few-shot literature (Lee et al., 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn
from torch.nn import functional

from firthshot.backbones.architectures._base import Backbone, Piece, make_head, start_convolutions

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

WIDTHS = (64, 160, 320, 640)


class TripleBlock(nn.Module):
    """Three 3 x 3 convolutions, a 1 x 1 shortcut, leaky ReLU and 2 x 2 max pooling."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width)
        shortcut = nn.Conv2d(inputs, width, 1, bias=False)
        self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(width))
        self.relu = nn.LeakyReLU(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the pooled sum of residual and shortcut."""
        residual = self.relu(self.bn1(self.conv1(x)))
        residual = self.relu(self.bn2(self.conv2(residual)))
        residual = self.bn3(self.conv3(residual))
        return functional.max_pool2d(self.relu(residual + self.downsample(x)), 2)


class ResNet12(Backbone):
    """Four triple blocks of width 64, 160, 320 and 640, without DropBlock."""

    features_dim = WIDTHS[-1]

    def __init__(self, classes: int | None = None, head: str = "linear") -> None:
        super().__init__()
        inputs = 3
        for number, width in enumerate(WIDTHS, start=1):
            setattr(self, f"layer{number}", TripleBlock(inputs, width))
            inputs = width
        start_convolutions(self)
        self.fc = make_head(head, self.features_dim, classes)

    def pieces(self) -> Sequence[Piece]:
        """Return the four blocks."""
        return (self.layer1, self.layer2, self.layer3, self.layer4)
