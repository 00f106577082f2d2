"""How long the paper's classifiers take on more workers, and what saturates first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common import make_table
from firthshot.experiments.plan.layout import trial_seconds

if TYPE_CHECKING:
    from rich.console import Console

    from firthshot.banks import Bank
    from firthshot.engine import TrialShape
    from firthshot.experiments.plan.layout import Plan, Setting
    from firthshot.experiments.spec.methods import Method

WORKERS = (1, 10, 100, 1000)
PAPER_COUNT = 8.5e6
# What the paper counts to its classifiers and years (its appendix, "Computational Resources").
COUNTED = (
    "logistic-firth",
    "logistic-l2",
    "imbalanced",
    "mlp-firth",
    "mlp-l2",
    "imbalanced-mlp",
    "cosine",
)
_MEASURED_SECONDS = 0.3  # of every shape, and one trial at least
_MEMORY = 8e9  # bytes: the largest shape is estimated at more than the engine's default
COLUMNS = ("workers", "time", "bound by", "+ banks")
# Data set: val classes, novel classes, rows per class. Backbone: features.
_DATA = {"mini": (16, 20, 600), "cifarfs": (16, 20, 600), "tiered": (97, 160, 1280)}
_BACKBONES = {
    "resnet10": 512, "resnet18": 512, "resnet34": 512, "resnet50": 2048, "resnet101": 2048,
    "densenet121": 1024, "mobilenet84": 1024, "wrn28-10": 640,
}  # fmt: skip


def project(cluster: dict[str, float], store_s: float, quick: bool) -> dict[str, Any]:
    """Project the presets that the paper counts, on banks of its shapes.

    Times of cells come from a trial of every shape, trained and scored here. Compute divides by the
    workers; the scheduler and the one writer take every cell in turn; the longest cell comes last.
    Banks that workers cannot see travel to each from one place, which comes on top; ``saturation``
    is the number of workers at which each part takes as long as the compute.
    """
    presets = COUNTED[:2] if quick else COUNTED
    totals = [preset_cost(name) for name in presets]
    total = {key: sum(one[key] for one in totals) for key in ("classifiers", "cells", "core_s")}
    longest = max(one["longest_s"] for one in totals)
    megabytes = sum(_bank_megabytes(name) for name in _paper_banks(presets))
    lines = [_line(workers, total, longest, megabytes, cluster, store_s) for workers in WORKERS]
    return {
        "presets": dict(zip(presets, totals, strict=True)),
        **total,
        "longest_cell_s": longest,
        "bank_megabytes": megabytes,
        "store_s_per_cell": store_s,
        "workers": lines,
        "saturation": _saturation(total, megabytes, cluster, store_s),
    }


def _saturation(
    total: dict[str, float], megabytes: float, cluster: dict[str, float], store_s: float
) -> dict[str, int]:
    """Return the number of workers at which each part takes as long as the compute."""
    per_cell = total["core_s"] / total["cells"]
    return {
        "banks": int((total["core_s"] / (megabytes * cluster["megabyte_s"])) ** 0.5),
        "scheduler": int(per_cell / cluster["cell_s"]),
        "writer": int(per_cell / store_s),
    }


def _line(
    workers: int,
    total: dict[str, float],
    longest: float,
    megabytes: float,
    cluster: dict[str, float],
    store_s: float,
) -> dict[str, Any]:
    parts = {
        "compute": total["core_s"] / workers,
        "scheduler": total["cells"] * cluster["cell_s"],
        "writer": total["cells"] * store_s,
        "longest cell": longest,
    }
    return {
        "workers": workers,
        **{f"{name.replace(' ', '_')}_s": value for name, value in parts.items()},
        "seconds": max(parts.values()),
        "banks_s": megabytes * cluster["megabyte_s"] * workers,
        "bound_by": max(parts, key=lambda name: parts[name]),
    }


def _paper_banks(presets: Sequence[str]) -> list[str]:
    from firthshot.experiments.spec.reading import load_spec

    listed = [bank for name in presets for bank in load_spec(name).paper_banks]
    return list(dict.fromkeys(listed))


@cache
def preset_cost(name: str) -> dict[str, Any]:
    """Return classifiers, cells and seconds of one core of a preset on banks of the paper's shapes.

    One trial of every shape is trained and scored here, and stands for the published number.
    """
    from firthshot.experiments.plan.estimate import count_classifiers

    plan = published_plan(name)
    seconds = _trial_seconds(plan.settings)
    return {
        "classifiers": count_classifiers(plan.cells),
        "cells": len(plan.cells),
        "core_s": plan.trials * sum(seconds),
        "longest_s": max(s.block * each for s, each in zip(plan.settings, seconds, strict=True)),
    }


def published_plan(name: str) -> Plan:
    """Return the plan of a preset on all banks of the paper."""
    from firthshot.experiments.plan.layout import make_plan
    from firthshot.experiments.spec.reading import load_spec

    spec = load_spec(name, {"references": False, "theory": False})
    return make_plan(spec, [stand_in(bank, spec.transform) for bank in spec.paper_banks])


def _trial_seconds(settings: Sequence[Setting]) -> list[float]:
    """Return the processor seconds of a trial of each setting; equal shapes are measured once."""
    found: dict[str, float] = {}
    for setting in settings:
        key = f"{setting.method} {setting.shape}"
        if key not in found:
            small = setting.shape._replace(N=10, Q=20, d=32, K=5)
            _processor_seconds(setting.method, small, 1)  # compiles
            trials = max(1, int(_MEASURED_SECONDS / trial_seconds(setting.method, setting.shape)))
            found[key] = _processor_seconds(setting.method, setting.shape, trials)
    return [found[f"{setting.method} {setting.shape}"] for setting in settings]


def _processor_seconds(method: Method, shape: TrialShape, trials: int) -> float:
    """Return the processor seconds of a trial of this shape, on one thread and made-up features."""
    from firthshot.banks import make_bank
    from firthshot.engine import train
    from firthshot.episodes import sample_episodes

    each = (shape.N + shape.Q) // shape.K
    features = np.random.default_rng(0).random((shape.K * each, shape.d), np.float32)
    bank = make_bank(
        features, np.repeat(np.arange(shape.K), each), name="made up",
        classes=[f"class {c}" for c in range(shape.K)], class_splits=["novel"] * shape.K,
    )  # fmt: skip
    episodes = sample_episodes(
        bank, "novel", ways=shape.K, shots=shape.N // shape.K, trials=trials,
        queries=shape.Q // shape.K,
    )  # fmt: skip
    penalty = method.penalty(method.coefficients)
    start = time.process_time()
    head, solver = method.engine_head(), method.engine_solver()
    train(features, episodes, head, solver, penalty, threads=1, memory=_MEMORY)
    return (time.process_time() - start) / trials


def stand_in(name: str, transform: str = "none") -> Bank:
    """Return a bank of the paper's shape whose features take no memory (they are all one zero)."""
    from firthshot.banks import Bank, BankMeta

    dataset, _, backbone = name.partition("-")
    val, novel, rows = _DATA[dataset]
    splits: Any = ["base"] * (transform == "centre-l2") + ["val"] * val + ["novel"] * novel
    classes = [f"class {c}" for c in range(len(splits))]
    meta = BankMeta(name=name, classes=classes, class_splits=splits, sha256="0" * 64)
    labels = np.repeat(np.arange(len(splits)), rows)
    shape = (len(labels), _BACKBONES[backbone])
    return Bank(None, meta, np.broadcast_to(np.float16(0), shape), labels)


