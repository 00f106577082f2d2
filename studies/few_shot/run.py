"""Run the trials: scores of rivals and of our head, one small file a setting each."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from firthshot.errors import FirthshotError
from studies.few_shot.rivals import rival_scores
from studies.few_shot.settings import CORE, Setting, Trial, draw, settings
from studies.few_shot.sources import BANKS, KEPT_OUT, TABLES, Source, load

BLOCK = 20  # trials between two writings

Scorer = Callable[[Trial, Setting], np.ndarray]


def names(final: bool) -> tuple[str, ...]:
    """Return the sources of the last table, or those that rules may be settled on."""
    return tuple(name for name in (*BANKS, *TABLES) if final or name not in KEPT_OUT)


def file_of(folder: Path, who: str, setting: Setting) -> Path:
    """Return where the scores of a head, or of the rivals, in a setting are kept."""
    return folder / who / f"{setting.source}_{setting.name}.npy"


def run_setting(
    folder: Path, who: str, source: Source, setting: Setting, trials: int, final: bool, by: Scorer
) -> np.ndarray:
    """Return scores (trials, heads, 2) of a setting, of which finished trials are read."""
    path = file_of(folder, who, setting)
    found = list(np.load(path)) if path.exists() else []
    while len(found) < trials:
        until = min(trials, len(found) + BLOCK)
        found += [by(draw(source, setting, t, final), setting) for t in range(len(found), until)]
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path.with_suffix(".part.npy"), np.array(found))
        path.with_suffix(".part.npy").replace(path)
    return np.array(found[:trials])


def by_rivals(trial: Trial, _setting: Setting) -> np.ndarray:
    """Score the rivals on a trial."""
    return rival_scores(trial)


def seconds(source: Source, setting: Setting) -> float:
    """Guess how long a trial takes: five logistic regressions and what is quick."""
    return 0.06 + 2e-7 * float(sum(setting.shots) * source.X.shape[1] * setting.ways)


def run(
    folder: Path, scorers: Mapping[str, Scorer], trials: int, final: bool, *, core: bool = False
) -> None:
    """Run every setting, or the core ones alone, in blocks of trials.

    Next is always the setting that will have taken least time: when a run is stopped, all have had
    about the same time, and cheap settings more trials.
    """
    found = {name: source for name in names(final) if (source := available(name, final))}
    every = [(source, one) for source in found.values() for one in settings(source)]
    queue = [
        (BLOCK * seconds(source, one), BLOCK, number)
        for number, (source, one) in enumerate(every)
        if source.table or not core or one.name in CORE
    ]
    heapq.heapify(queue)
    while queue:
        _, until, number = heapq.heappop(queue)
        source, one = every[number]
        for who, by in scorers.items():
            run_setting(folder, who, source, one, min(until, trials), final, by)
        if until < trials:
            after = until + BLOCK
            heapq.heappush(queue, (after * seconds(source, one), after, number))
        print(f"{one.source} {one.name}: {min(until, trials)} trials", flush=True)


def available(name: str, final: bool) -> Source | None:
    """Return a source, or say that it is skipped and why."""
    try:
        return load(name, final)
    except FirthshotError as error:
        print(f"{name} is skipped: {error}", flush=True)
        return None
