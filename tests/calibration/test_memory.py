"""The base classes of tiered-ImageNet, 351 of 640 features, fit into 4 GB with everything else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CODE = """
import json, resource, sys
import numpy as np
from firthshot.banks import make_bank
from firthshot.calibration import CalibratedLinear, base_statistics, tukey
from firthshot.engine import Converged, Penalty, train
from firthshot.episodes import sample_episodes

rng, labels = np.random.default_rng(0), np.repeat(np.arange(371), 40)
X = rng.normal(size=(371, 640)).astype(np.float32)[labels] / 3
X = np.maximum(X + rng.normal(size=X.shape).astype(np.float32) + 0.3, 0)
bank = make_bank(
    X, labels, name="wide", classes=[str(c) for c in range(371)],
    class_splits=["base"] * 351 + ["novel"] * 20,
)
episodes = sample_episodes(bank, "novel", ways=10, shots=5, trials=20, queries=15)
results = train(
    tukey(X), episodes, CalibratedLinear(base_statistics(bank), 750), Converged(tolerance=3e-6),
    Penalty("firth", (0.0, 0.1), l2=1.0, l2_kind="ridge"), threads=2,
)
unit = 1 if sys.platform == "darwin" else 1024
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
print(json.dumps([peak, int((results.status != 0).sum())]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell the peak this way")
def test_351_base_classes_of_640_features() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    peak, not_converged = json.loads(done.stdout)
    assert peak < 4e9
    assert not_converged == 0
