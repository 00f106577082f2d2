"""timm and open_clip: the real libraries where they can be imported, else their documented objects.

Both import torchvision. Where no torchvision fits the CPU build of torch, the tests of the real
libraries are skipped; a stand-in with the documented functions then covers the adapters.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from backbones.hub_models import README, commit_of, publish
from backbones.pictures import write_folder
from firthshot.backbones.encoders import load_encoder
from firthshot.errors import FirthshotError

SIDE = 16


def real(name: str) -> Any:
    """Return a library, or skip."""
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{name} cannot be imported beside this CPU build of torch: {error}")


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FIRTHSHOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    return sorted(write_folder(tmp_path / "zoo", {"ant": 3}, side=40).rglob("*.png"))


def to_tensor(image: Any) -> torch.Tensor:
    """Stand in for a transform: resize and scale."""
    small = np.asarray(image.resize((SIDE, SIDE)), np.float32) / 255
    return torch.from_numpy(small.transpose(2, 0, 1).copy())


def folder_of(tmp_path: Path, *files: str) -> Path:
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "README.md").write_text(README)
    for name in files:
        (folder / name).write_text("{}")
    return folder


class Clip(nn.Module):
    """Stand in for a network of open_clip."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.visual, self.text = nn.Linear(3, 6), nn.Embedding(300, 6)

    def encode_image(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.visual(pictures.mean((2, 3)))

    def encode_text(self, tokens: torch.Tensor, normalize: bool = False) -> torch.Tensor:
        rows = self.text(tokens).mean(1)
        return nn.functional.normalize(rows, dim=1) if normalize else rows


def test_timm_with_documented_objects(
    hub: Path, tmp_path: Path, photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}
    net = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 5))

    def create_model(name: str, **options: Any) -> nn.Module:
        asked.update(name=name, **options)
        return net

    def resolve(args: dict[str, Any], model: nn.Module) -> dict[str, Any]:
        assert model is net
        return {"input_size": (3, SIDE, SIDE), "mean": (0, 0, 0), **args}

    def create_transform(is_training: bool, **_: Any) -> Any:
        assert not is_training
        return to_tensor

    data = SimpleNamespace(resolve_data_config=resolve, create_transform=create_transform)
    library = SimpleNamespace(
        create_model=create_model,
        data=data,
        is_model=lambda name: name == "tiny",
        get_pretrained_cfg=lambda _: SimpleNamespace(tag="in1k"),
    )
    monkeypatch.setitem(sys.modules, "timm", library)
    saved = folder_of(tmp_path, "config.json", "model.safetensors")
    snapshot = publish(hub, "timm/tiny.in1k", saved)
    encoder = load_encoder("timm:tiny.in1k")
    assert asked == {"name": f"local-dir:{snapshot}", "pretrained": True, "num_classes": 0}
    out = encoder.encode(photos)
    expected = net(torch.stack([to_tensor(Image.open(path)) for path in photos])).detach()
    np.testing.assert_allclose(out, expected, atol=1e-5)
    assert encoder.spec == f"timm:tiny.in1k@{commit_of('timm/tiny.in1k')}"
    assert load_encoder("timm:tiny").fingerprint == encoder.fingerprint, "the default tag"
    with pytest.raises(FirthshotError, match=r"timm has no weights for 'other'"):
        load_encoder("timm:other")
    with pytest.raises(FirthshotError, match="takes pictures, not texts"):
        load_encoder("timm:tiny", kind="text")


