"""Random crops, flips and colours on batches of decoded pictures."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from firthshot.backbones.images import Preparation

# Every recipe of the paper normalises with the channel means and deviations of ImageNet, and
# extraction does the same.
MEAN, DEVIATION = Preparation.mean, Preparation.std


def as_unit_floats(images: Any) -> torch.Tensor:
    """Turn ``uint8`` pictures (n, h, w, 3) into floats in [0, 1], (n, 3, h, w)."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).float().div_(255.0)


def normalise(pictures: torch.Tensor) -> torch.Tensor:
    """Subtract ImageNet's channel means and divide by its deviations."""
    mean, deviation = (torch.tensor(v).view(1, 3, 1, 1) for v in (MEAN, DEVIATION))
    return (pictures - mean) / deviation


def random_resized_crop(
    pictures: torch.Tensor, size: int, smallest: float, rng: torch.Generator
) -> torch.Tensor:
    """Cut a random box out of each picture, resize it to ``size`` and flip half of them.

    The box has a share of the area drawn evenly from [smallest, 1] and an aspect ratio drawn evenly
    in its logarithm from [3/4, 4/3], cut to the picture. One bilinear sampling of the whole batch
    (n, 3, h, w) does crop, resize and flip at once: the box and the flip are one affine map each.
    """
    n = len(pictures)
    area, aspect, x, y, coin = torch.rand(5, n, generator=rng)
    area = smallest + (1 - smallest) * area
    aspect = torch.exp(math.log(4 / 3) * (2 * aspect - 1))
    width = (area * aspect).sqrt().clamp(max=1.0)
    height = (area / aspect).sqrt().clamp(max=1.0)
    mirror = torch.where(coin < 0.5, -1.0, 1.0)
    maps = torch.zeros(n, 2, 3)
    maps[:, 0, 0], maps[:, 0, 2] = mirror * width, (1 - width) * (2 * x - 1)
    maps[:, 1, 1], maps[:, 1, 2] = height, (1 - height) * (2 * y - 1)
    grid = functional.affine_grid(maps, [n, 3, size, size], align_corners=False)
    return functional.grid_sample(pictures, grid, padding_mode="border", align_corners=False)


def jitter_colours(pictures: torch.Tensor, strength: float, rng: torch.Generator) -> torch.Tensor:
    """Change brightness, contrast and saturation of each picture by up to ``strength``.

    Each is a blend ``f * picture + (1 - f) * grey`` with ``f`` in [1 - strength, 1 + strength]:
    towards black, towards the picture's mean grey, and towards its own greys.
    """
    factors = 1 + strength * (2 * torch.rand(3, len(pictures), 1, 1, 1, generator=rng) - 1)
    pictures = (factors[0] * pictures).clamp_(0, 1)
    level = _greys(pictures).mean(dim=(1, 2, 3), keepdim=True)
    pictures = (factors[1] * pictures + (1 - factors[1]) * level).clamp_(0, 1)
    return (factors[2] * pictures + (1 - factors[2]) * _greys(pictures)).clamp_(0, 1)


def _greys(pictures: torch.Tensor) -> torch.Tensor:
    weights = torch.tensor((0.299, 0.587, 0.114)).view(1, 3, 1, 1)
    return (weights * pictures).sum(dim=1, keepdim=True)


def augment(
    images: Any, size: int, smallest: float, jitter: float, rng: torch.Generator
) -> torch.Tensor:
    """Return a training batch ``(n, 3, size, size)`` from ``uint8`` pictures ``(n, h, w, 3)``."""
    pictures = random_resized_crop(as_unit_floats(images), size, smallest, rng)
    if jitter > 0:
        pictures = jitter_colours(pictures, jitter, rng)
    return normalise(pictures).contiguous(memory_format=torch.channels_last)


def plain_view(images: Any, size: int) -> torch.Tensor:
    """Return the same pictures as they are, resized when their side is another."""
    pictures = as_unit_floats(images)
    if pictures.shape[-1] != size:
        pictures = functional.interpolate(pictures, (size, size), mode="bilinear", antialias=True)
    return normalise(pictures).contiguous(memory_format=torch.channels_last)
