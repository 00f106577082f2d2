"""The BatchNorm fingerprint, on real pictures through real networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from firthshot.banks import Bank, diagnose, load_bank, make_bank
from firthshot.banks._survey import block_ratio, centroid_accuracy, telling_ratio

torch = pytest.importorskip("torch")

BATCH = 32
MODES = ("eval", "shuffled", "sorted")


class Block(torch.nn.Module):
    """A residual block, as in the networks whose features look batch-centred."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.path = torch.nn.Sequential(
            torch.nn.Conv2d(inside, outside, 3, stride, 1, bias=False),
            torch.nn.BatchNorm2d(outside),
            torch.nn.ReLU(),
            torch.nn.Conv2d(outside, outside, 3, 1, 1, bias=False),
            torch.nn.BatchNorm2d(outside),
        )
        self.short = torch.nn.Sequential(
            torch.nn.Conv2d(inside, outside, 1, stride, bias=False),
            torch.nn.BatchNorm2d(outside),
        )

    def forward(self, pictures: Any) -> Any:
        return torch.relu(self.path(pictures) + self.short(pictures))


def _plain() -> Any:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 3, 1, 1, bias=False),
        torch.nn.BatchNorm2d(32),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, 2, 1, bias=False),
        torch.nn.BatchNorm2d(64),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
    )


