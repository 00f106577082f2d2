"""Specs, and the files of a finished run folder, each with what the product does with it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from experiments.toy import assert_same_run, toy_spec, write_bank
from firthshot.errors import FirthshotError
from firthshot.experiments.spec.fields import Spec
from sound_files import Reader

# One file of each kind that a run leaves; a pattern is the first file that it finds.
FILES = (
    "parts/*.parquet",
    "bins/*.parquet",
    "trials/*.parquet",
    "spec.toml",
    "banks.json",
    "plan.json",
    "sessions.json",
)


def make_spec(path: Path) -> None:
    from firthshot.experiments.spec.fields import to_toml

    path.write_text(to_toml(toy_spec(Path("toy.bank"), shots=[1, "unbalanced-8"])), "utf-8")


def read_spec(path: Path) -> None:
    from firthshot.experiments.spec.reading import load_spec

    load_spec(str(path))


def finished(beside: Path) -> Path:
    """Return a run folder that is finished, in the folder of the file that is tried."""
    from firthshot.experiments.runner import run
    from firthshot.report.build import write_report

    folder = beside.parent / "finished"
    if not (folder / "report.html").is_file():
        run(_spec(beside), folder, workers=1)
        write_report([folder], figures=False)
    return folder


def _spec(beside: Path) -> Spec:
    bank = beside.parent / "toy.bank"
    return toy_spec(bank if bank.is_file() else write_bank(bank), heads=["linear"], shots=[1])


def _original(beside: Path, name: str) -> Path:
    return sorted(finished(beside).glob(name))[0]


def make_file(path: Path, name: str) -> None:
    shutil.copyfile(_original(path, name), path)


def use_folder(path: Path, name: str) -> None:
    """Put the file into a copy of the folder; ask for its status, go on with it, report it.

    What the run then says is finished has the bits of the sound folder.
    """
    from firthshot.experiments.run.status import read_status
    from firthshot.experiments.runner import run
    from firthshot.report.build import write_report

    sound, folder = finished(path), path.parent / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sound, folder)
    shutil.copyfile(path, folder / _original(path, name).relative_to(sound))
    report = partial(write_report, [folder], figures=False)
    asked = [*_refusal(partial(read_status, folder)), *_refusal(report)]
    resumed = _refusal(partial(run, _spec(path), folder, workers=1))
    if not resumed:
        assert_same_run(folder, sound)
    if refusals := [*asked, *resumed, *_refusal(report)]:
        raise refusals[0]


def _refusal(work: Callable[[], object]) -> list[FirthshotError]:
    try:
        work()
    except FirthshotError as error:
        return [error]
    return []


def _short(name: str) -> str:
    return Path(name).name if "*" not in name else Path(name).parent.name


READERS = {
    "spec toml": Reader(".toml", make_spec, read_spec),
    **{
        f"run folder {_short(name)}": Reader(
            Path(name).suffix, partial(make_file, name=name), partial(use_folder, name=name)
        )
        for name in FILES
    },
}
