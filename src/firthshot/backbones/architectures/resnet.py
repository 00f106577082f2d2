"""Residual networks for ImageNet (He et al., 2016), with the parameter names of torchvision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from firthshot.backbones.architectures._base import Backbone, Piece, make_head, start_convolutions

if TYPE_CHECKING:
    from collections.abc import Sequence


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and inputs == outputs:
        return None
    convolution = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions and a shortcut."""

    EXPANSION = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(inputs, width, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return relu(residual(x) + shortcut(x))."""
        residual = self.relu(self.bn1(self.conv1(x)))
        residual = self.bn2(self.conv2(residual))
        return self.relu(residual + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """Convolutions 1 x 1, 3 x 3 (which carries the stride) and 1 x 1 to four times the width."""

    EXPANSION = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(inputs, 4 * width, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return relu(residual(x) + shortcut(x))."""
        residual = self.relu(self.bn1(self.conv1(x)))
        residual = self.relu(self.bn2(self.conv2(residual)))
        residual = self.bn3(self.conv3(residual))
        return self.relu(residual + (x if self.downsample is None else self.downsample(x)))


class ResNet(Backbone):
    """A residual network with the ImageNet stem (7 x 7 convolution and max pooling, stride 4).

    ``depths`` are the blocks in each of the four groups of width 64, 128, 256 and 512.
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: Sequence[int],
        classes: int | None = None,
        head: str = "linear",
    ) -> None:
        super().__init__()
        self.features_dim = 512 * block.EXPANSION
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs = 64
        for group, depth in enumerate(depths):
            width = 64 * 2**group
            blocks = nn.Sequential()
            for position in range(depth):
                blocks.append(block(inputs, width, 2 if group > 0 and position == 0 else 1))
                inputs = width * block.EXPANSION
            setattr(self, f"layer{group + 1}", blocks)
        start_convolutions(self)
        self.fc = make_head(head, self.features_dim, classes)

    def _stem(self, x: torch.Tensor) -> torch.Tensor:
        stem: torch.Tensor = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return stem

    def pieces(self) -> Sequence[Piece]:
        """Return the stem and the four groups."""
        return (self._stem, self.layer1, self.layer2, self.layer3, self.layer4)
