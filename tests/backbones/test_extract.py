from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from typer.testing import CliRunner

from backbones.pictures import write_folder
from firthshot.backbones import extract as module
from firthshot.backbones.datasets import Dataset, open_dataset
from firthshot.backbones.encoders import (
    Encoder,
    Network,
    digest_module,
    torch_encoder,
)
from firthshot.backbones.extract import extract, plan_batches
from firthshot.backbones.images import PictureError, Preparation
from firthshot.banks import load_bank
from firthshot.errors import FirthshotError
from listeners import Heard, StopAt

SIDE = 12
PREPARATION = Preparation(SIDE)


def network() -> nn.Module:
    torch.manual_seed(3)
    layers = [nn.Conv2d(3, 5, 3, 2), nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 7, 3)]
    net = nn.Sequential(*layers, nn.BatchNorm2d(7))
    net(torch.randn(64, 3, SIDE, SIDE) * 2 + 1)  # running statistics of their own
    return net


def encoder() -> Encoder:
    net = network()
    return torch_encoder(net, PREPARATION, name="tiny", weights=digest_module(net))


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    """Return three splits of two classes, 45 pictures each."""
    for part, names in {"base": "ab", "val": "cd", "novel": "ef"}.items():
        write_folder(tmp_path / "zoo" / part, {f"{part}-{n}": 45 for n in names}, side=SIDE)
    return open_dataset(tmp_path / "zoo")


def tensors(data: Dataset, rows: Any) -> torch.Tensor:
    """Read and normalise pictures the plain way."""
    arrays = [np.asarray(Image.open(data.contents[row]).convert("RGB")) for row in rows]
    mean, std = torch.tensor(PREPARATION.mean), torch.tensor(PREPARATION.std)
    batch = torch.from_numpy(np.stack(arrays)).float() / 255
    return ((batch - mean) / std).permute(0, 3, 1, 2)


def test_evaluation_mode_equals_a_plain_loop(tmp_path: Path, data: Dataset) -> None:
    bank = extract(data, encoder(), tmp_path / "zoo.bank", dtype="float32")
    net = network().eval()
    with torch.no_grad():
        one_by_one = [net(tensors(data, [row])).mean((2, 3))[0] for row in range(len(data))]
    np.testing.assert_allclose(bank.features, torch.stack(one_by_one), atol=2e-5)
    np.testing.assert_array_equal(bank.labels, data.labels)
    assert bank.meta.classes == data.classes
    assert bank.meta.class_splits == data.class_splits
    assert bank.meta.extraction == "eval"
    assert not (tmp_path / "zoo.bank.parts").exists()


@pytest.mark.parametrize("kept", [None, {"base": 10, "val": 3, "novel": 45}])
def test_batch_statistics_equal_a_plain_loop(
    tmp_path: Path, data: Dataset, kept: dict[str, int] | None
) -> None:
    bank = extract(
        data,
        encoder(),
        tmp_path / "zoo.bank",
        dtype="float32",
        bn_train_sorted=True,
        rows_per_class=kept,
    )
    net = network().train()
    features = []
    for split in ("base", "val", "novel"):
        rows = data.rows(split)
        for start in range(0, len(rows), 32):
            with torch.no_grad():
                out = net(tensors(data, rows[start : start + 32]))
            features.append(out.mean((2, 3)).numpy())
    wanted = data.first_rows(kept or {})
    np.testing.assert_allclose(bank.features, np.concatenate(features)[wanted], atol=2e-5)
    assert bank.meta.extraction == "bn-train-sorted"
    assert "batches of 32" in bank.meta.notes["batches"]


def test_batch_statistics_leave_the_encoder_alone(data: Dataset) -> None:
    own = encoder()
    batch = np.stack([PREPARATION.pixels(content) for content in data.contents[:8]])
    before = own.encode(batch)
    other = own.with_batch_statistics().encode(batch)
    assert np.abs(other - before).max() > 0.05
    np.testing.assert_array_equal(own.encode(batch), before)


def test_batches_without_rows_to_keep_are_skipped(data: Dataset) -> None:
    plan = plan_batches(data, {"base": 5, "val": 0, "novel": 0}, bn_train_sorted=True)
    assert [part.tolist()[0] for part in plan.batches] == [0, 32]  # rows 0-4 and 45-49
    assert plan.total == 64


def test_a_class_without_rows_is_not_in_the_bank(tmp_path: Path, data: Dataset) -> None:
    limits = {"base": 0, "val": 2, "novel": 3}
    bank = extract(data, encoder(), tmp_path / "few.bank", rows_per_class=limits)
    assert bank.splits == ("val", "novel")
    assert bank.meta.classes == ["val-c", "val-d", "novel-e", "novel-f"]
    assert bank.labels.tolist() == [0, 0, 1, 1, 2, 2, 2, 3, 3, 3]
    assert "val 2" in bank.meta.notes["rows kept"]
    with pytest.raises(FirthshotError, match="No rows are left"):
        extract(data, encoder(), tmp_path / "no.bank", rows_per_class=dict.fromkeys(limits, 0))


