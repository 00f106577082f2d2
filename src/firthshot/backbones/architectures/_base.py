"""What all architectures share: pieces in a row, average pooling, a head."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional

from firthshot.objective import cosine_scale

Piece = Callable[[torch.Tensor], torch.Tensor]


class Backbone(nn.Module):
    """A network that maps pictures ``(n, 3, side, side)`` to feature rows ``(n, features_dim)``.

    A subclass assigns ``features_dim`` and its layers, implements :meth:`pieces`, and names the
    attribute of its head in ``HEAD`` as the published checkpoints do. It takes ``classes`` and
    ``head`` as `make_backbone` does.
    """

    HEAD = "fc"
    CELLS = 1  # the last feature map is averaged to CELLS x CELLS places
    features_dim: int

    def pieces(self) -> Sequence[Piece]:
        """Return the maps whose composition takes pictures to the last feature map."""
        raise NotImplementedError

    def embed(
        self,
        pictures: torch.Tensor,
        *,
        change_after: int = -1,
        change: Piece | None = None,
    ) -> torch.Tensor:
        """Return the features ``(n, features_dim)`` of normalised pictures: the last map, averaged.

        After ``change_after`` pieces (0: before all) ``change`` maps the hidden state, as manifold
        mixup does.
        """
        hidden = pictures
        for depth, piece in enumerate((None, *self.pieces())):
            hidden = hidden if piece is None else piece(hidden)
            if change is not None and depth == change_after:
                hidden = change(hidden)
        return functional.adaptive_avg_pool2d(hidden, self.CELLS).flatten(1)

    @property
    def head(self) -> nn.Module | None:
        """The map of features to class scores; None in a network made without classes."""
        head: nn.Module | None = getattr(self, self.HEAD)
        return head

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Return class scores ``(n, classes)``, or the features of a network without a head."""
        features = self.embed(pictures)
        return features if self.head is None else self.head(features)


class CosineLayer(nn.Module):
    r"""The cosine classifier with learnable class norms that S2M2_R trains with.

    .. math:: z_k = s\, g_k \left\langle \frac{v_k}{\lVert v_k\rVert},
              \frac{x}{\lVert x\rVert + 10^{-5}} \right\rangle

    with scale :math:`s = 2` up to 200 classes and 10 above. S2M2_R starts with the norms of random
    rows, about .6, where all scores are nearly alike, and lets hundreds of epochs raise them; here
    they start at 5, which spares short trainings that climb.
    """

    START_NORM = 5.0

    def __init__(self, features_dim: int, classes: int) -> None:
        super().__init__()
        start = nn.Linear(features_dim, classes, bias=False).weight.detach()
        self.direction = nn.Parameter(start.clone())
        self.norm = nn.Parameter(torch.full((classes,), self.START_NORM))
        self.scale = cosine_scale(classes)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores ``(n, classes)`` of features ``(n, d)``."""
        rows = features / (features.norm(dim=1, keepdim=True) + 1e-5)
        weight = self.norm[:, None] * functional.normalize(self.direction, dim=1)
        return self.scale * functional.linear(rows, weight)


def make_head(kind: str, features_dim: int, classes: int | None) -> nn.Module | None:
    """Return a ``"linear"`` or ``"cosine"`` head, or None when there are no classes."""
    if classes is None:
        return None
    heads: dict[str, Callable[[int, int], nn.Module]] = {"linear": nn.Linear, "cosine": CosineLayer}
    return heads[kind](features_dim, classes)


def start_convolutions(network: nn.Module, mode: str = "fan_out") -> None:
    """Draw convolution weights after He et al. (2015); batch norms start at one and zero."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode=mode, nonlinearity="relu")