def test_open_clip_with_documented_objects(
    hub: Path, tmp_path: Path, photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Clip()
    places = []

    def create(place: str, **_: Any) -> tuple[nn.Module, None, Any]:
        places.append(place)
        return net, None, to_tensor

    def tokenizer(texts: list[str]) -> torch.Tensor:
        return torch.tensor([[len(text), ord(text[0])] for text in texts])

    known = {("ViT-S", "laion"): {"hf_hub": "laion/small/"}, ("ViT-S", "url"): {"url": "https://"}}
    library = SimpleNamespace(
        create_model_and_transforms=create,
        get_tokenizer=lambda _: tokenizer,
        get_pretrained_cfg=lambda *which: known.get(which, {}),
        list_models=lambda: ["ViT-S"],
        list_pretrained_tags_by_model=lambda _: ["laion", "url"],
    )
    monkeypatch.setitem(sys.modules, "open_clip", library)
    saved = folder_of(tmp_path, "open_clip_config.json", "open_clip_model.safetensors")
    snapshot = publish(hub, "laion/small", saved)
    encoder = load_encoder("open-clip:ViT-S/laion")
    assert places == [f"local-dir:{snapshot}"]
    batch = torch.stack([to_tensor(Image.open(path)) for path in photos])
    np.testing.assert_allclose(encoder.encode(photos), net.encode_image(batch).detach(), atol=1e-5)
    texts = load_encoder("open-clip:ViT-S/laion", kind="text")
    expected = net.encode_text(tokenizer(["a", "bcd"]), normalize=True).detach()
    np.testing.assert_allclose(texts.encode(["a", "bcd"]), expected, atol=1e-6)
    assert load_encoder(texts.spec).kind == "text"
    with pytest.raises(FirthshotError, match=r"no 'other' of ViT-S: choose from laion, url\."):
        load_encoder("open-clip:ViT-S/other")
    with pytest.raises(FirthshotError, match="is not on the Hugging Face hub"):
        load_encoder("open-clip:ViT-S/url")


def test_a_library_that_is_there_but_broken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> Any:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(importlib, "import_module", broken)
    from firthshot.backbones.encoders._packages import require

    with pytest.raises(FirthshotError, match=r"needs timm, which cannot be imported \(operator"):
        require("timm", "timm:tiny", "timm")


def test_real_timm(hub: Path, tmp_path: Path, photos: list[Path]) -> None:
    timm = real("timm")
    torch.manual_seed(0)
    name, saved = "test_vit.r160_in1k", tmp_path / "saved"
    model = timm.create_model(name, pretrained=False)
    saved.mkdir()
    timm.models.save_for_hf(model, saved, safe_serialization=True)
    (saved / "README.md").write_text(README)
    publish(hub, f"timm/{name}", saved)
    encoder = load_encoder(f"timm:{name}")
    assert encoder.side == 160
    model.reset_classifier(0)
    config = timm.data.resolve_data_config({}, model=model)
    transform = timm.data.create_transform(**config, is_training=False)
    batch = torch.stack([transform(Image.open(path).convert("RGB")) for path in photos])
    with torch.no_grad():
        expected = model.eval()(batch)
    np.testing.assert_allclose(encoder.encode(photos), expected, atol=1e-5)


def test_real_open_clip(hub: Path, tmp_path: Path, photos: list[Path]) -> None:
    open_clip = real("open_clip")
    from safetensors.torch import save_file

    torch.manual_seed(0)
    vision = {"image_size": SIDE, "layers": 1, "width": 64, "patch_size": 8}
    text = {"context_length": 8, "vocab_size": 49408, "width": 64, "heads": 1, "layers": 1}
    towers = {"embed_dim": 12, "vision_cfg": vision, "text_cfg": text}
    colours = {"mean": [0.5] * 3, "std": [0.5] * 3}
    saved = tmp_path / "saved"
    saved.mkdir()
    config = {"model_cfg": towers, "preprocess_cfg": colours}
    (saved / "open_clip_config.json").write_text(json.dumps(config))
    (saved / "README.md").write_text(README)
    model = open_clip.CLIP(embed_dim=12, vision_cfg=vision, text_cfg=text).eval()
    save_file(model.state_dict(), saved / "open_clip_model.safetensors")
    publish(hub, "laion/small", saved)
    encoder = load_encoder("open-clip:laion/small")
    transform = open_clip.image_transform(SIDE, False, mean=[0.5] * 3, std=[0.5] * 3)
    batch = torch.stack([transform(Image.open(path).convert("RGB")) for path in photos])
    with torch.no_grad():
        np.testing.assert_allclose(encoder.encode(photos), model.encode_image(batch), atol=1e-5)
        texts = ["a card", "hello"]
        tokens = open_clip.get_tokenizer("ViT-B-32", context_length=8)(texts)
        rows = model.encode_text(tokens, normalize=True)
    out = load_encoder("open-clip:laion/small", kind="text").encode(texts)
    np.testing.assert_allclose(out, rows, atol=1e-5)
