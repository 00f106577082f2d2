"""What the page says of the runs themselves: facts, warnings, and the command to repeat them."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from firthshot.errors import FirthshotError
from firthshot.experiments.spec.fields import BANK_FIELDS, WORDS
from firthshot.experiments.spec.writing import toml_value
from firthshot.report.gather import Gathered
from firthshot.report.runs import BankFacts, Run
from firthshot.report.wording import counted, listed

Fact = tuple[str, str]
_SETTINGS = {
    "heads": "Heads",
    "solver": "Solver",
    "penalties": "Penalties",
    "priors": "Priors",
    "coefficients": "Grid of λ",
    "l2_coefficients": "Grid of L2",
    "transform": "Transform",
    "ways": "Ways",
    "shots": "Shots",
    "trials": "Trials per setting",
    "first_trial": "First trial",
    "queries": "Queries per class",
    "until_ci": "Trials added until ± (points)",
    "p": "True probability",
    "sample_size": "Largest sample",
}


def describe_run(run: Run) -> dict[str, Any]:
    """Return what the section "What was run" shows of a run."""
    return {
        "name": run.name,
        "reproduces": run.spec.get("reproduces", ""),
        "remark": run.spec.get("remark", ""),
        "facts": [*_settings(run.spec), *_drawn(run.spec), *_progress(run), *_sessions(run)],
        "banks": [{"name": bank.name, "facts": list(_bank(bank))} for bank in run.banks],
        "spec": run.spec_text,
        "command": rerun_command(run),
    }


def _settings(spec: dict[str, Any]) -> Iterator[Fact]:
    for name, title in _SETTINGS.items():
        value = spec.get(name)
        if isinstance(value, list):
            yield title, ", ".join(f"{each:g}" if _number(each) else str(each) for each in value)
        elif value is not None:
            yield title, f"{value:,}" if isinstance(value, int) else str(value)


def _drawn(spec: dict[str, Any]) -> Iterator[Fact]:
    """Say the settings of Distribution Calibration, nothing without it."""
    if asked := spec.get("calibration"):
        counts = listed(f"{count:,}" for count in asked["artificial"])
        source = spec.get("source") or "own"
        names = [source] if isinstance(source, str) else source
        files = (Path(name).name for name in names)
        sources = listed(dict.fromkeys("its own" if name == "own" else name for name in files))
        yield "Artificial", f"{counts} samples per class around the support"
        yield (
            "Base classes",
            f"{sources}; {asked['neighbours']} nearest to each sample, α = {asked['alpha']:g}",
        )


def _number(value: Any) -> bool:
    return isinstance(value, int | float)


def _progress(run: Run) -> Iterator[Fact]:
    if run.progress.total:
        yield "Cells", f"{run.progress.finished:,} of {run.progress.total:,} finished"


def _sessions(run: Run) -> Iterator[Fact]:
    """Yield when, how long, on what machine and with what versions; each distinct answer once."""
    from firthshot.experiments.run.record import machines
    from firthshot.experiments.wording import duration

    if not run.sessions:
        yield "Machine", "not recorded"
        return
    started = run.sessions[0].started.replace("T", " ").replace("+00:00", " UTC")
    seconds = sum(session.seconds for session in run.sessions)
    classifiers = sum(session.classifiers for session in run.sessions)
    yield "Started", started
    if seconds:
        trained = f", {counted(classifiers, 'classifier')}" if classifiers else ""
        several = f" in {len(run.sessions)} sessions" if len(run.sessions) > 1 else ""
        yield "Time", f"{duration(seconds)}{several}{trained}"
    yield "Machine", machines(run.sessions)
    versions = [{"firthshot": each.firthshot, **each.versions} for each in run.sessions]
    told = dict.fromkeys(", ".join(f"{k} {v}" for k, v in each.items()) for each in versions)
    yield "Versions", "; ".join(told)


def _bank(bank: BankFacts) -> Iterator[Fact]:
    facts = {
        "Data set": bank.dataset,
        "Backbone": bank.backbone,
        "Extraction": bank.extraction,
        "Holds": bank.size,
        "Licence": bank.licence,
        "Provenance": bank.provenance,
        "sha256": bank.sha256,
    }
    yield from ((name, value) for name, value in facts.items() if value)
    if bank.bank is None:
        yield "Now", "the bank is no longer found, or has changed; this is what the run recorded"


def rerun_command(run: Run) -> str:
    """Return the command that repeats a run elsewhere: a preset with what differs, or the spec."""
    from firthshot.experiments.spec.reading import preset_names

    folder = run.path.resolve().name
    out = f"--out {shlex.quote(f'runs/{folder}')}"
    if run.name in preset_names(run.kind):
        with contextlib.suppress(FirthshotError):
            elsewhere = [out] if folder != run.name else []
            flags = _flags(run, _preset(run))
            return " ".join([f"firthshot run {run.name}", *flags, *elsewhere])
    return f"firthshot run spec.toml {out}"


def _preset(run: Run) -> dict[str, Any]:
    """Return the fields of the preset of a run's name."""
    from firthshot.experiments.spec import load_any

    return load_any(run.name).as_dict()