def _residual() -> Any:
    stem = (torch.nn.Conv2d(1, 16, 3, 1, 1, bias=False), torch.nn.BatchNorm2d(16), torch.nn.ReLU())
    tail = (torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    return torch.nn.Sequential(*stem, Block(16, 32, 1), Block(32, 64, 2), *tail)


def _digits() -> tuple[Any, np.ndarray]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    mixed = np.random.default_rng(9).permutation(len(y))  # else runs of one writer hide much
    order = mixed[np.argsort(y[mixed], kind="stable")]
    pictures = torch.tensor(X[order] / 8 - 1, dtype=torch.float32).reshape(-1, 1, 8, 8)
    return pictures, y[order]


def _train(body: Any, pictures: Any, y: np.ndarray, steps: int) -> None:
    head = torch.nn.Linear(64, 10)
    optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], 3e-3)
    rng = np.random.default_rng(0)
    body.train()
    for _ in range(steps):
        rows = rng.integers(0, len(y), 64)
        loss = torch.nn.functional.cross_entropy(head(body(pictures[rows])), torch.tensor(y[rows]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def _extract(body: Any, pictures: Any, mode: str) -> np.ndarray:
    """Take features in eval mode or in training mode; return them sorted by class."""
    rows = np.arange(len(pictures))
    order = np.random.default_rng(1).permutation(rows) if mode == "shuffled" else rows
    body.train(mode != "eval")
    out = np.empty((len(rows), 64), np.float32)
    with torch.no_grad():
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            out[batch] = body(pictures[batch]).numpy()
    return out


def _bank(X: np.ndarray, y: np.ndarray, extraction: str = "") -> Bank:
    classes = [str(c) for c in range(10)]
    splits = ["novel"] * 10
    return make_bank(
        X, y, name="digits", classes=classes, class_splits=splits, extraction=extraction
    )


@pytest.fixture(scope="module", params=["plain", "residual"])
def extracted(request: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Features of the digits by a quickly trained network, in each mode."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    body = _plain() if request.param == "plain" else _residual()
    pictures, y = _digits()
    _train(body, pictures, y, 60)
    out = {mode: (_extract(body, pictures, mode), y) for mode in MODES}
    torch.set_num_threads(threads)
    return out


@pytest.mark.parametrize("mode", MODES)
def test_only_class_sorted_training_mode_is_found(extracted: Any, mode: str) -> None:
    X, y = extracted[mode]
    found = {one.code: one for one in diagnose(_bank(X, y))}
    ratio, accuracy = block_ratio(X, y, BATCH), centroid_accuracy(X, y)
    assert ratio is not None
    assert accuracy is not None
    print(f"{mode}: R = {ratio.ratio:.2f}, leave-one-out nearest centroid {accuracy[0]:.1%}")
    assert ratio.ratio < 0.2 if mode == "sorted" else ratio.ratio > 0.7
    assert ("batchnorm-sorted" in found) == (mode == "sorted")
    if mode == "sorted":
        assert found["batchnorm-sorted"].severity == "broken"
        assert f"blocks of {BATCH} rows" in found["batchnorm-sorted"].sentence
        assert "eval mode" in found["batchnorm-sorted"].sentence


def test_a_declared_extraction_is_only_remarkable(extracted: Any) -> None:
    found = diagnose(_bank(*extracted["sorted"], extraction="bn-train-sorted"))
    assert [one.severity for one in found if one.code == "batchnorm-sorted"] == ["remarkable"]


def test_shuffled_rows_say_nothing(extracted: Any) -> None:
    X, y = extracted["sorted"]
    order = np.random.default_rng(2).permutation(len(y))
    assert telling_ratio(X[order], y[order]) is None


@pytest.mark.parametrize("seed", range(10))
def test_uninformative_features_are_near_chance_only(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(10), 120)
    X = rng.normal(size=(1200, 8)) @ np.diag(0.5 ** np.arange(8))  # few effective dimensions
    assert {one.code for one in diagnose(_bank(X, y))} == {"near-chance"}


def test_the_embedded_bank_is_not_batch_centred() -> None:
    bank = load_bank("clinc150-minilm")
    X, y = bank.select("novel").astype(np.float32), bank.labels[bank.rows("novel")]
    found = telling_ratio(X, y)
    assert found is not None
    assert found.ratio > 1.5


@pytest.mark.parametrize("block", [16, 32, 100])
def test_centred_blocks_are_found_at_their_size(block: int) -> None:
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(8000, 20)), np.repeat(np.arange(10), 800)
    means = X.reshape(-1, block, 20).mean(axis=1)
    found = telling_ratio(X - np.repeat(means, block, axis=0), y)
    assert found is not None
    assert found.centred
    assert (found.block, found.ratio < 0.2) == (block, True)


def test_classes_smaller_than_a_batch_are_compared_across_blocks() -> None:
    rng = np.random.default_rng(6)
    y = np.repeat(np.arange(64), 20)
    X = rng.normal(size=(1280, 20))
    centred = X - np.repeat(X.reshape(-1, 32, 20).mean(axis=1), 32, axis=0)
    assert block_ratio(centred, y, 32, 0.05).centred
    assert not block_ratio(X, y, 32, 0.05).centred
    informative = X + 3 * rng.normal(size=(64, 20))[y]
    assert block_ratio(informative, y, 32, 0.05).ratio > 5


def test_the_ratio_agrees_with_its_definition() -> None:
    rng = np.random.default_rng(7)
    y = np.repeat(np.arange(4), 70)
    X = rng.normal(size=(280, 3)) + y[:, None]
    blocks = [X[i : i + 16] for i in range(0, 272, 16) if len(set(y[i : i + 16])) == 1]
    owners = [y[i] for i in range(0, 272, 16) if len(set(y[i : i + 16])) == 1]
    means = np.array([block.mean(axis=0) for block in blocks])
    centre = np.array([means[np.array(owners) == owner].mean(axis=0) for owner in owners])
    between = 16 * np.sum((means - centre) ** 2) / (len(blocks) - 4)
    within = sum(np.sum((b - b.mean(axis=0)) ** 2) for b in blocks) / (len(blocks) * 15)
    assert block_ratio(X, y, 16).ratio == pytest.approx(between / within, rel=1e-4)


@pytest.mark.parametrize("rows", [1, 20, 63])
def test_too_few_rows_say_nothing(rows: int) -> None:
    X = np.random.default_rng(8).normal(size=(rows, 4))
    assert telling_ratio(X, np.zeros(rows, int)) is None
