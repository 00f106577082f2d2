"""Whole runs on real pictures: resumption, checkpoints, refusals, and that training learns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from backbones.digits import digit_pixels, write_digits
from firthshot.backbones.architectures import ARCHITECTURES, make_backbone
from firthshot.backbones.datasets import open_dataset
from firthshot.backbones.pixels import Pixels, decode_split
from firthshot.backbones.training import (
    EpochRecord,
    Recipe,
    Setup,
    Stage,
    TrainingRun,
    best_precision,
    best_record,
    read_tensors,
    s2m2,
    standard,
)
from firthshot.cli import app
from firthshot.errors import FirthshotError
from listeners import StopAt

SHORT = Recipe("standard", (Stage("cross-entropy", 3, "sgd", 0.02, 5e-4, True, "one-cycle"),), 16)
TWO_STAGES = Recipe(
    "s2m2",
    (Stage("one-rotation", 2, "adam", 1e-3), Stage("mixup", 1, "sgd", 0.02, nesterov=True)),
    24,
    "cosine",
    jitter=0.4,
)


def _setup(recipe: Recipe = SHORT, architecture: str = "conv4", lanes: int = 2) -> Setup:
    return Setup(architecture, recipe, 16, lanes=lanes)


def _stop_in_epoch(epoch: int, run: TrainingRun) -> None:
    run.listener = StopAt((epoch - 1) * run.batches + 2)
    with pytest.raises(KeyboardInterrupt):
        run.train()


def _same_state(one: Path, other: Path) -> bool:
    (a, _), (b, _) = (read_tensors(folder / "last.safetensors") for folder in (one, other))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


KILLED = """
import json, os, signal, sys
from backbones.digits import digit_pixels
from firthshot.backbones.training import TrainingRun, Setup
from listeners import StopAt

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