def _bank_megabytes(name: str) -> float:
    rows, d = stand_in(name).features.shape
    return float(2 * rows * d / 1e6)


def show_projection(extra: dict[str, Any], console: Console) -> None:
    """Print the cluster's figures and the projection."""
    from firthshot.progress import duration

    cluster, found = extra["cluster"], extra["projection"]
    console.print(
        f"Dask: {1000 * cluster['cell_s']:.1f} ms per cell, {1 / cluster['megabyte_s']:.0f} MB/s "
        f"per bank and worker; writing a cell {1000 * found['store_s_per_cell']:.0f} ms. Of "
        f"what the paper counts to its {PAPER_COUNT / 1e6:g} million classifiers, by its plan: "
        f"{found['classifiers']:,} in {found['cells']:,} cells, {duration(found['core_s'])} of one "
        "core, longest cell "
        f"{duration(found['longest_cell_s'])}, {found['bank_megabytes'] / 1000:.1f} GB of banks.",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    names = ("compute", "scheduler", "writer")
    rows = [
        (
            f"{line['workers']:,}",
            duration(line["seconds"]),
            *(duration(line[f"{name}_s"]) for name in names),
            line["bound_by"],
            duration(line["banks_s"]),
        )
        for line in found["workers"]
    ]
    title = f"{found['classifiers']:,} classifiers"
    console.print(make_table(title, (*COLUMNS[:2], *names, *COLUMNS[2:]), rows))
    first = sorted(found["saturation"].items(), key=lambda pair: pair[1])
    console.print(
        "As long as the compute takes: "
        + ", ".join(f"{name} at {workers:,} workers" for name, workers in first)
        + ".",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