KILLED = """
import os, signal, sys
from backbones import test_extract as own
from firthshot.backbones import extract as module
from firthshot.backbones.datasets import open_dataset
module.BATCHES_PER_CHUNK = 1
def kill():
    os.kill(os.getpid(), signal.SIGKILL)
listener = own.StopAt(192, kill)
module.extract(open_dataset(sys.argv[1]), own.encoder(), sys.argv[2], listener=listener)
"""


def test_a_killed_extraction_resumes_with_the_same_bits(
    tmp_path: Path, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCHES_PER_CHUNK", 1)
    whole = extract(data, encoder(), tmp_path / "whole.bank")
    out = tmp_path / "cut.bank"
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "zoo"), str(out)],
        env={"PYTHONPATH": str(Path(__file__).parents[1])},
        check=False,
    )
    assert run.returncode == -signal.SIGKILL
    assert not out.exists()
    heard = Heard()
    resumed = extract(data, encoder(), out, listener=heard)
    assert heard.before == 128  # two chunks had been finished, the third was lost
    assert resumed.meta.sha256 == whole.meta.sha256


def test_unfinished_work_of_another_plan_is_refused(
    tmp_path: Path, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCHES_PER_CHUNK", 1)

    out = tmp_path / "zoo.bank"
    with pytest.raises(KeyboardInterrupt):
        extract(data, encoder(), out, listener=StopAt(128))
    with pytest.raises(FirthshotError, match=r"zoo\.bank\.parts .* another batches"):
        extract(data, encoder(), out, rows_per_class={"base": 1})
    with pytest.raises(FirthshotError, match="another batches and mode"):
        extract(data, encoder(), out, bn_train_sorted=True)
    assert len(extract(data, encoder(), out).labels) == len(data)


def test_bad_pictures_stop_it_or_are_left_out_by_name(tmp_path: Path, data: Dataset) -> None:
    bad = data.contents[50]
    bad.write_bytes(bad.read_bytes()[:100])
    with pytest.raises(PictureError, match=bad.name):
        extract(data, encoder(), tmp_path / "a.bank")
    bank = extract(data, encoder(), tmp_path / "b.bank", skip_bad=True)
    assert json.loads(bank.meta.notes["left out"]) == [data.names[50]]
    assert len(bank.labels) == len(data) - 1
    good = np.delete(np.arange(len(data)), 50)
    np.testing.assert_array_equal(bank.labels, data.labels[good])


def test_after_a_bad_picture_the_same_command_may_leave_it_out(
    tmp_path: Path, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "a.bank"
    data.contents[100].write_bytes(b"no picture")
    with pytest.raises(PictureError, match=r"convert it\. Or leave such pictures out"):
        extract(data, encoder(), out)
    assert not (tmp_path / "a.bank.parts").exists(), "nothing was finished"
    monkeypatch.setattr(module, "BATCHES_PER_CHUNK", 1)
    with pytest.raises(PictureError):
        extract(data, encoder(), out)
    heard = Heard()
    bank = extract(data, encoder(), out, skip_bad=True, listener=heard)
    assert heard.before == 64, "the chunk before the bad picture is kept"
    assert len(bank.labels) == len(data) - 1


def test_rows_left_out_by_an_earlier_part_of_the_work_are_not_lost_in_silence(
    tmp_path: Path, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCHES_PER_CHUNK", 1)
    data.contents[0].write_bytes(b"no picture")
    out = tmp_path / "a.bank"
    with pytest.raises(KeyboardInterrupt):
        extract(data, encoder(), out, skip_bad=True, listener=StopAt(128))
    with pytest.raises(PictureError, match="could not be decoded"):
        extract(data, encoder(), out)
    assert len(extract(data, encoder(), out, skip_bad=True).labels) == len(data) - 1


def test_the_wrong_kind_of_encoder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,label\nhello,a\nbye,b\n")
    with pytest.raises(FirthshotError, match="takes pictures, not texts"):
        extract(open_dataset(path), encoder(), tmp_path / "t.bank")
    texts = Encoder("text", "words", 1, "f", Network(lambda batch: np.ones((len(batch), 1))))
    with pytest.raises(FirthshotError, match="words shows no BatchNorm layers"):
        extract(open_dataset(path), texts, tmp_path / "no.bank", bn_train_sorted=True)


def test_networks_without_batch_norm_cannot_use_its_statistics(
    tmp_path: Path, data: Dataset
) -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3))
    plain = torch_encoder(net, PREPARATION, name="plain", weights="w")
    with pytest.raises(FirthshotError, match="plain shows no BatchNorm"):
        extract(data, plain, tmp_path / "a.bank", bn_train_sorted=True)


def test_batch_statistics_of_a_single_value_are_refused() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, SIDE), nn.BatchNorm2d(4))  # one place is left
    single = torch_encoder(net, PREPARATION, name="one", weights="w").with_batch_statistics()
    with pytest.raises(FirthshotError, match="one fails on a batch of 1: Expected more than 1"):
        single.encode(np.zeros((1, SIDE, SIDE, 3), np.uint8))


