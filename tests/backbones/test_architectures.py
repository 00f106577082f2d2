from __future__ import annotations

import pytest
import torch
from torch import nn

from firthshot.backbones.architectures import ARCHITECTURES, make_backbone
from firthshot.backbones.architectures._base import CosineLayer
from firthshot.errors import FirthshotError
from oracles.networks import densenet_features, resnet_features

# Parameters with 1000 classes, of torchvision's ResNets and DenseNet and of MobileNet v1 (4.2 M);
# with 10 classes, of the wide ResNets (36.5 M, 11.0 M and 8.9 M in their paper); without a head,
# of Conv-4 (113 k) and ResNet-12 (12.4 M), which the few-shot papers count so.
PUBLISHED = [
    ("resnet18", 1000, 11_689_512),
    ("resnet34", 1000, 21_797_672),
    ("resnet50", 1000, 25_557_032),
    ("resnet101", 1000, 44_549_160),
    ("densenet121", 1000, 7_978_856),
    ("mobilenet", 1000, 4_231_976),
    ("wrn-28-10", 10, 36_479_194),
    ("wrn-16-8", 10, 10_961_370),
    ("wrn-40-4", 10, 8_949_210),
    ("conv4", None, 113_088),
    ("resnet12", None, 12_424_320),
    # The paper's own: basic blocks [1, 1, 1, 1] with torchvision's head of 1000.
    ("resnet10", 1000, 5_418_792),
]
WIDTHS = {
    "conv4": 1600,
    "resnet10": 512,
    "resnet12": 640,
    "resnet18": 512,
    "resnet34": 512,
    "resnet50": 2048,
    "resnet101": 2048,
    "wrn-16-2": 128,
    "wrn-28-10": 640,
    "densenet121": 1024,
    "densenet121-84": 1024,
    "mobilenet": 1024,
}
# Entries of torchvision's state dicts.
ENTRIES = {"resnet18": 122, "resnet34": 218, "resnet50": 320, "resnet101": 626, "densenet121": 727}


def _shapes_only(name: str, classes: int | None = None) -> nn.Module:
    with torch.device("meta"):
        return make_backbone(name, classes)


def _with_lively_norms(network: nn.Module) -> nn.Module:
    """Give batch norms statistics and weights that a wrong order or a missing one would betray."""
    rng = torch.Generator().manual_seed(5)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            for tensor in (layer.running_var, layer.weight.data):
                tensor.copy_(0.5 + torch.rand(tensor.shape, generator=rng))
            for tensor in (layer.running_mean, layer.bias.data):
                tensor.copy_(torch.rand(tensor.shape, generator=rng) - 0.5)
    return network.eval()


@pytest.mark.parametrize(("name", "classes", "count"), PUBLISHED)
def test_parameters_are_as_many_as_published(name: str, classes: int | None, count: int) -> None:
    network = _shapes_only(name, classes)
    assert sum(parameter.numel() for parameter in network.parameters()) == count


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("side", [32, 84, 224])
def test_features_have_their_width_at_every_size(name: str, side: int) -> None:
    network = _shapes_only(name).eval()
    assert network.features_dim == WIDTHS[name]
    with torch.device("meta"):
        assert network(torch.empty(2, 3, side, side)).shape == (2, WIDTHS[name])


@pytest.mark.parametrize("name", ["conv4", "resnet10", "resnet12", "wrn-16-2", "mobilenet"])
def test_scores_are_the_head_of_the_features(name: str) -> None:
    network = make_backbone(name, classes=7).eval()
    pictures = torch.randn(2, 3, 32, 32)
    with torch.inference_mode():
        features, scores, head = network.embed(pictures), network(pictures), network.head
        assert features.shape == (2, WIDTHS[name])
        torch.testing.assert_close(scores, features @ head.weight.T + head.bias)


@pytest.mark.parametrize("name", ENTRIES)
def test_names_are_as_many_as_torchvisions(name: str) -> None:
    assert len(_shapes_only(name, 1000).state_dict()) == ENTRIES[name]


@pytest.mark.parametrize("name", ["resnet10", "resnet18", "resnet50"])
def test_resnets_compute_what_torchvisions_names_say(name: str) -> None:
    network = _with_lively_norms(make_backbone(name)).double()
    pictures = torch.randn(2, 3, 40, 40).double()
    with torch.inference_mode():
        expected = resnet_features(network.state_dict(), pictures)
        torch.testing.assert_close(network(pictures), expected)


def test_densenet_computes_what_torchvisions_names_say() -> None:
    network = _with_lively_norms(make_backbone("densenet121")).double()
    pictures = torch.randn(2, 3, 64, 64).double()
    with torch.inference_mode():
        expected = densenet_features(network.state_dict(), pictures)
        torch.testing.assert_close(network(pictures), expected)


def test_conv4_at_84_pixels_is_the_flattened_map() -> None:
    network = make_backbone("conv4").eval()
    pictures = torch.randn(1, 3, 84, 84)
    with torch.inference_mode():
        hidden = pictures
        for piece in network.pieces():
            hidden = piece(hidden)
        assert hidden.shape == (1, 64, 5, 5)
        torch.testing.assert_close(network(pictures), hidden.flatten(1))


@pytest.mark.parametrize("name", ["conv4", "resnet10", "wrn-16-2", "mobilenet", "densenet121-84"])
def test_a_change_is_made_after_any_piece_and_once(name: str) -> None:
    network = make_backbone(name).eval()
    pictures = torch.randn(2, 3, 32, 32)
    for depth in range(len(network.pieces())):
        seen: list[torch.Tensor] = []

        def keep(hidden: torch.Tensor, seen: list[torch.Tensor] = seen) -> torch.Tensor:
            seen.append(hidden)
            return torch.zeros_like(hidden)

        with torch.inference_mode():
            features = network.embed(pictures, change_after=depth, change=keep)
        assert len(seen) == 1
        torch.testing.assert_close(features[0], features[1])  # both pictures were wiped out


def test_cosine_scores_follow_the_formula() -> None:
    head = CosineLayer(5, 3)
    features = torch.randn(4, 5)
    scores = head(features)
    for row in range(4):
        for k in range(3):
            v, x = head.direction[k], features[row]
            cosine = (v @ x) / v.norm() / (x.norm() + 1e-5)
            torch.testing.assert_close(scores[row, k], 2 * head.norm[k] * cosine)
    assert CosineLayer(5, 201).scale == 10.0


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("resnet11", "no architecture 'resnet11'; known are conv4"), ("wrn-17-2", "depths are 6 n")],
)
def test_unknown_names_are_told(name: str, sentence: str) -> None:
    with pytest.raises(FirthshotError, match=sentence):
        make_backbone(name)


def test_unknown_heads_are_told() -> None:
    with pytest.raises(FirthshotError, match="known are linear and cosine"):
        make_backbone("conv4", 3, head="round")
