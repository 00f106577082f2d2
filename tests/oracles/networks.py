"""Residual and dense networks as plain functions of a state dict with torchvision's names."""

from __future__ import annotations

import torch
from torch.nn import functional

State = dict[str, torch.Tensor]


def resnet_features(state: State, x: torch.Tensor) -> torch.Tensor:
    """Return the features of a ResNet in evaluation mode, whatever its depth and block."""
    x = functional.relu(
        _norm(state, "bn1", functional.conv2d(x, state["conv1.weight"], None, 2, 3))
    )
    x = functional.max_pool2d(x, 3, 2, 1)
    for group in range(1, 5):
        block = 0
        while f"layer{group}.{block}.conv1.weight" in state:
            x = _residual_block(
                state, f"layer{group}.{block}.", x, 2 if group > 1 and block == 0 else 1
            )
            block += 1
    return x.mean(dim=(2, 3))


def _residual_block(state: State, at: str, x: torch.Tensor, stride: int) -> torch.Tensor:
    def convolve(number: int, y: torch.Tensor, step: int, pad: int) -> torch.Tensor:
        y = functional.conv2d(y, state[f"{at}conv{number}.weight"], None, step, pad)
        return _norm(state, f"{at}bn{number}", y)

    if f"{at}conv3.weight" in state:
        y = functional.relu(convolve(1, x, 1, 0))
        y = functional.relu(convolve(2, y, stride, 1))
        y = convolve(3, y, 1, 0)
    else:
        y = functional.relu(convolve(1, x, stride, 1))
        y = convolve(2, y, 1, 1)
    if f"{at}downsample.0.weight" in state:
        x = functional.conv2d(x, state[f"{at}downsample.0.weight"], None, stride)
        x = _norm(state, f"{at}downsample.1", x)
    return functional.relu(x + y)


def densenet_features(state: State, x: torch.Tensor) -> torch.Tensor:
    """Return the features of a DenseNet with the ImageNet stem in evaluation mode."""
    x = functional.conv2d(x, state["features.conv0.weight"], None, 2, 3)
    x = functional.max_pool2d(functional.relu(_norm(state, "features.norm0", x)), 3, 2, 1)
    for block in range(1, 5):
        layer = 1
        while f"features.denseblock{block}.denselayer{layer}.conv1.weight" in state:
            at = f"features.denseblock{block}.denselayer{layer}."
            y = functional.relu(_norm(state, f"{at}norm1", x))
            y = functional.conv2d(y, state[f"{at}conv1.weight"])
            y = functional.relu(_norm(state, f"{at}norm2", y))
            y = functional.conv2d(y, state[f"{at}conv2.weight"], None, 1, 1)
            x = torch.cat([x, y], dim=1)
            layer += 1
        if block < 4:
            at = f"features.transition{block}."
            x = functional.relu(_norm(state, f"{at}norm", x))
            x = functional.avg_pool2d(functional.conv2d(x, state[f"{at}conv.weight"]), 2, 2)
    return functional.relu(_norm(state, "features.norm5", x)).mean(dim=(2, 3))


def _norm(state: State, at: str, x: torch.Tensor) -> torch.Tensor:
    mean, variance, weight, bias = (
        state[f"{at}.{name}"][:, None, None]
        for name in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / torch.sqrt(variance + 1e-5) * weight + bias
