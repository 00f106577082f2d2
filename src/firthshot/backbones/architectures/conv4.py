"""Conv-4, the small network of the first few-shot papers (Vinyals et al., 2016)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from firthshot.backbones.architectures._base import Backbone, Piece, make_head

if TYPE_CHECKING:
    from collections.abc import Sequence


class Conv4(Backbone):
    """Four times 3 x 3 convolution to 64 channels, batch norm, ReLU and 2 x 2 max pooling.

    The features are the last map itself, 64 x 5 x 5 = 1600 numbers at 84 px; at other sizes it is
    averaged to (or repeated in) 5 x 5 cells.
    """

    HEAD = "logits"
    CELLS = 5
    features_dim = 1600

    def __init__(self, classes: int | None = None, head: str = "linear") -> None:
        super().__init__()
        for number, inputs in enumerate((3, 64, 64, 64), start=1):
            setattr(self, f"conv{number}", _block(inputs))
        self.logits = make_head(head, self.features_dim, classes)

    def pieces(self) -> Sequence[Piece]:
        """Return the four blocks."""
        return (self.conv1, self.conv2, self.conv3, self.conv4)


def _block(inputs: int) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, 64, 3, padding=1)
    return nn.Sequential(convolution, nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(2))
