from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from firthshot.backbones.encoders import _torch, digest_module, load_encoder, torch_encoder
from firthshot.backbones.encoders._memory import Shrinking
from firthshot.backbones.encoders._torch import place_for
from firthshot.backbones.images import Preparation
from firthshot.errors import FirthshotError


def test_a_device_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert place_for("auto").type == "cpu"
    with pytest.raises(FirthshotError, match="sees no cuda device on this machine") as refusal:
        place_for("cuda")
    assert refusal.value.arguments == ("device",)
    with pytest.raises(FirthshotError, match="'gpu'; choose one of 'auto', 'cpu'"):
        place_for("gpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert place_for("auto").type == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert place_for("auto").type == "cuda"


def test_half_precision_is_for_accelerators_and_close(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [_torch.runs_in_half(torch.device(name)) for name in ("cpu", "cuda")] == [False, True]
    encoder = load_encoder("minilm-l6-v2", device="cpu")
    texts = ["my card is lost", "what is the weather like in Rome"]
    exact = encoder.encode(texts)
    monkeypatch.setattr(_torch, "runs_in_half", lambda place: True)
    half = encoder.encode(texts)
    assert 0 < np.abs(half - exact).max() < 1e-3


def test_batches_shrink_to_what_the_memory_holds() -> None:
    lengths = []

    def run(batch: np.ndarray) -> np.ndarray:
        lengths.append(len(batch))
        if len(batch) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return batch * 2

    shrinking = Shrinking(run)
    rows = np.arange(10.0)[:, None]
    np.testing.assert_array_equal(shrinking(rows), rows * 2)
    assert lengths == [10, 5, 2, 2, 2, 2, 2]
    np.testing.assert_array_equal(shrinking(rows[:4]), rows[:4] * 2)
    assert lengths[7:] == [2, 2], "the length that fits is kept"


def test_a_network_that_does_not_fit_at_all_and_other_faults() -> None:
    def full(batch: object) -> np.ndarray:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")

    with pytest.raises(FirthshotError, match="does not hold the network and one input"):
        Shrinking(full)(["a", "b"])

    def broken(batch: object) -> np.ndarray:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        Shrinking(broken)(["a", "b"])


def test_functions_and_modules_are_encoders() -> None:
    def letters(texts: list[str]) -> list[list[int]]:
        return [[len(text), text.count("a")] for text in texts]

    encoder = load_encoder(letters, kind="text")
    np.testing.assert_array_equal(encoder.encode(["a", "bab"]), [[1, 1], [3, 1]])
    assert not encoder.cacheable
    assert encoder.spec.startswith("python:")
    with pytest.raises(FirthshotError, match=r"returned \(2,\) for 2 texts"):
        load_encoder(lambda texts: np.zeros(len(texts))).encode(["a", "b"])
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 6))
    wrapped = load_encoder(net, size=8)
    named = torch_encoder(net, Preparation(8), name="own", weights=digest_module(net))
    pixels = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), np.uint8)
    np.testing.assert_array_equal(wrapped.encode(pixels), named.encode(pixels))
    assert wrapped.fingerprint == named.fingerprint
    assert load_encoder(named) is named
    with pytest.raises(FirthshotError, match="A int is no encoder"):
        load_encoder(3)
    with pytest.raises(FirthshotError, match="takes pictures, not texts"):
        load_encoder(named, kind="text")
