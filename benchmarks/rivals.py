"""The methods of easy-few-shot-learning here and there, on the same trials, one thread each.

Theirs is its own loop: for every task a classifier on ready features, ``process_support_set`` and a
call with the queries. Ours is `firthshot.engine.train`, which also gathers the rows and scores the
predictions. Sampling is done before on either side. Both see rows of unit length, or PT-MAP's
roots.

The package imports backbones that need torchvision, which would replace a CPU build of torch; its
methods do not need them, and are imported past its ``__init__``
(``pip install --no-deps easyfsl``).
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common import (
    OtherWork,
    Record,
    Report,
    Say,
    describe_machine,
    digits,
    machine_line,
    make_table,
    require_torch,
)
from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from rich.console import Console

    from firthshot.episodes import Episodes

BANK, QUERIES, GOAL = "clinc150-minilm", 15, 20.0
# Our head, their module and class, their settings.
METHODS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "simpleshot-l2n": (
        "prototypical_networks",
        "PrototypicalNetworks",
        {"feature_normalization": 2.0},
    ),
    "bd-cspn": ("bd_cspn", "BDCSPN", {"feature_normalization": 2.0}),
    "laplacian-shot": ("laplacian_shot", "LaplacianShot", {"feature_normalization": 2.0}),
    "pt-map": ("pt_map", "PTMAP", {}),
    "tim-gd": ("tim", "TIM", {"feature_normalization": 2.0, "fine_tuning_steps": 100}),
}


def is_installed() -> bool:
    """Tell whether easy-few-shot-learning is there."""
    return importlib.util.find_spec("easyfsl") is not None


def easy_method(module: str, name: str) -> Any:
    """Return a class of one of its methods."""
    found = importlib.util.find_spec("easyfsl")
    if found is None or not found.submodule_search_locations:
        raise FirthshotError(
            "The bench needs easy-few-shot-learning: pip install --no-deps easyfsl."
        )
    if "easyfsl.methods" not in sys.modules:
        shell = ModuleType("easyfsl.methods")
        shell.__path__ = [str(Path(found.submodule_search_locations[0]) / "methods")]
        sys.modules["easyfsl.methods"] = shell
    return getattr(importlib.import_module(f"easyfsl.methods.{module}"), name)


def run(*, quick: bool = False, say: Say = print) -> Report:
    """Time every method that both have, at 5 and 20 ways and 1 and 5 shots."""
    require_torch("The bench of rivals")
    from firthshot.banks import load_bank
    from firthshot.episodes import sample_episodes

    machine, others, bank = describe_machine(1), OtherWork(), load_bank(BANK)
    features = np.abs(bank.features.astype(np.float32))  # roots need no sign then
    records = []
    for ways, shots in ((5, 1),) if quick else ((5, 1), (5, 5), (20, 1), (20, 5)):
        trials = 20 if quick else 60
        episodes = sample_episodes(
            bank, "novel", ways=ways, shots=shots, trials=trials, queries=QUERIES
        )
        for head in METHODS:
            say(f"{head}, {ways} ways, {shots} shots")
            records.append({"case": f"{head}, {ways}-way {shots}-shot"} | compare(
                head, features, episodes))  # fmt: skip
    return Report(machine, records, {"goal": GOAL, "share_of_others": others.share()})


def compare(head: str, features: np.ndarray, episodes: Episodes) -> Record:
    """Time both sides on the same trials, after one trial of each to load what they need."""
    from firthshot.engine import Converged, Penalty, registered_heads, train

    kind = registered_heads()[head]
    first = episodes[0]

    def ours() -> Any:
        return train(
            features, episodes, kind(), Converged(), Penalty(), threads=1, keep=("predictions",)
        )

    ours()
    start = perf_counter()
    found = ours()
    own = (perf_counter() - start) / len(episodes)
    their_predictions(head, features, first)
    start = perf_counter()
    tasks = [episodes[number] for number in range(len(episodes))]
    theirs = [their_predictions(head, features, task) for task in tasks]
    plain = (perf_counter() - start) / len(episodes)
    pairs = zip(found.kept["predictions"], theirs, strict=True)
    same = float(np.mean([np.mean(mine[0] == their) for mine, their in pairs]))
    return {"ours_ms": 1e3 * own, "theirs_ms": 1e3 * plain, "same": same, "ratio": plain / own}


def their_predictions(head: str, features: np.ndarray, episode: Any) -> np.ndarray:
    """Return what easy-few-shot-learning predicts for the queries of a trial."""
    import torch

    torch.set_num_threads(1)
    module, name, settings = METHODS[head]
    rows = [features[of] for of in (episode.support, episode.query)]
    if head == "pt-map":  # its power transform of these gives unit roots
        rows = [X / np.linalg.norm(np.sqrt(X), axis=1, keepdims=True) ** 2 for X in rows]
    classifier = easy_method(module, name)(**settings)
    classifier.process_support_set(
        torch.as_tensor(rows[0]), torch.as_tensor(episode.support_labels)
    )
    return np.asarray(classifier(torch.as_tensor(rows[1])).argmax(1).numpy())


def show(report: Report, console: Console) -> None:
    """Print the table."""
    rows = [
        (
            one["case"],
            digits(one["ours_ms"]),
            digits(one["theirs_ms"]),
            digits(one["ratio"]),
            f"{100 * one['same']:.1f} %",
        )
        for one in report.records
    ]
    columns = ("case", "ours, ms", "theirs, ms", "ratio", "same predictions")
    console.print(make_table("easy-few-shot-learning, ms a task", columns, rows))
    mean = report.geomean_ratio or float("nan")
    console.print(f"geometric mean {mean:.2f}× (goal {GOAL:g}×)")
    console.print(machine_line(report.machine))