def _flags(run: Run, preset: dict[str, Any]) -> Iterator[str]:
    preset = msgspec.json.decode(msgspec.json.encode(preset))  # lists, as TOML has them
    yield from _bank_flags(preset, run.spec)
    fields = {**dict.fromkeys(preset), **run.spec}
    for name, value in fields.items():
        if name in (*WORDS, *BANK_FIELDS) or value == preset.get(name):
            continue
        if isinstance(value, dict):
            was = preset.get(name, {})
            new = {key: each for key, each in value.items() if was.get(key) != each}
            for key, each in new.items():
                yield f"--set {shlex.quote(f'{name}.{key}={toml_value(each)}')}"
        elif name == "trials":
            yield f"--trials {value}"
        elif value is not None:
            yield f"--set {shlex.quote(f'{name}={toml_value(value)}')}"


def _bank_flags(preset: dict[str, Any], spec: dict[str, Any]) -> Iterator[str]:
    """Yield the banks where they are not the preset's; elsewhere they lie in other folders."""
    if preset.get("banks", []) != spec.get("banks", []):
        for bank in spec.get("banks", []):
            yield f"--bank {shlex.quote(Path(bank).name)}"
    source = spec.get("source", [])
    if preset.get("source", []) != source:
        names = [Path(name).name for name in ([source] if isinstance(source, str) else source)]
        yield f"--set {shlex.quote(f'source={toml_value(names)}')}"


def alerts(gathered: Gathered) -> list[dict[str, str]]:
    """Return what a reader must know before the verdict."""
    found = [_unfinished(run) for run in gathered.runs if not run.progress.complete]
    dropped = [alert for run in gathered.runs for alert in _dropped(run)]
    return [*found, *dropped, *_other_banks(gathered.runs)]


def _dropped(run: Run) -> Iterator[dict[str, str]]:
    """Say how many trials a run refused: what it found rests on the others alone."""
    from firthshot.experiments.run.dropped import dropped_trials, dropped_words

    if words := dropped_words(dropped_trials(run.path)):
        text = (
            f"{words}, as some of their features are NaN or infinite; look at them with: firthshot "
            "bank doctor BANK"
        )
        yield {"what": f"{run.name} lacks trials.", "text": f"{text}."}


def _unfinished(run: Run) -> dict[str, str]:
    progress = run.progress
    state = "still running" if progress.running else "not finished"
    there = f"{progress.finished:,} of {counted(progress.total, 'cell')} are here"
    return {
        "what": f"{run.name} is {state}.",
        "text": f"{there}; what is missing is listed under Warnings.",
    }


def _other_banks(runs: Iterable[Run]) -> Iterator[dict[str, str]]:
    """Say which presets of the paper were run on other features, once for the same features."""
    from firthshot.experiments.spec.choose import is_paper_bank

    names: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for run in runs:
        paper = tuple(run.spec.get("paper_banks", ()))
        own = [bank.name for bank in run.tried]
        others = tuple(name for name in own if not any(is_paper_bank(name, p) for p in paper))
        if paper and others:
            names.setdefault((others, paper), []).append(run.name)
    for (others, paper), own_names in names.items():
        some = list(dict.fromkeys(own_names))  # two runs may share a preset
        repeat = "repeats" if len(some) == 1 else "repeat"
        text = (
            f"{listed(some)} {repeat} settings of the paper on {listed(others)}; the paper used "
            f"{listed(paper)}. Its published numbers are not comparable with these."
        )
        yield {"what": "Not the paper’s features.", "text": text}


def notes(gathered: Gathered) -> list[dict[str, Any]]:
    """Return warnings by what they are about."""
    found = []
    for run in gathered.runs:
        found += [
            _note(f"{run.name}: unfinished", _missing(run)),
            _note(f"{run.name}: failed cells", (f"{c}: {r}" for c, r in _failures(run))),
            _note(f"{run.name}: done otherwise than asked", run.notes),
        ]
    found.append(_note("Statistics", gathered.summary.warnings))
    for bank in _distinct_banks(gathered.runs):
        found.append(
            _note(
                f"The doctor on bank {bank.name}",
                (f"{finding.sentence} ({finding.severity})" for finding in bank.findings),
            )
        )
    return [note for note in found if note["lines"]]


def _note(what: str, lines: Iterable[str]) -> dict[str, Any]:
    return {"what": what, "lines": list(lines)}


def _missing(run: Run) -> Iterator[str]:
    yield from run.progress.missing
    lacking = run.progress.total - run.progress.finished
    if lacking > 0 and not run.progress.missing:
        yield f"{counted(lacking, 'cell')} of the plan."


def _failures(run: Run) -> Iterable[tuple[str, str]]:
    return run.progress.failures.items()


def _distinct_banks(runs: Iterable[Run]) -> list[BankFacts]:
    return list({bank.sha256: bank for run in runs for bank in run.banks}.values())
