"""What is rerun: the studies of plan.toml, and their specs."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firthshot.experiments.spec.fields import GeometricSpec, Spec, to_toml
from firthshot.experiments.spec.reading import load_any, preset_names

FOLDER = Path(__file__).parent
NO_BANK = "none"  # where the spec of a study without banks goes
TENTH = 10


@dataclass(frozen=True)
class Study:
    """A preset, or a question that no preset asks, on some banks.

    Attributes
    ----------
    name : str
    preset : str
        Where the settings come from; the name where it is left out.
    question : str
        What the study asks; empty for a preset as it is.
    banks : tuple of str
        Empty for the geometric experiment.
    trials : int
    set : dict
        Fields that differ from the preset.
    """

    name: str
    trials: int
    preset: str = ""
    question: str = ""
    banks: tuple[str, ...] = ()
    set: dict[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Return the preset that lends its settings."""
        return self.preset or self.name


@dataclass(frozen=True)
class Task:
    """One spec: a study on a bank."""

    study: Study
    bank: str

    @property
    def place(self) -> str:
        """Return where spec, run and summary are, within their folders."""
        return f"{self.study.name}/{self.bank or NO_BANK}"

    @property
    def geometric(self) -> bool:
        """Tell whether it is the geometric experiment, which has no banks."""
        return self.study.source in preset_names("geometric")

    def spec(self, tenth: bool = False) -> Spec | GeometricSpec:
        """Return the preset's settings with the plan's over them."""
        study = self.study
        trials = max(2, -(-study.trials // TENTH)) if tenth else study.trials
        given = {**study.set, "trials": trials}
        if study.preset:
            given |= {"name": study.name, "reproduces": "", "remark": study.question}
        return load_any(study.source, given if self.geometric else {**given, "banks": [self.bank]})


@dataclass(frozen=True)
class Pair:
    """Two studies whose runs are compared trial by trial, one minus the other.

    ``zero_against_chosen``: compare one at λ = 0 with the other at its choice as well.
    """

    one: str
    other: str
    zero_against_chosen: bool = False


def read_pairs(folder: Path = FOLDER) -> list[Pair]:
    """Return the studies to be compared."""
    fields = tomllib.loads((folder / "plan.toml").read_text("utf-8"))
    return [Pair(**one) for one in fields["pair"]]


def read_plan(folder: Path = FOLDER) -> list[Study]:
    """Return the studies in their order."""
    fields = tomllib.loads((folder / "plan.toml").read_text("utf-8"))
    return [Study(**{**one, "banks": tuple(one.get("banks", ()))}) for one in fields["study"]]


def read_tasks(folder: Path = FOLDER) -> list[Task]:
    """Return all tasks in the order in which they are run."""
    last = tomllib.loads((folder / "plan.toml").read_text("utf-8"))["last"]
    found = [Task(study, bank) for study in read_plan(folder) for bank in study.banks or ("",)]
    return sorted(found, key=lambda task: task.bank in last)


def spec_texts(folder: Path = FOLDER) -> Iterator[tuple[Path, str]]:
    """Yield path and content of every spec file."""
    for task in read_tasks(folder):
        # Summaries are kept under the hash of these files, which words must not change.
        lines = to_toml(task.spec()).splitlines(keepends=True)
        text = "".join(line for line in lines if not line.startswith("question = "))
        yield folder / "specs" / f"{task.place}.toml", text


def write_specs(folder: Path = FOLDER) -> int:
    """Write the spec files, remove those that the plan no longer has, and count them."""
    texts = dict(spec_texts(folder))
    for path in (folder / "specs").rglob("*.toml"):
        if path not in texts:
            path.unlink()
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return len(texts)
