"""Wide residual networks (Zagoruyko & Komodakis, 2016): pre-activation blocks, small stem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn
from torch.nn import functional

from firthshot.backbones.architectures._base import Backbone, Piece, make_head, start_convolutions

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch


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
    """WRN-depth-width: three groups of (depth - 4) / 6 blocks, of 16, 32 and 64 times the width."""

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

    def _first(self, x: torch.Tensor) -> torch.Tensor:
        first: torch.Tensor = self.block1(self.conv1(x))
        return first

    def _close(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.bn1(x))

    def pieces(self) -> Sequence[Piece]:
        """Return the groups, the first with the stem, and the closing batch norm.

        S2M2 mixes hidden states before any one of these four.
        """
        return (self._first, self.block2, self.block3, self._close)