def test_the_command_extracts_with_a_user_file(tmp_path: Path, data: Dataset) -> None:
    from firthshot.cli.backbone import app

    example = torch.zeros(1, 3, SIDE, SIDE)
    script = tmp_path / "net.ts"
    with pytest.warns(DeprecationWarning, match="jit"):
        torch.jit.trace(network().eval(), example).save(str(script))
    out = tmp_path / "my.bank"
    options = ["--encoder", str(script), "--size", str(SIDE), "--out", str(out)]
    limits = ["--rows-per-class", "4", "--rows-per-class", "base=2"]
    result = CliRunner().invoke(app, ["extract", str(tmp_path / "zoo"), *options, *limits])
    assert result.exit_code == 0, result.output
    assert "2 base, 2 val, 2 novel" in result.output
    bank = load_bank(out)
    assert bank.features.dtype == np.float16
    assert [len(rows) for rows in bank.class_rows("base")] == [2, 2]
    assert [len(rows) for rows in bank.class_rows("novel")] == [4, 4]
    reference = encoder().encode(PREPARATION.pixels(data.contents[0])[None])
    np.testing.assert_allclose(bank.features[0], reference[0], atol=2e-3)


@pytest.mark.parametrize("options", [[], ["--mean", "0", "--std", "1"], ["--std", ".5,.25,.1"]])
def test_the_command_normalises_pixels_as_it_is_told_and_says_so(
    tmp_path: Path, data: Dataset, options: list[str]
) -> None:
    from firthshot.cli.backbone import app

    script, out = tmp_path / "net.ts", tmp_path / "my.bank"
    colours = nn.AvgPool2d(SIDE)
    with pytest.warns(DeprecationWarning, match="jit"):
        torch.jit.trace(colours, torch.zeros(1, 3, SIDE, SIDE)).save(str(script))
    words = ["extract", str(tmp_path / "zoo"), "--encoder", str(script), "--size", str(SIDE)]
    result = CliRunner().invoke(app, [*words, "--out", str(out), "--dtype", "float32", *options])
    assert result.exit_code == 0, result.output
    mean, std, said = {
        0: (PREPARATION.mean, PREPARATION.std, "minus mean 0.485 0.456 0.406, over std 0.229"),
        4: ((0, 0, 0), (1, 1, 1), "pixels 0 … 1"),
        2: (PREPARATION.mean, (0.5, 0.25, 0.1), "over std 0.5 0.25 0.1"),
    }[len(options)]
    raw = np.asarray(Image.open(data.contents[0]).convert("RGB"), float).mean((0, 1)) / 255
    bank = load_bank(out)
    np.testing.assert_allclose(bank.features[0], (raw - mean) / std, atol=1e-5)
    told = next(line for line in result.output.splitlines() if line.startswith("Pictures:"))
    assert said in told
    assert bank.meta.notes["pictures"] == told.removeprefix("Pictures: ").rstrip(".")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--mean", "1,2"], "--mean 1,2 is not one number, nor three"),
        (["--mean", "grey"], "--mean grey is not"),
        (["--std", "0"], "deviations above 0"),
    ],
)
def test_impossible_normalisations_are_refused(
    tmp_path: Path, options: list[str], reason: str
) -> None:
    from firthshot.cli.backbone import app

    pictures = write_folder(tmp_path / "zoo", {"a": 1, "b": 1})
    words = ["extract", str(pictures), "--encoder", "efficientnet-lite0", "--out", "a.bank"]
    result = CliRunner().invoke(app, [*words, *options])
    assert isinstance(result.exception, FirthshotError)
    assert reason in str(result.exception)


def test_the_command_names_bad_options(tmp_path: Path) -> None:
    from firthshot.cli.backbone import app

    for option, reason in {"most": "not a number", "all=3": "SPLIT=NUMBER"}.items():
        words = ["extract", str(tmp_path), "--out", "a.bank", "--rows-per-class", option]
        result = CliRunner().invoke(app, words)
        assert isinstance(result.exception, FirthshotError)
        assert reason in str(result.exception)
