"""Many pictures: bad ones are all named or left out, and a stopped run goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import firthshot
import firthshot.backbones.encoders as encoders
from firthshot.backbones import embed as embedding
from firthshot.cli import app
from firthshot.errors import FirthshotError, MissingExtraError
from firthshot.own_data import PictureRun, _many, picture_files
from own_data.small_encoders import PICTURES


@pytest.fixture
def spoilt(photos: Path) -> Path:
    """Return the folder of pictures with two files that are none."""
    firthshot.fit(photos).save("m.firth")
    for name in ("red/bad.png", "blue/broken.jpg"):
        (photos / name).write_bytes(b"no picture")
    return photos


def run(*words: object) -> object:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("command", ["fit", "predict", "predict to a file"])
def test_all_bad_files_are_named(spoilt: Path, command: str) -> None:
    """Defect 4: a folder of 501 files ended at the first bad one."""
    words = {
        "fit": ("fit", spoilt, "--model", "n.firth"),
        "predict": ("predict", "m.firth", spoilt),
        "predict to a file": ("predict", "m.firth", spoilt, "--out", "p.csv"),
    }[command]
    refused = run(*words)
    assert isinstance(refused.exception, FirthshotError)
    assert "2 files are no pictures" in str(refused.exception)
    assert "bad.png" in str(refused.exception)
    assert "broken.jpg" in str(refused.exception)
    assert not Path("p.csv").exists()
    done = run(*words, "--skip-bad")
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "bad.png" in said
    assert "broken.jpg" in said
    if command == "predict to a file":
        assert len(pl.read_csv("p.csv")) == 15
        assert not list(Path().glob("*.part"))


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_a_stopped_run_goes_on_where_it_was(photos: Path, monkeypatch, kind: str) -> None:
    monkeypatch.setattr(_many, "PART", 4)
    firthshot.fit(photos).save("m.firth")
    out, calls, real = Path(f"p.{kind}"), [], embedding.embed

    def stopping(items, *args, **options):
        calls.append(len(items))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(items, *args, **options)

    monkeypatch.setattr(embedding, "embed", stopping)
    files = picture_files([str(photos)])
    with pytest.raises(KeyboardInterrupt):
        PictureRun(firthshot.load("m.firth"), out).predict(*files)
    assert not out.exists()
    (part,) = Path().glob(f"p.{kind}.*.part")
    with part.open("ab") as file:
        file.write(b"photos/cut")  # a line that was cut short
    calls[:] = [0] * 3
    again = PictureRun(firthshot.load("m.firth"), out)
    again.predict(*files)
    assert sum(calls) == 7  # 8 of 15 were done
    assert (again.rows, again.right, again.labelled) == (15, 15, 15)
    assert not part.exists()
    stopping_no_more = PictureRun(firthshot.load("m.firth"), Path(f"whole.{kind}"))
    stopping_no_more.predict(*files)
    assert out.read_bytes() == Path(f"whole.{kind}").read_bytes()


def test_a_model_that_changed_begins_anew(photos: Path) -> None:
    firthshot.fit(photos).save("m.firth")
    firthshot.fit(photos, head="cosine").save("n.firth")
    files = picture_files([str(photos)])[0]
    parts = [
        PictureRun(firthshot.load(name), Path("p.csv"))._part(files)
        for name in ("m.firth", "n.firth")
    ]
    assert parts[0] != parts[1]


def test_pictures_in_folders_of_no_class_have_no_accuracy(photos: Path) -> None:
    firthshot.fit(photos).save("m.firth")
    for name in ("red", "blue"):
        (photos / name).rename(photos / f"{name} else")
    said = " ".join(run("predict", "m.firth", photos, "--out", "p.csv").output.split())
    assert "Accuracy 100.0 % by the folders of 5 pictures" in said
    assert "10 others are in folders of no class." in said


def test_inputs_are_one_list_of_files(spoilt: Path) -> None:
    bad, good = spoilt / "red/bad.png", spoilt / "red/0.png"
    assert "bad.png cannot be read as a picture" in str(run("predict", "m.firth", bad).exception)
    refused = run("predict", "m.firth", bad, good)
    assert "1 file is no picture" in str(refused.exception)
    done = run("predict", "m.firth", bad, good, "--skip-bad")
    assert done.exit_code == 0, done.output
    assert "red" in done.stdout


@pytest.mark.parametrize("command", ["fit", "predict", "predict to a file"])
def test_a_missing_encoder_is_not_the_pictures_fault(
    photos: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    firthshot.fit(photos).save("m.firth")
    (photos / "red" / "bad.png").write_bytes(b"no picture")

    def missing() -> None:
        raise MissingExtraError("Encoder efficientnet-lite0", "torch")

    lacking = replace(PICTURES, fingerprint="f-image", source=missing)
    monkeypatch.setattr(encoders, "load_encoder", lambda *_, **__: lacking)
    monkeypatch.setenv("FIRTHSHOT_CACHE", "another")
    words = {
        "fit": ("fit", photos, "--model", "n.firth"),
        "predict": ("predict", "m.firth", photos / "red" / "0.png"),
        "predict to a file": ("predict", "m.firth", photos, "--out", "p.csv"),
    }[command]
    with pytest.raises(MissingExtraError, match=r"run pip install '\.\[torch\]' in the clone"):
        raise run(*words, "--skip-bad").exception


def test_a_stop_says_what_is_kept(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(embedding, "embed", stop)
    assert "Finished embeddings are kept" in run("fit", photos, "--model", "m.firth").output


def test_pictures_beside_folders_hide_no_others(photos: Path) -> None:
    """A picture on top had made the folders beside it invisible, without a word."""
    first = next((photos / "red").glob("*.png"))
    (photos / "top.png").write_bytes(first.read_bytes())
    paths, labels = picture_files([str(photos)])
    assert len(paths) == 16
    assert labels is None
