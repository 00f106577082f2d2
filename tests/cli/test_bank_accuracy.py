from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from typer.testing import CliRunner

from firthshot.banks import save_bank
from firthshot.cli.bank import app
from firthshot.engine import baseline
from firthshot.episodes import sample_episodes

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_accuracy_is_that_of_the_nearest_class_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "TRIALS", 20)
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 30)
    X = rng.normal(size=(8, 6))[y] + 1.5 * rng.normal(size=(240, 6))
    names = [f"c{k}" for k in range(8)]
    bank = save_bank(
        tmp_path / "toy.bank", X.astype("f4"), y, classes=names, class_splits=["novel"] * 8
    )
    found = baseline.centroid_accuracy(bank, bank.features, "novel", 5)
    episodes = sample_episodes(bank, "novel", ways=5, shots=5, trials=20, queries=15)
    for trial in range(20):
        own = episodes[trial]
        means = np.stack([X[own.support[own.support_labels == k]].mean(0) for k in range(5)])
        distances = ((X[own.query][:, None] - means) ** 2).sum(-1)
        assert found[trial] == np.mean(distances.argmin(1) == own.query_labels)
    monkeypatch.setenv("COLUMNS", "200")
    shown = CliRunner().invoke(app, ["info", str(bank.path), "--accuracy"]).output
    assert "novel, 5-way, 1- and 5-shot (20 trials" in shown
    half = 2.093024 * found.std(ddof=1) / np.sqrt(20)  # Student's t of 19 degrees of freedom
    assert f"{100 * found.mean():.1f} ± {100 * half:.1f} %" in shown
