"""The architectures, written plainly in torch, and the one place that knows their names."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from firthshot.errors import FirthshotError, MissingExtraError

if TYPE_CHECKING:
    from firthshot.backbones.architectures._base import Backbone

HEADS = ("linear", "cosine")
_DEEPEST = 1000  # a name in a file may ask for any number of layers
_WIDE = re.compile(r"wrn-(\d+)-(\d+)")
_RESNETS = {  # blocks of each group, and whether they are bottlenecks
    "resnet10": ((1, 1, 1, 1), False),
    "resnet18": ((2, 2, 2, 2), False),
    "resnet34": ((3, 4, 6, 3), False),
    "resnet50": ((3, 4, 6, 3), True),
    "resnet101": ((3, 4, 23, 3), True),
}

ARCHITECTURES = (
    "conv4",
    "resnet10",
    "resnet12",
    *(name for name in _RESNETS if name != "resnet10"),
    "wrn-16-2",
    "wrn-28-10",
    "densenet121",
    "densenet121-84",
    "mobilenet",
)
"""The names that :func:`make_backbone` knows, besides every other ``wrn-DEPTH-WIDTH``."""


def make_backbone(name: str, classes: int | None = None, head: str = "linear") -> Backbone:
    """Build an architecture by its name, with random weights.

    Parameters
    ----------
    name : str
        One of :data:`ARCHITECTURES`, or ``wrn-DEPTH-WIDTH`` with a depth of 6 n + 4.
    classes : int, optional
        Outputs of the head. Without, the network has no head and returns its features.
    head : str
        ``"linear"`` or ``"cosine"``.

    Returns
    -------
    Backbone
        A torch module with ``features_dim`` and ``embed(pictures)``.
    """
    if head not in HEADS:
        raise FirthshotError(f"There is no head {head!r}; known are {' and '.join(HEADS)}.")
    return _builder(name)(classes, head)


def _builder(name: str) -> Callable[[int | None, str], Backbone]:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtraError("A backbone", "torch") from None
    from firthshot.backbones.architectures import mobile_and_dense, residual

    if name in _RESNETS:
        return partial(residual.ResNet, *_RESNETS[name])
    if wide := _WIDE.fullmatch(name):
        depth, width = (int(number) for number in wide.groups())
        if 10 <= depth <= _DEEPEST and depth % 6 == 4 and width >= 1:
            return partial(residual.WideResNet, depth, width)
        raise FirthshotError(
            f"{name} is no wide ResNet: depths are 6 n + 4 up to {_DEEPEST}, as in wrn-16-2."
        )
    if name.startswith("densenet121") and name in ARCHITECTURES:
        return partial(mobile_and_dense.DenseNet, (6, 12, 24, 16), name.endswith("-84"))
    plain: dict[str, Callable[[int | None, str], Backbone]] = {
        "conv4": residual.Conv4,
        "resnet12": residual.ResNet12,
        "mobilenet": mobile_and_dense.MobileNet,
    }
    if name in plain:
        return plain[name]
    known = ", ".join(ARCHITECTURES)
    raise FirthshotError(f"There is no architecture {name!r}; known are {known}.")