setup = Setup.from_notes(json.loads(sys.argv[2]))
run = TrainingRun(setup, digit_pixels(), sys.argv[1])
run.listener = StopAt(run.batches + 3, kill)
run.train()
"""


def test_after_a_kill_the_next_epoch_is_bit_identical(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    tests = Path(__file__).parents[1]
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(killed), json.dumps(_setup().as_notes())],
        env={**os.environ, "PYTHONPATH": str(tests)},
        capture_output=True,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    resumed = TrainingRun(_setup(), digit_pixels(), killed)
    assert len(resumed.history) == 1
    resumed.train()
    TrainingRun(_setup(), digit_pixels(), whole).train()
    assert _same_state(whole, killed)


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_both_stages_resume_exactly(tmp_path: Path, stop: int) -> None:
    setup = _setup(TWO_STAGES, "wrn-10-1", lanes=1)
    pixels = digit_pixels(per_class=20)
    TrainingRun(setup, pixels, tmp_path / "whole").train()
    _stop_in_epoch(stop, TrainingRun(setup, pixels, tmp_path / "parts"))
    history = TrainingRun(setup, pixels, tmp_path / "parts").train()
    assert [record.objective for record in history] == ["one-rotation", "one-rotation", "mixup"]
    assert _same_state(tmp_path / "whole", tmp_path / "parts")


def test_the_best_checkpoint_is_that_of_the_highest_monitored_accuracy(tmp_path: Path) -> None:
    pixels, states = digit_pixels(), []

    def keep(_history: list[EpochRecord]) -> None:
        states.append({k: v.clone() for k, v in run.learner.network.state_dict().items()})

    run = TrainingRun(_setup(), pixels, tmp_path, after_epoch=keep)
    history = run.train()
    best = best_record(history)
    weights, notes = read_tensors(tmp_path / "best.safetensors")
    assert notes["epoch"]["epoch"] == best.epoch
    assert best.monitored_accuracy == max(record.monitored_accuracy for record in history)
    assert all(torch.equal(weights[name], states[best.epoch - 1][name]) for name in weights)


def test_monitoring_uses_evaluation_mode_and_all_held_out_pictures(tmp_path: Path) -> None:
    pixels = digit_pixels()
    run = TrainingRun(_setup(lanes=3), pixels, tmp_path)
    record = run.train()[-1]
    network = run.learner.network.eval()
    mean, std = (np.array(v) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    right = 0
    for row in np.flatnonzero(np.arange(120) % 40 >= 36):
        picture = (pixels.images[row] / 255 - mean) / std
        with torch.inference_mode():
            scores = network(torch.tensor(picture, dtype=torch.float32).permute(2, 0, 1)[None])
        right += int(scores.argmax()) == pixels.labels[row]
    assert record.monitored_accuracy == right / 12


def test_bfloat16_follows_float32_closely_and_resumes_exactly(tmp_path: Path) -> None:
    setup, pixels = replace(_setup(), precision="bfloat16"), digit_pixels()
    exact = TrainingRun(_setup(), pixels, tmp_path / "float32").train()
    whole = TrainingRun(setup, pixels, tmp_path / "whole").train()
    assert whole[0].loss != exact[0].loss
    assert whole[0].loss == pytest.approx(exact[0].loss, rel=0.05)
    _stop_in_epoch(2, TrainingRun(setup, pixels, tmp_path / "parts"))
    TrainingRun(setup, pixels, tmp_path / "parts").train()
    assert _same_state(tmp_path / "whole", tmp_path / "parts")


def test_another_run_in_the_folder_is_refused_by_what_differs(tmp_path: Path) -> None:
    TrainingRun(replace(_setup(), recipe=SHORT), digit_pixels(), tmp_path).train()
    with pytest.raises(
        FirthshotError,
        match=r"other architecture \(conv4 there, resnet10 here\), seed \(0 there, 1 here\): con",
    ):
        TrainingRun(replace(_setup(), architecture="resnet10", seed=1), digit_pixels(), tmp_path)
    with pytest.raises(FirthshotError, match="other number of pictures"):
        TrainingRun(_setup(), digit_pixels(per_class=30), tmp_path)


def test_other_epochs_are_named_with_both_numbers(tmp_path: Path) -> None:
    TrainingRun(_setup(), digit_pixels(), tmp_path).train()
    stages = tuple(replace(stage, epochs=9) for stage in SHORT.stages)
    before = SHORT.stages[0].epochs
    where = " in stage 1" if len(stages) > 1 else ""
    sentence = rf"other epochs \({before} there, 9 here\){where}"
    with pytest.raises(FirthshotError, match=sentence):
        TrainingRun(_setup(replace(SHORT, stages=stages)), digit_pixels(), tmp_path)


def test_a_setup_survives_its_notes() -> None:
    setup = Setup("wrn-16-2", s2m2(one_cycle=True), 32, 3, "bfloat16", 4)
    assert Setup.from_notes(setup.as_notes()) == setup


@pytest.mark.parametrize(
    ("setup", "sentence"),
    [
        (_setup(replace(SHORT, batch=500)), "120 pictures are too few for batches of 500"),
        (_setup(lanes=9), "A batch of 16 cannot be cut into 9 lanes"),
    ],
)
def test_impossible_batches_are_refused(tmp_path: Path, setup: Setup, sentence: str) -> None:
    with pytest.raises(FirthshotError, match=sentence):
        TrainingRun(setup, digit_pixels(), tmp_path)


def test_a_diverging_training_stops_with_a_sentence(tmp_path: Path) -> None:
    wild = replace(SHORT, stages=(replace(SHORT.stages[0], rate=1e30, schedule="constant"),))
    with pytest.raises(FirthshotError, match=r"left the finite numbers in epoch 1.*smaller"):
        TrainingRun(_setup(wild), digit_pixels(), tmp_path).train()


def test_shipped_weights_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from firthshot.backbones.encoders import load_encoder

    TrainingRun(_setup(), digit_pixels(), tmp_path).train()
    (tmp_path / "weights").mkdir()
    (tmp_path / "best.safetensors").rename(tmp_path / "weights" / "digits-conv4.safetensors")
    monkeypatch.setenv("FIRTHSHOT_WEIGHTS", str(tmp_path / "weights"))
    assert load_encoder("digits-conv4").dim == 1600
    listed = CliRunner().invoke(app, ["backbone", "ls"], env={"COLUMNS": "200"}).output
    assert "digits-conv4" in listed
    assert "pictures 16 px" in listed


def test_pixels_are_those_of_the_base_classes_and_are_decoded_once(tmp_path: Path) -> None:
    write_digits(tmp_path / "digits")
    (tmp_path / "split.json").write_text('{"base": ["digit 2", "digit 0"], "novel": ["digit 1"]}')
    data = open_dataset(tmp_path / "digits", split_file=tmp_path / "split.json")
    pixels = decode_split(data, "base", 16, cache=tmp_path / "cache")
    original = digit_pixels()
    assert pixels.classes == ["digit 0", "digit 2"]
    assert pixels.labels.tolist() == [0] * 40 + [1] * 40
    np.testing.assert_array_equal(pixels.images, original.images[original.labels != 1])
    lines: list[str] = []
    again = decode_split(data, "base", 16, cache=tmp_path / "cache", say=lines.append)
    np.testing.assert_array_equal(again.images, pixels.images)
    assert not lines, "the second time nothing is decoded"
    with pytest.raises(FirthshotError, match="no pictures of val classes"):
        decode_split(data, "val", 16)


def test_decoding_that_is_stopped_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_digits(tmp_path / "digits")
    data = open_dataset(tmp_path / "digits")

    def stop(images: np.ndarray, *_: object) -> None:
        images[0] = 1
        raise KeyboardInterrupt

    monkeypatch.setattr("firthshot.backbones.pixels._decode_into", stop)
    with pytest.raises(KeyboardInterrupt):
        decode_split(data, "novel", 16, cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def _cli(*arguments: str | Path) -> tuple[int, str]:
    outcome = CliRunner().invoke(app, ["backbone", "train", *map(str, arguments)])
    return outcome.exit_code, outcome.output if outcome.exception is None else str(
        outcome.exception
    )


def test_the_command_trains_resumes_and_says_so(tmp_path: Path) -> None:
    source, out = write_digits(tmp_path / "digits"), tmp_path / "run"
    options = ["--out", out, "--architecture", "conv4", "--size", "16", "--batch", "16"]
    options += ["--one-cycle", "--epochs", "2", "--precision", "float32", "--lanes", "1"]
    code, told = _cli(source, *options)
    assert code == 0
    assert "training on all of them" in told
    assert "Epoch 2 (cross-entropy): loss" in told
    assert "on the monitored tenth, after epoch" in told
    assert {path.name for path in out.iterdir()} == {
        *("best.safetensors", "history.csv", "last.safetensors")
    }
    assert len((out / "history.csv").read_text().splitlines()) == 3
    code, told = _cli(source, *options)
    assert code == 0
    assert "Resuming after epoch 2." in told
    code, told = _cli(source, *options, "--seed", "5")
    assert "holds a run with other seed" in told


def test_wrong_options_are_told(tmp_path: Path) -> None:
    source = write_digits(tmp_path / "digits", per_class=2)
    options = ("--architecture", "conv4", "--recipe", "s2m2", "--epochs", "3")
    code, told = _cli(source, "--out", tmp_path / "run", *options)
    assert code != 0
    assert "has 2 stages and --epochs was given 1 times" in told


@pytest.mark.parametrize(
    "options", [["--recipe", "slow"], ["--precision", "float8"], ["--dataset", "imagenet"]]
)
def test_choices_of_the_command_are_choices(tmp_path: Path, options: list[str]) -> None:
    source = write_digits(tmp_path / "digits", per_class=2)
    code, _ = _cli(source, "--out", tmp_path / "run", "--architecture", "conv4", *options)
    assert code == 2  # refused by the command line itself, with its list of choices


def _real_pictures() -> Pixels:
    """Return five classes of the folder FIRTHSHOT_PICTURES at 32 px, or of the digits."""
    folder = os.environ.get("FIRTHSHOT_PICTURES")
    if folder is None:
        return digit_pixels(5, 60, 32)
    data = open_dataset(folder)
    pixels = decode_split(data, data.class_splits[0], 32)
    few = pixels.labels < 5
    return Pixels(pixels.images[few], pixels.labels[few], pixels.classes[:5])


def _learns(recipe: Recipe, architecture: str, folder: Path, size: int = 32) -> None:
    pixels = _real_pictures()
    setup = Setup(architecture, recipe, size, precision=best_precision(), lanes=2)
    history = TrainingRun(setup, pixels, folder).train()
    for stage in {record.objective for record in history}:
        losses = [record.loss for record in history if record.objective == stage]
        assert losses[-1] < losses[0]
    assert best_record(history).monitored_accuracy > 2 / len(pixels.classes)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_learns(tmp_path: Path, architecture: str) -> None:
    # A hundred layers diverge at the rate of the others; MobileNet learns later than they do.
    others = {"resnet101": (0.002, 8), "mobilenet": (0.1, 10)}
    rate, epochs = others.get(architecture, (0.02, 6))
    stage = replace(standard(one_cycle=True).stages[0], epochs=epochs, rate=rate)
    recipe = replace(standard(one_cycle=True), stages=(stage,), batch=32)
    # Five thousand million products a picture at 32 px would take a quarter of an hour.
    _learns(recipe, architecture, tmp_path, size=16 if architecture == "wrn-28-10" else 32)


@pytest.mark.slow
@pytest.mark.parametrize("one_cycle", [False, True])
@pytest.mark.parametrize("architecture", ["resnet10", "wrn-16-2"])
def test_both_recipes_learn(tmp_path: Path, architecture: str, one_cycle: bool) -> None:
    for make, epochs in ((standard, (8,)), (s2m2, (8, 4))):
        recipe = make(one_cycle=one_cycle)
        pairs = zip(recipe.stages, epochs, strict=True)
        stages = tuple(replace(stage, epochs=count) for stage, count in pairs)
        _learns(replace(recipe, stages=stages, batch=32), architecture, tmp_path / recipe.name)


def test_a_network_without_classes_takes_the_trained_weights(tmp_path: Path) -> None:
    TrainingRun(_setup(), digit_pixels(), tmp_path).train()
    weights, _ = read_tensors(tmp_path / "best.safetensors")
    outcome = make_backbone("conv4").load_state_dict(weights, strict=False)
    assert outcome.missing_keys == []
    assert {name.split(".")[0] for name in outcome.unexpected_keys} == {"logits"}
