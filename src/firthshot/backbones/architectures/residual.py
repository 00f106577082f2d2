"""Residual networks, and Conv-4, with the parameter names of their published checkpoints."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from firthshot.backbones.architectures._base import Backbone, Piece, make_head, start_convolutions


class Residual(nn.Module):
    """Convolutions with batch norms beside a shortcut, activated between and after their sum.

    ``layers`` are kernel size, channels and stride of each convolution.
    """

    def __init__(
        self, inputs: int, layers: Sequence[tuple[int, int, int]], relu: nn.Module
    ) -> None:
        super().__init__()
        self.depth, outputs = len(layers), inputs
        for number, (kernel, width, stride) in enumerate(layers, start=1):
            convolution = nn.Conv2d(outputs, width, kernel, stride, kernel // 2, bias=False)
            setattr(self, f"conv{number}", convolution)
            setattr(self, f"bn{number}", nn.BatchNorm2d(width))
            outputs = width
        self.relu, self.downsample = relu, None
        stride = math.prod(stride for _, _, stride in layers)
        if stride > 1 or inputs != outputs:
            convolution = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(convolution, nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return relu(residual(x) + shortcut(x))."""
        residual = x
        for number in range(1, self.depth + 1):
            residual = residual if number == 1 else self.relu(residual)
            residual = getattr(self, f"conv{number}")(residual)
            residual = getattr(self, f"bn{number}")(residual)
        return self.relu(residual + (x if self.downsample is None else self.downsample(x)))


class ResNet(Backbone):
    """He et al. (2016) for ImageNet: a stem of 7 x 7 convolution and max pooling, stride 4.

    ``depths`` are the blocks in each of the four groups of width 64, 128, 256 and 512, of two 3 x 3
    convolutions, or as ``bottleneck`` of 1 x 1, 3 x 3 and 1 x 1 to four times the width.
    """

    def __init__(
        self,
        depths: Sequence[int],
        bottleneck: bool,
        classes: int | None = None,
        head: str = "linear",
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs = 64
        for group, depth in enumerate(depths):
            width, blocks = 64 * 2**group, nn.Sequential()
            for position in range(depth):
                stride = 2 if group > 0 and position == 0 else 1
                layers = [(3, width, stride), (3, width, 1)]
                if bottleneck:
                    layers = [(1, width, 1), (3, width, stride), (1, 4 * width, 1)]
                blocks.append(Residual(inputs, layers, nn.ReLU(inplace=True)))
                inputs = layers[-1][1]
            setattr(self, f"layer{group + 1}", blocks)
        self.features_dim = inputs
        start_convolutions(self)
        self.fc = make_head(head, inputs, classes)

    def _stem(self, x: torch.Tensor) -> torch.Tensor:
        stem: torch.Tensor = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return stem

    def pieces(self) -> Sequence[Piece]:
        """Return the stem and the four groups."""
        return (self._stem, self.layer1, self.layer2, self.layer3, self.layer4)


class ResNet12(Backbone):
    """The few-shot literature's (Lee et al., 2019): four pooled blocks, without DropBlock."""

    features_dim = 640

    def __init__(self, classes: int | None = None, head: str = "linear") -> None:
        super().__init__()
        inputs = 3
        for number, width in enumerate((64, 160, 320, 640), start=1):
            block = Residual(inputs, [(3, width, 1)] * 3, nn.LeakyReLU(0.1))
            setattr(self, f"layer{number}", block)
            inputs = width
        start_convolutions(self)
        self.fc = make_head(head, self.features_dim, classes)

    def pieces(self) -> Sequence[Piece]:
        """Return the four blocks, each with 2 x 2 max pooling."""
        blocks = (self.layer1, self.layer2, self.layer3, self.layer4)
        return [nn.Sequential(block, nn.MaxPool2d(2)) for block in blocks]


class PreActivationBlock(nn.Module):
    """Batch norm and ReLU before each of two 3 x 3 convolutions.

    Where the shape changes, the shortcut is a 1 x 1 convolution of the activated input.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        same = stride == 1 and inputs == outputs
        self.shortcut = None if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return residual(x) + shortcut(x)."""
        active = functional.relu(self.bn1(x))
        residual = self.conv2(functional.relu(self.bn2(self.conv1(active))))
        return residual + (x if self.shortcut is None else self.shortcut(active))


class WideResNet(Backbone):
    """WRN-depth-width (Zagoruyko & Komodakis, 2016), with a small stem.

    Three groups of (depth - 4) / 6 blocks have 16, 32 and 64 times the width.
    """

    def __init__(
        self, depth: int, width: int, classes: int | None = None, head: str = "linear"
    ) -> None:
        super().__init__()
        self.features_dim = 64 * width
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        inputs = 16
        for group, stride in enumerate((1, 2, 2)):
            outputs = 16 * 2**group * width
            blocks = nn.Sequential()
            for position in range((depth - 4) // 6):
                blocks.append(PreActivationBlock(inputs, outputs, stride if position == 0 else 1))
                inputs = outputs
            setattr(self, f"block{group + 1}", blocks)
        self.bn1 = nn.BatchNorm2d(inputs)
        start_convolutions(self)
        self.fc = make_head(head, self.features_dim, classes)

    def pieces(self) -> Sequence[Piece]:
        """Return the groups, the first with the stem, and the closing batch norm.

        S2M2 mixes hidden states before any one of these four.
        """
        first = nn.Sequential(self.conv1, self.block1)
        return (first, self.block2, self.block3, lambda x: functional.relu(self.bn1(x)))


class Conv4(Backbone):
    """The small network of the first few-shot papers (Vinyals et al., 2016).

    Four times 3 x 3 convolution to 64 channels, batch norm, ReLU and 2 x 2 max pooling. The
    features are the last map itself, 64 x 5 x 5 = 1600 numbers at 84 px; at other sizes it is
    averaged to (or repeated in) 5 x 5 cells.
    """

    HEAD = "logits"
    CELLS = 5
    features_dim = 1600

    def __init__(self, classes: int | None = None, head: str = "linear") -> None:
        super().__init__()
        for number, inputs in enumerate((3, 64, 64, 64), start=1):
            convolution = nn.Conv2d(inputs, 64, 3, padding=1)
            rest = (nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(2))
            setattr(self, f"conv{number}", nn.Sequential(convolution, *rest))
        self.logits = make_head(head, self.features_dim, classes)

    def pieces(self) -> Sequence[Piece]:
        """Return the four blocks."""
        return (self.conv1, self.conv2, self.conv3, self.conv4)
