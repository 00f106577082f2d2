"""Ten million rows: the summary is right, and prints how long it took (no clock decides)."""

from __future__ import annotations

import time
from itertools import product

import numpy as np
import polars as pl
import pytest

from experiments.summary_folders import KEY
from firthshot.experiments.run.store import sealed_parquet
from firthshot.experiments.schema import BINS, ROW, TRIALS
from firthshot.experiments.summary import summarise

COEFFICIENTS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
BLOCK, BLOCKS, CLASSES = 1000, 8, 20


def _typed(frame, schema):
    return frame.select(
        pl.col(name) if kind.startswith("List") else pl.col(name).cast(getattr(pl, kind))
        for name, kind in schema.items()
    )


def _tables(key, block, classes):
    """Return rows, bins and trials of one cell: coefficient 1 is better by 0.02 in all trials."""
    random = np.random.default_rng([block, key["ways"], key["shots"], key["penalty"] == "l2"])
    width = len(COEFFICIENTS) + 1
    trials = np.arange(block * BLOCK, (block + 1) * BLOCK)
    base = random.integers(100, 500, BLOCK)[:, None] / 1000
    gain = np.where(np.arange(width) == 3, 0.02, -0.01 * (np.arange(width) > 0))
    size = (BLOCK, width)
    values = {
        "coefficient": np.tile([*COEFFICIENTS, key["ways"] / 2], BLOCK),
        "theory": np.tile(np.arange(width) == len(COEFFICIENTS), BLOCK),
        "theory_exact": np.ones(BLOCK * width, bool),
        "trial": np.repeat(trials, width),
        "accuracy": (base + gain + np.zeros(size)).ravel(),
        **{name: random.random(size).ravel() for name in ("nll", "brier", "ece", "norm")},
    }
    keys = [pl.lit(value).alias(name) for name, value in key.items()]
    rows = pl.DataFrame(values).with_columns(*keys, status=pl.lit("ok"))
    bins = pl.DataFrame(
        {
            "coefficient": np.repeat([*COEFFICIENTS, key["ways"] / 2], 15),
            "theory": np.repeat(np.arange(width) == len(COEFFICIENTS), 15),
            "bin": np.tile(np.arange(15), width),
            "count": np.full(15 * width, 10),
            "confidence_sum": np.full(15 * width, 5.0),
            "correct_sum": np.full(15 * width, 4.0),
        }
    ).with_columns(*keys)
    drawn = pl.Series("classes", classes[trials].tolist(), dtype=pl.List(pl.UInt16))
    told = pl.DataFrame({"trial": trials}).with_columns(*keys, drawn)
    return _typed(rows, ROW), _typed(bins, BINS), _typed(told, TRIALS)


def make(folder):
    """Write 3 banks × 4 ways × 3 shots × 2 splits × 2 penalties × 8 blocks of 1000 trials."""
    for name in ("parts", "bins", "trials"):
        (folder / name).mkdir()
    cells = product(("mini", "cifar", "tiered"), (5, 10, 15, 19), (1, 5, 10), ("val", "novel"))
    written = number = 0
    for bank, ways, shots, split in cells:
        random = np.random.default_rng([ways, shots])
        classes = np.argsort(random.random((BLOCK * BLOCKS, CLASSES)), axis=1)[:, :ways]
        for penalty, block in product(("firth", "l2"), range(BLOCKS)):
            about = {"bank": bank, "ways": ways, "actual_ways": ways, "shots": shots}
            key = {**KEY, **about, "split": split, "penalty": penalty}
            tables = _tables(key, block, classes)
            for name, table in zip(("parts", "bins", "trials"), tables, strict=True):
                (folder / name / f"{number:032x}.parquet").write_bytes(sealed_parquet(table))
            written, number = written + len(tables[0]), number + 1
    return written


@pytest.mark.slow
def test_ten_million_rows(tmp_path):
    written = make(tmp_path)
    start, cpu = time.perf_counter(), time.process_time()
    found = summarise(tmp_path)
    took, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(f"\n{written:,} rows summarised in {took:.1f} s ({cpu:.1f} s of processor time)")
    assert written > 10_000_000
    assert found.all.shape[0] == 3 * 4 * 3 * 2 * 2 * 9
    assert found.chosen.shape[0] == 72
    assert found.contrasts.shape[0] == 36
    assert set(found.chosen["coefficient"]) == {1.0}
    np.testing.assert_allclose(found.chosen["improvement"], 0.02, atol=1e-6)
    np.testing.assert_allclose(found.chosen["ece_pooled"], 0.1)
    assert found.chosen["improvement_classes_low"].null_count() == 0
    assert found.warnings == []
