"""Time `FewShotClassifier()` against `LogisticRegression()`, fit and predict_proba."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from firthshot import FewShotClassifier
from studies.few_shot.run import available, names
from studies.few_shot.settings import Trial, draw, settings

REPEATS = 5


def seconds(make: Callable[[], Any], trial: Trial) -> float:
    """Return the least processor time of some fits with predictions."""
    found = []
    for _ in range(REPEATS):
        start = time.process_time()
        make().fit(trial.X, trial.y).predict_proba(trial.Q)
        found.append(time.process_time() - start)
    return min(found)


def compare(wanted: Sequence[str]) -> None:
    """Print one line for each setting, on classes for choosing, and the geometric mean."""
    ratios = []
    for name in wanted or names(False):
        source = available(name, False)
        if source is None:
            continue
        for setting in settings(source):
            if setting.like_shots:
                continue
            trial = draw(source, setting, 0, False)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = seconds(LogisticRegression, trial)
            ours = seconds(FewShotClassifier, trial)
            ratios.append(theirs / ours)
            print(
                f"{name} {setting.name}: {1e3 * ours:.2f} ms, LogisticRegression() "
                f"{1e3 * theirs:.2f} ms, {ratios[-1]:.2f}x",
                flush=True,
            )
    if ratios:
        mean = float(np.exp(np.mean(np.log(ratios))))
        print(f"{len(ratios)} settings: geometric mean {mean:.2f}x, lowest {min(ratios):.2f}x")
