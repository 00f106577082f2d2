from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from backbones.pictures import write_folder
from firthshot.backbones import embed
from firthshot.backbones.embed import (
    EncoderMark,
    embed_pictures,
    embed_texts,
    recall_encoder,
)
from firthshot.backbones.encoders import Encoder, Network, torch_encoder
from firthshot.backbones.images import PictureError, Preparation
from firthshot.errors import FirthshotError
from firthshot.files import user_cache
from listeners import Heard


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTHSHOT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def seen() -> list[str]:
    return []


@pytest.fixture
def texts(seen: list[str]) -> Encoder:
    """Return an encoder that counts letters and notes what it is asked."""

    def run(batch: list[str]) -> np.ndarray:
        seen.extend(batch)
        return np.array([[text.count(letter) for letter in "abc"] for text in batch], np.float32)

    return Encoder("text", "letters", 3, "f1", Network(run))


@pytest.fixture
def pictures() -> Encoder:
    torch.manual_seed(0)
    return torch_encoder(nn.Conv2d(3, 4, 3), Preparation(12), name="tiny", weights="w")


def test_texts_are_encoded_once_by_content(texts: Encoder, seen: list[str]) -> None:
    first = embed_texts(["ab", "c", "ab"], texts)
    np.testing.assert_array_equal(first, [[1, 1, 0], [0, 0, 1], [1, 1, 0]])
    assert sorted(seen) == ["ab", "c"]
    again = embed_texts(["c", "aa"], texts)
    np.testing.assert_array_equal(again, [[0, 0, 1], [2, 0, 0]])
    assert sorted(seen) == ["aa", "ab", "c"]


def test_another_fingerprint_is_another_cache(texts: Encoder, seen: list[str]) -> None:
    embed_texts(["ab"], texts)
    embed_texts(["ab"], replace(texts, fingerprint="f2"))
    assert seen == ["ab", "ab"]


@pytest.mark.parametrize("fault", ["damaged", "not a folder", "other table", "wrong width"])
def test_a_useless_cache_costs_time_only(
    texts: Encoder, seen: list[str], fault: str, tmp_path: Path
) -> None:
    user_cache().parent.mkdir(exist_ok=True)
    if fault == "not a folder":
        user_cache().touch()
    else:
        user_cache().mkdir()
    file = user_cache() / "embeddings.sqlite"
    if fault == "damaged":
        file.write_bytes(b"not a data base at all" * 100)
    elif fault == "other table":
        connection = sqlite3.connect(file)
        connection.execute("CREATE TABLE embeddings (x)")
        connection.close()
    elif fault == "wrong width":
        embed_texts(
            ["ab"], replace(texts, dim=2, source=Network(lambda batch: np.zeros((len(batch), 2))))
        )
    np.testing.assert_array_equal(embed_texts(["ab"], texts), [[1, 1, 0]])
    assert seen == ["ab"]


def test_pictures_are_known_by_their_bytes_not_their_names(
    tmp_path: Path, pictures: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path / "zoo", {"ant": 3})
    paths = sorted((folder / "ant").iterdir())
    expected = pictures.encode(np.stack([pictures.preparation.pixels(path) for path in paths]))
    heard = Heard()
    out = embed_pictures(paths, pictures, listener=heard)
    np.testing.assert_allclose(out, expected, atol=1e-6)
    assert (heard.before, heard.done, heard.total) == (0, 3, 3)
    moved = [path.rename(path.with_name(f"moved {path.name}")) for path in paths]
    monkeypatch.setattr(Encoder, "_run", None)  # nothing is left to encode
    np.testing.assert_array_equal(embed_pictures(moved, pictures), out)
    raw = [path.read_bytes() for path in moved]
    np.testing.assert_array_equal(embed_pictures(raw, pictures), out)


def test_bad_input_is_named(tmp_path: Path, pictures: Encoder, texts: Encoder) -> None:
    (tmp_path / "a.jpg").write_text("words")
    with pytest.raises(PictureError, match=r"a\.jpg is not a picture"):
        embed_pictures([tmp_path / "a.jpg"], pictures)
    with pytest.raises(FirthshotError, match=r"b\.jpg cannot be read"):
        embed_pictures([tmp_path / "b.jpg"], pictures)
    with pytest.raises(FirthshotError, match="Text 2 is empty"):
        embed_texts(["ab", " "], texts)
    with pytest.raises(FirthshotError, match="takes texts, not pictures"):
        embed_pictures([], texts)
    assert embed_pictures([], pictures).shape == (0, 4)


def test_a_model_knows_its_encoder_and_refuses_another(
    texts: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    import firthshot.backbones.encoders as encoders

    loaded: list[Any] = []

    def load(spec: str, **_: Any) -> Encoder:
        loaded.append(spec)
        return texts if spec == "letters" else replace(texts, fingerprint="f9")

    monkeypatch.setattr(encoders, "load_encoder", load)
    mark = EncoderMark(texts.name, texts.fingerprint)
    assert recall_encoder(mark) is texts
    with pytest.raises(FirthshotError, match="give the encoder it was fitted with"):
        recall_encoder(mark, "elsewhere")
    assert loaded == ["letters", "elsewhere"]
    with pytest.raises(FirthshotError, match="whose encoder it does not know"):
        recall_encoder(EncoderMark("somebody's features", None))


def test_an_encoder_that_moved_keeps_the_options_it_was_fitted_with(tmp_path: Path) -> None:
    import torch

    from firthshot.backbones.architectures import make_backbone
    from firthshot.backbones.encoders import EncoderOptions, join_spec, load_encoder

    here, there = tmp_path / "here.pth", tmp_path / "there.pth"
    torch.save(make_backbone("conv4").state_dict(), here)
    spec = join_spec(str(here), EncoderOptions(size=32, mean=(0, 0, 0), architecture="conv4"))
    mark = EncoderMark(spec, load_encoder(spec).fingerprint)
    here.rename(there)
    with pytest.raises(FirthshotError, match=r"here\.pth is not there: .* name its place\.$"):
        recall_encoder(mark)
    assert recall_encoder(mark, str(there)).fingerprint == mark.fingerprint
    again = recall_encoder(mark, f"{there}?size=32&mean=0")
    assert again.fingerprint == mark.fingerprint
    with pytest.raises(FirthshotError, match="give the encoder it was fitted with"):
        recall_encoder(mark, f"{there}?size=40")


def test_an_encoder_that_embedded_nothing_has_nothing_to_recall() -> None:
    assert embed.recall("no such encoder", ["k"], 3) == {}
