"""Run the trials: scores of rivals and of our head, one small file a setting each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

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


def run(
    folder: Path, who: str, by: Scorer, trials: int, final: bool, *, core: bool = False
) -> None:
    """Run every setting, or the core ones alone: first a block of trials of each, then the next."""
    for until in range(BLOCK, trials + BLOCK, BLOCK):
        for name in names(final):
            source = load(name, final)
            for setting in settings(source):
                if core and not source.table and setting.name not in CORE:
                    continue
                run_setting(folder, who, source, setting, min(until, trials), final, by)
        print(f"{who}: {min(until, trials)} trials of every setting", flush=True)
