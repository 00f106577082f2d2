"""DenseNet (Huang et al., 2017), with torchvision's parameter names, and MobileNet for 84 px."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from firthshot.backbones.architectures._base import Backbone, Piece, make_head, start_convolutions

GROWTH = 32
# Channels and stride of each separable convolution, group by group.
GROUPS = (
    ((64, 1),),
    ((128, 2), (128, 1)),
    ((256, 2), (256, 1)),
    ((512, 2), *((512, 1),) * 5),
    ((1024, 2), (1024, 1)),
)


class DenseLayer(nn.Module):
    """Batch norm, ReLU, 1 x 1 convolution to 4 growths; the same with 3 x 3 to one growth.

    The new channels are appended to the input.
    """

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, 4 * GROWTH, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * GROWTH)
        self.conv2 = nn.Conv2d(4 * GROWTH, GROWTH, 3, 1, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the input with ``GROWTH`` more channels."""
        hidden = self.conv1(functional.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(functional.relu(self.norm2(hidden)))], dim=1)


def _transition(inputs: int) -> nn.Sequential:
    """Halve the channels and the sides."""
    halving = nn.Conv2d(inputs, inputs // 2, 1, bias=False)
    parts = {"norm": nn.BatchNorm2d(inputs), "relu": nn.ReLU(), "conv": halving}
    return nn.Sequential(OrderedDict(parts, pool=nn.AvgPool2d(2)))


class DenseNet(Backbone):
    """DenseNet with growth 32; ``depths`` are the layers of the dense blocks.

    ``small`` is SimpleShot's variant for 84 px: a 3 x 3 convolution as stem instead of a 7 x 7 one
    with batch norm and pooling (stride 4).
    """

    HEAD = "classifier"

    def __init__(
        self,
        depths: Sequence[int],
        small: bool = False,
        classes: int | None = None,
        head: str = "linear",
    ) -> None:
        super().__init__()
        self.features = nn.Module()  # torchvision's name for all but the head
        self.small, self.blocks = small, len(depths)
        channels = 64
        if small:
            self.features.conv0 = nn.Conv2d(3, channels, 3, 1, 1, bias=False)
        else:
            self.features.conv0 = nn.Conv2d(3, channels, 7, 2, 3, bias=False)
            self.features.norm0 = nn.BatchNorm2d(channels)
        for number, depth in enumerate(depths, start=1):
            block = nn.Sequential()
            for layer in range(1, depth + 1):
                block.add_module(f"denselayer{layer}", DenseLayer(channels))
                channels += GROWTH
            self.features.add_module(f"denseblock{number}", block)
            if number < len(depths):
                self.features.add_module(f"transition{number}", _transition(channels))
                channels //= 2
        self.features.norm5 = nn.BatchNorm2d(channels)
        self.features_dim = channels
        start_convolutions(self, "fan_in")
        self.classifier = make_head(head, channels, classes)

    def _stem(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.features.conv0(x)
        if self.small:
            return hidden
        return functional.max_pool2d(functional.relu(self.features.norm0(hidden)), 3, 2, 1)

    def _block(self, number: int) -> nn.Sequential:
        """Return a dense block with the transition, or the closing batch norm, that follows it."""
        block = self.features.get_submodule(f"denseblock{number}")
        if number == self.blocks:
            return nn.Sequential(block, self.features.norm5, nn.ReLU())
        return nn.Sequential(block, self.features.get_submodule(f"transition{number}"))

    def pieces(self) -> Sequence[Piece]:
        """Return the stem and the dense blocks."""
        return (self._stem, *(self._block(number + 1) for number in range(self.blocks)))


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
    """MobileNet (Howard et al., 2017) in SimpleShot's variant for 84 px, which end as 6 x 6.

    Its stem keeps the size: stride 1 instead of 2.
    """

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
