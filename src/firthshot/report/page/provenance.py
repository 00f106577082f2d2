"""What the page tells of the runs themselves: facts, warnings, and the command to repeat them."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from firthshot.errors import FirthshotError
from firthshot.experiments.spec import load_any, preset_names
from firthshot.experiments.spec.choose import is_paper_bank
from firthshot.experiments.spec.fields import BANK_FIELDS, WORDS, toml_value
from firthshot.report.gather import Gathered
from firthshot.report.runs import Run
from firthshot.report.wording import listed
from firthshot.report.wording import page as words


def describe_run(run: Run, title: str = "") -> dict[str, Any]:
    """Return what the section "What was run" shows of a run."""
    return {
        "name": title or run.name,
        "reproduces": run.spec.get("reproduces", ""),
        "remark": run.spec.get("remark", ""),
        "facts": [*words.setting_facts(run.spec), *words.run_facts(run)],
        "banks": [{"name": bank.name, "facts": list(words.bank_facts(bank))} for bank in run.banks],
        "spec": _without_folders(run),
        "command": rerun_command(run),
    }


def _without_folders(run: Run) -> str:
    """Return the spec with banks by their file names: a page tells nobody where a user keeps them.

    Its command is for elsewhere, where they lie in other folders.
    """
    text, source = run.spec_text, run.spec.get("source", [])
    for bank in (*run.spec.get("banks", ()), *([source] if isinstance(source, str) else source)):
        if Path(bank).is_absolute():
            text = text.replace(toml_value(bank), toml_value(Path(bank).name))
    return text


def rerun_command(run: Run) -> str:
    """Return the command that repeats a run elsewhere: a preset with what differs, or the spec."""
    folder = run.path.resolve().name
    out = f"--out {shlex.quote(f'runs/{folder}')}"
    if run.name in preset_names(run.kind):
        with contextlib.suppress(FirthshotError):
            elsewhere = [out] if folder != run.name else []
            flags = _flags(run, load_any(run.name).as_dict())
            return " ".join([f"firthshot run {run.name}", *flags, *elsewhere])
    return f"firthshot run spec.toml {out}"


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


def alerts(gathered: Gathered) -> list[tuple[str, str]]:
    """Return what a reader must know before the verdict: what, and more of it."""
    runs = gathered.runs
    found = [words.unfinished(run) for run in runs if not run.status.complete]
    return [*found, *_other_banks(runs)]


def _other_banks(runs: Iterable[Run]) -> Iterator[tuple[str, str]]:
    """Say which presets of the paper were run on other features, once for the same features."""
    names: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for run in runs:
        paper = tuple(run.spec.get("paper_banks", ()))
        own = [bank.name for bank in run.tried]
        others = tuple(name for name in own if not any(is_paper_bank(name, p) for p in paper))
        if paper and others:
            names.setdefault((others, paper), []).append(run.name)
    for (others, paper), own_names in names.items():
        yield words.other_features(own_names, others, paper)


def notes(gathered: Gathered) -> list[dict[str, Any]]:
    """Return warnings by what they are about."""
    found: list[tuple[str, list[str]]] = []
    of_runs: dict[str, Callable[[Run], Iterable[str]]] = {
        "unfinished": words.missing,
        "failed cells": lambda run: (f"{cell}: {why}" for cell, why in run.status.failures.items()),
        "changed from the spec": lambda run: run.status.notes,
    }
    titles = words.run_titles(gathered.runs)
    for what, lines_of in of_runs.items():
        alike: dict[tuple[str, ...], list[str]] = {}  # the same lines of several runs, once
        for run, title in zip(gathered.runs, titles, strict=True):
            alike.setdefault(tuple(lines_of(run)), []).append(title)
        found += [(f"{listed(own)}: {what}", list(lines)) for lines, own in alike.items()]
    found.append(("Statistics", gathered.summary.warnings))
    for bank in {bank.sha256: bank for run in gathered.runs for bank in run.banks}.values():
        doctor = [f"{finding.sentence} ({finding.severity})" for finding in bank.findings]
        found.append((f"The doctor on bank {bank.name}", doctor))
    return [{"what": what, "lines": lines} for what, lines in found if lines]
