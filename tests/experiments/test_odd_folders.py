"""Whatever lies in a run folder: one sentence, no traceback, and nothing outside is touched."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from experiments.toy import toy_spec, write_bank
from firthshot.cli import app
from firthshot.errors import FirthshotError
from firthshot.experiments.run.status import read_status
from firthshot.experiments.runner import run
from firthshot.experiments.spec.reading import load_spec
from firthshot.report.build import write_report
from firthshot.report.gather import gather

LOOKS: dict[str, Callable[[Path], Any]] = {
    "status": read_status,
    "report": lambda folder: gather([folder]),
    "run": lambda folder: run(load_spec(str(folder)), folder, workers=1, summary=False),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    there = tmp_path_factory.mktemp("odd")
    spec = toy_spec(write_bank(there / "toy.bank"), heads=["linear"], shots=[1])
    run(spec, there / "run", workers=1)
    return there / "run"


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "run"))


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("look", "name", "content"),
    [
        *((look, "spec.toml", f"a = {DEEP}") for look in LOOKS),
        *((look, "spec.toml", f"trials = {'9' * 5000}") for look in LOOKS),
        *(("run", "banks.json", content) for content in ("[]", '{"toy": 3}', DEEP)),
        *(("report", "banks.json", content) for content in ("[]", '{"toy": 3}', DEEP)),
        *((look, "sessions.json", DEEP) for look in ("status", "report")),
    ],
)
def test_garbage_in_a_record_is_named(folder: Path, look: str, name: str, content: str) -> None:
    (folder / name).write_text(content)
    with pytest.raises(FirthshotError, match=name):
        LOOKS[look](folder)


def test_a_bank_on_record_without_its_facts_has_changed(folder: Path) -> None:
    (folder / "banks.json").write_text('{"toy": {}}')
    with pytest.raises(FirthshotError, match="has changed since the run"):
        LOOKS["run"](folder)


@pytest.mark.parametrize("plan", ['{"cells": "x", "classifiers": 1, "notes": []}', DEEP])
def test_garbage_in_the_plan_is_named(folder: Path, plan: str) -> None:
    (folder / "plan.json").write_text(plan)
    with pytest.raises(FirthshotError, match=r"plan\.json is damaged"):
        read_status(folder)


@pytest.mark.parametrize("record", ["[]", "3", DEEP])
def test_an_unreadable_failure_is_listed(folder: Path, record: str) -> None:
    (folder / "failures" / "x.json").write_text(record)
    assert read_status(folder).failures == {"x.json": "the record is unreadable"}


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_lock_that_is_none_harms_nothing(folder: Path, tmp_path: Path, kind: str) -> None:
    """The lock was once opened for writing, which emptied what a link led to."""
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    (folder / ".lock").unlink()
    if kind == "link":
        (folder / ".lock").symlink_to(mine)
    else:
        (folder / ".lock").mkdir()
    with pytest.raises(FirthshotError, match=r"\.lock cannot be written to"):
        LOOKS["run"](folder)
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("look", [LOOKS["run"], lambda folder: write_report([folder])])
def test_temporary_files_of_killed_runs_and_reports_are_removed(
    folder: Path, look: Callable[[Path], Any]
) -> None:
    for place in ("", "parts", "bins", "trials", "failures", "summary", "figures", "tables"):
        (folder / place).mkdir(exist_ok=True)
        (folder / place / ".improvement.svg.0a1b2c3d.tmp").write_text("half")
    look(folder)
    assert not list(folder.rglob("*.tmp"))


def test_names_are_escaped_by_every_command(folder: Path) -> None:
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text().replace('name = "toy"', r'name = "\u001b[2J\u202e[red]x"'))
    odd = folder / "parts" / "\x1b[2J\udcff.parquet"
    for command in (["status"], ["validate"], ["report", "--no-figures"], ["run", "--no-report"]):
        for there in (False, True):
            _ = odd.mkdir() if there else None
            done = CliRunner().invoke(app, [*command, str(folder)], catch_exceptions=True)
            said = done.output + str(done.exception or "")
            assert done.exception is None or isinstance(
                done.exception, FirthshotError | SystemExit
            ), done.exception
            assert not set(said) & set("\x1b\u202e\udcff"), command
            _ = odd.rmdir() if there else None
    assert r"\u001b[2J\u202e[red]x" in CliRunner().invoke(app, ["status", str(folder)]).output
