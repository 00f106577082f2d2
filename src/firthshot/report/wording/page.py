"""What the page says of the report and of its runs, beside the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from firthshot.progress import duration
from firthshot.report.gather import Gathered
from firthshot.report.runs import BankFacts, Run
from firthshot.report.wording import counted, listed
from firthshot.report.wording.cards import TEXTS

Fact = tuple[str, str]


def trials_words(trials: Sequence[int]) -> str:
    """Return a number of trials in words; the range where it differs."""
    low, high = min(trials), max(trials)
    return counted(low, "trial") if low == high else f"{low:,} to {high:,} trials"


def eyebrow(gathered: Gathered) -> str:
    """Return what the report is about, in one line."""
    banks = dict.fromkeys(bank.name for run in gathered.runs for bank in run.tried)
    said = [listed(dict.fromkeys(run.name for run in gathered.runs))]
    if banks:
        said.append(f"on {listed(banks)}" if len(banks) <= 3 else f"on {len(banks)} banks")
    if trials := gathered.summary.chosen["trials"].to_list():
        said.append(f"{trials_words(trials)} per setting")
    return " · ".join(said)


def run_titles(runs: Sequence[Run]) -> list[str]:
    """Return what each run is called: its name, with the folder where several have that name."""
    names = [run.name for run in runs]
    return [
        f"{run.name} ({_folder(run, runs)})" if names.count(run.name) > 1 else run.name
        for run in runs
    ]


def _folder(run: Run, runs: Sequence[Run]) -> str:
    """Return the end of a folder's path, as much of it as tells the runs apart."""
    own, paths = run.path.resolve().parts, [other.path.resolve().parts for other in runs]
    for length in range(1, len(own)):
        if sum(own[-length:] == parts[-length:] for parts in paths) == 1:
            return "/".join(own[-length:])
    return "/".join(own)


def folded_words(total: int, above: int, folded: int) -> str:
    """Say how many figures are here, and where the others are."""
    said = [counted(folded, "figure")]
    said += [f"{above} more above"] if above else []
    if rest := total - above - folded:
        said.append(f"{rest} more in figures/")
    return ", ".join(said)


def beside_words(figures: int, tables: int) -> str:
    """Say what lies beside the page."""
    said = []
    if figures:
        said.append(f"{counted(figures, 'figure')} as SVG, PDF and PNG in figures/")
    if tables:
        said.append(f"{counted(tables, 'table')} as CSV, Markdown and LaTeX in tables/")
    return f"Beside this page: {' and '.join(said)}." if said else ""


def setting_facts(spec: dict[str, Any]) -> Iterator[Fact]:
    """Yield the settings of a run by their titles."""
    for name, title in TEXTS["settings"].items():
        value = spec.get(name)
        if isinstance(value, list):
            words = (f"{one:g}" if isinstance(one, int | float) else str(one) for one in value)
            yield title, ", ".join(words)
        elif value is not None:
            yield title, f"{value:,}" if isinstance(value, int) else str(value)
    if asked := spec.get("calibration"):
        counts = listed(f"{count:,}" for count in asked["artificial"])
        source = spec.get("source") or "own"
        files = (Path(name).name for name in ([source] if isinstance(source, str) else source))
        sources = listed(dict.fromkeys("its own" if name == "own" else name for name in files))
        nearest = f"{asked['neighbours']} nearest to each sample, α = {asked['alpha']:g}"
        yield "Artificial", f"{counts} samples per class around the support"
        yield "Base classes", f"{sources}; {nearest}"


def run_facts(run: Run) -> Iterator[Fact]:
    """Yield how far a run came, when, how long, on what machine and with what versions."""
    status, sessions = run.status, run.status.sessions
    if status.cells:
        yield "Cells", f"{status.finished:,} of {status.cells:,} finished"
    if not sessions:
        yield "Machine", "not recorded"
        return
    yield "Started", sessions[0].started.replace("T", " ").replace("+00:00", " UTC")
    seconds = sum(session.seconds for session in sessions)
    classifiers = sum(session.classifiers for session in sessions)
    if seconds:
        trained = f", {counted(classifiers, 'classifier')}" if classifiers else ""
        several = f" in {len(sessions)} sessions" if len(sessions) > 1 else ""
        yield "Time", f"{duration(seconds)}{several}{trained}"
    yield "Machine", status.machines
    versions = [{"firthshot": each.firthshot, **each.versions} for each in sessions]
    told = dict.fromkeys(", ".join(f"{k} {v}" for k, v in each.items()) for each in versions)
    yield "Versions", "; ".join(told)


def bank_facts(bank: BankFacts) -> Iterator[Fact]:
    """Yield what is known of a bank."""
    now, held = bank.bank, {}
    if now is not None:
        (rows, d), classes = now.features.shape, (f"{len(now.classes(s))} {s}" for s in now.splits)
        size = f"{rows:,} rows × {d}, classes: {', '.join(classes)}"
        held = {"Holds": size, "Licence": now.meta.licence, "Provenance": now.meta.provenance}
    recorded = {"Data set": bank.dataset, "Backbone": bank.backbone, "Extraction": bank.extraction}
    facts = {**recorded, **held, "sha256": bank.sha256}
    yield from ((name, value) for name, value in facts.items() if value)
    if now is None:
        yield "Now", "The bank has changed or is not found. This is what the run recorded."


def unfinished(run: Run) -> tuple[str, str]:
    """Say that a run is not finished."""
    status = run.status
    state = "still running" if status.running else "not finished"
    there = f"{status.finished:,} of {counted(status.cells, 'cell')} are here"
    return f"{run.name} is {state}.", f"{there}; Warnings lists what is missing."


def missing(run: Run) -> list[str]:
    """Name what a run lacks."""
    lacking = run.status.cells - run.status.finished
    counted_only = [f"{counted(lacking, 'cell')} of the plan."] if lacking > 0 else []
    return list(run.missing) or counted_only


def other_features(names: Iterable[str], own: Iterable[str], paper: Iterable[str]) -> Fact:
    """Say that presets of the paper were run on other features."""
    some = list(dict.fromkeys(names))  # two runs may share a preset
    repeat = "repeats" if len(some) == 1 else "repeat"
    text = (
        f"{listed(some)} {repeat} settings of the paper on {listed(own)}; the paper used "
        f"{listed(paper)}. The published numbers are not comparable with these."
    )
    return "Not the paper’s features.", text
