"""Augmentation, objectives, schedules and lanes, each against a plain reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from backbones.digits import digit_pixels
from firthshot.backbones.architectures import make_backbone
from firthshot.backbones.training import Recipe, Stage, s2m2, standard
from firthshot.backbones.training._augment import (
    augment,
    jitter_colours,
    plain_view,
    random_resized_crop,
)
from firthshot.backbones.training._learner import OBJECTIVES, Lanes, Learner, _beta_two_two
from firthshot.backbones.training._loop import split_monitored
from firthshot.errors import FirthshotError


def _rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _ramps(n: int, side: int) -> torch.Tensor:
    """Pictures whose channels are the column, the row and one, at the centres of the pixels."""
    centres = (torch.arange(side) + 0.5) / side
    columns, rows = centres.expand(side, side), centres[:, None].expand(side, side)
    return torch.stack([columns, rows, torch.ones(side, side)]).expand(n, 3, side, side).clone()


def test_crops_are_boxes_of_the_right_area_and_shape_and_half_are_mirrored() -> None:
    # Bilinear sampling of a linear function is exact: the ramps tell which box was cut out. The
    # outermost pixels may lie beyond the last centre, where the border is repeated.
    crops = random_resized_crop(_ramps(400, 64), 32, 0.25, _rng())
    inner = crops[:, :, 4:-4, 4:-4]
    slopes = torch.stack(
        [inner[:, 0].diff(dim=2).mean(dim=(1, 2)), inner[:, 1].diff(dim=1).mean(dim=(1, 2))]
    )
    width, height = 32 * slopes[0].abs(), 32 * slopes[1]
    assert inner[:, 0].diff(dim=2).sub(slopes[0][:, None, None]).abs().max() < 1e-4
    assert (height > 0).all(), "no picture stands on its head"
    assert 0.4 < float((slopes[0] < 0).float().mean()) < 0.6
    area, aspect = width * height, width / height
    assert float(area.min()) > 0.2
    assert float(area.max()) <= 1 + 1e-4
    assert 0.5 < float(area.median()) < 0.72
    assert float(aspect.min()) > 0.74
    assert float(aspect.max()) < 1.35
    torch.testing.assert_close(crops[:, 2], torch.ones(400, 32, 32))


def test_a_crop_of_the_whole_is_the_picture_resized() -> None:
    pictures = torch.rand(6, 3, 16, 16)
    for crop, picture in zip(
        random_resized_crop(pictures, 16, 1.0, _rng(3)), pictures, strict=True
    ):
        # The area is one; a side that the aspect ratio would lengthen is cut to the picture.
        assert crop.shape == picture.shape
        assert picture.min() - 1e-6 <= crop.min() <= crop.max() <= picture.max() + 1e-6


def test_jitter_blends_with_black_with_the_mean_grey_and_with_grey() -> None:
    pictures = 0.3 + 0.4 * torch.rand(5, 3, 8, 8)
    factors = 1 + 0.1 * (2 * torch.rand(3, 5, 1, 1, 1, generator=_rng(7)) - 1)
    expected = []
    for i, picture in enumerate(pictures):
        brightness, contrast, saturation = (float(f) for f in factors[:, i].flatten())
        picture = brightness * picture
        grey = 0.299 * picture[0] + 0.587 * picture[1] + 0.114 * picture[2]
        picture = contrast * picture + (1 - contrast) * grey.mean()
        grey = 0.299 * picture[0] + 0.587 * picture[1] + 0.114 * picture[2]
        expected.append(saturation * picture + (1 - saturation) * grey)
    torch.testing.assert_close(jitter_colours(pictures, 0.1, _rng(7)), torch.stack(expected))


def test_augmentation_follows_its_generator_only() -> None:
    images = digit_pixels().images[:8]
    first = augment(images, 16, 0.25, 0.4, _rng(1))
    torch.rand(100)
    assert torch.equal(first, augment(images, 16, 0.25, 0.4, _rng(1)))
    assert not torch.equal(first, augment(images, 16, 0.25, 0.4, _rng(2)))


def test_the_plain_view_is_what_extraction_sees() -> None:
    from firthshot.backbones.images import Preparation

    images = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), np.uint8)
    expected = torch.from_numpy(Preparation(16).normalise(images))
    torch.testing.assert_close(plain_view(images, 16).contiguous(), expected)
    assert plain_view(images, 8).shape == (3, 3, 8, 8)


@pytest.fixture
def learner() -> Learner:
    torch.manual_seed(0)
    # In evaluation mode batch norm treats each picture alone, so plain loops can be compared.
    return Learner(make_backbone("wrn-10-1", 4, "cosine"), rotations=True).eval()


PICTURES, LABELS = torch.randn(8, 3, 8, 8, generator=_rng(9)), torch.tensor([0, 1, 2, 3] * 2)


def _rotation_by_loop(learner: Learner, pictures: torch.Tensor, labels: torch.Tensor) -> float:
    losses = []
    for picture, label in zip(pictures, labels, strict=True):
        for quarters in range(4):
            turned = np.rot90(picture.numpy(), quarters, axes=(1, 2)).copy()
            features = learner.network.embed(torch.from_numpy(turned)[None])
            by_class = functional.cross_entropy(learner.network.head(features), label[None])
            by_turn = functional.cross_entropy(
                learner.rotation_head(features), torch.tensor([quarters])
            )
            losses.append(0.5 * float(by_class) + 0.5 * float(by_turn))
    return sum(losses) / len(losses)


@torch.no_grad()
def test_rotation_is_the_mean_over_all_four(learner: Learner) -> None:
    outcome = OBJECTIVES["rotation"](learner, PICTURES, LABELS, _rng())
    assert outcome.seen == 32
    assert float(outcome.loss) == pytest.approx(_rotation_by_loop(learner, PICTURES, LABELS), 1e-4)


@torch.no_grad()
def test_one_rotation_is_rotation_in_the_mean(learner: Learner) -> None:
    rng = _rng(4)
    losses = [
        float(OBJECTIVES["one-rotation"](learner, PICTURES, LABELS, rng).loss) for _ in range(200)
    ]
    error = np.std(losses, ddof=1) / math.sqrt(len(losses))
    assert abs(np.mean(losses) - _rotation_by_loop(learner, PICTURES, LABELS)) < 5 * error


@torch.no_grad()
def test_mixup_mixes_one_hidden_layer_and_the_labels(learner: Learner) -> None:
    network, pieces = learner.network, learner.network.pieces()
    seen = set()
    for seed in range(12):
        rng = _rng(seed)
        share = float(torch.rand(3, generator=rng).sort().values[1])
        partner = torch.randperm(8, generator=rng)
        depth = int(torch.randint(0, len(pieces), (), generator=rng))
        hidden = PICTURES
        for place in range(len(pieces) + 1):
            if place > 0:
                hidden = pieces[place - 1](hidden)
            if place == depth:
                hidden = share * hidden + (1 - share) * hidden[partner]
        logs = functional.log_softmax(network.head(hidden.mean(dim=(2, 3))), dim=1)
        rows = torch.arange(8)
        mixed = -share * logs[rows, LABELS] - (1 - share) * logs[rows, LABELS[partner]]
        expected = float(mixed.mean()) + _rotation_by_loop(learner, PICTURES[:2], LABELS[:2])
        outcome = OBJECTIVES["mixup"](learner, PICTURES, LABELS, _rng(seed))
        assert float(outcome.loss) == pytest.approx(expected, rel=1e-4)
        seen.add(depth)
    assert seen == {0, 1, 2, 3}, "every depth is drawn"


def test_the_share_is_distributed_as_beta_two_two() -> None:
    from scipy import stats

    rng = _rng(0)
    draws = [_beta_two_two(rng) for _ in range(4000)]
    assert stats.kstest(draws, stats.beta(2, 2).cdf).pvalue > 1e-3


def test_steps_are_those_of_torch() -> None:
    stage = Stage("cross-entropy", 90, "sgd", 0.1, schedule="steps", step_every=30)
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, 30, 0.1)
    for epoch in range(90):
        assert stage.rate_at(epoch + 0.5) == pytest.approx(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step()


def test_one_cycle_is_that_of_torch() -> None:
    steps = 20_000  # torch counts its phases in whole steps; with many, the shapes agree
    stage = Stage("cross-entropy", 10, "sgd", 0.2, schedule="one-cycle")
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.2, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 0.2, total_steps=steps, div_factor=25, final_div_factor=400
    )
    optimiser.step()
    for step in range(steps - 1):
        if step % 500 == 0:
            assert stage.rate_at(10 * step / steps) == pytest.approx(
                schedule.get_last_lr()[0], abs=1e-4
            )
        schedule.step()
    assert stage.rate_at(3.0) == pytest.approx(0.2)


def test_recipes_are_the_published_ones() -> None:
    mini = standard("mini-imagenet")
    assert mini.stages == (Stage("cross-entropy", 90, "sgd", 0.1, 3e-4, False, "steps", 30),)
    assert mini.batch == 256
    cifar = standard("cifar-fs")
    assert cifar.stages == (Stage("cross-entropy", 400, "adam", 1e-3),)
    assert cifar.batch == 16
    assert [stage.objective for stage in s2m2().stages] == ["rotation", "mixup"]
    assert [stage.epochs for stage in s2m2().stages] == [400, 100]
    assert s2m2("cub").stages[0].epochs == 200
    assert s2m2().head == "cosine"


def test_stages_follow_one_another() -> None:
    recipe = Recipe("s2m2", (Stage("rotation", 3, "sgd", 0.1), Stage("mixup", 2, "sgd", 0.1)), 8)
    places = [(s.objective, place) for s, place in map(recipe.stage_of, range(5))]
    assert places == [("rotation", 0), ("rotation", 1), ("rotation", 2), ("mixup", 0), ("mixup", 1)]
    with pytest.raises(FirthshotError, match="only 5 epochs"):
        recipe.stage_of(5)


def test_the_last_tenth_of_each_class_is_monitored() -> None:
    labels = np.repeat([0, 1, 2, 3], [20, 10, 35, 1])
    train, monitored = split_monitored(labels)
    assert sorted([*train, *monitored]) == list(range(66))
    assert monitored.tolist() == [18, 19, 29, 61, 62, 63, 64]


def test_lanes_share_parameters_and_average_statistics() -> None:
    lanes = Lanes(Learner(make_backbone("conv4", 3), rotations=False), 3)
    originals = [*lanes.learners[0].parameters()]
    for twin in lanes.learners[1:]:
        assert all(a is b for a, b in zip(originals, twin.parameters(), strict=True))
    with lanes.open():
        lanes.run(lambda lane, one: one.network(torch.randn(4, 3, 16, 16, generator=_rng(lane))))
    means = [one.network.conv1[1].running_mean.clone() for one in lanes.learners]
    assert not torch.equal(means[0], means[1])
    lanes.merge()
    for one in lanes.learners:
        torch.testing.assert_close(one.network.conv1[1].running_mean, sum(means) / 3)


def test_gradients_of_lanes_add_up_to_that_of_the_batch() -> None:
    # In evaluation mode batch norm does not couple the pictures, and a batch is a sum.
    lanes = Lanes(Learner(make_backbone("conv4", 4), rotations=False).eval(), 2)
    pictures = torch.randn(8, 3, 16, 16, generator=_rng(2))

    def gradient(one: Learner, rows: slice) -> tuple[torch.Tensor, ...]:
        loss = OBJECTIVES["cross-entropy"](one, pictures[rows], LABELS[rows], _rng()).loss
        return torch.autograd.grad(loss, list(one.parameters()))

    with lanes.open():
        parts = lanes.run(lambda lane, one: gradient(one, slice(4 * lane, 4 * lane + 4)))
    whole = gradient(lanes.learners[0], slice(8))
    for left, right, full in zip(*parts, whole, strict=True):
        torch.testing.assert_close((left + right) / 2, full, rtol=1e-4, atol=1e-6)
