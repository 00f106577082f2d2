"""The methods of easy-few-shot-learning here and there, on the same trials, one thread each.

Theirs is its own loop: for every task a classifier on ready features, ``process_support_set`` and a
call with the queries. Ours is `firthshot.engine.train`, which also gathers the rows and scores the
predictions. Sampling is done before on either side. Both see rows of unit length, or PT-MAP's
roots, and TIM has the settings of theirs on either side. The sides take turns, and the quickest
turn of each counts, in processor time: other work on the machine then changes little.

The package imports backbones that need torchvision, which would replace a CPU build of torch; its
methods do not need them, and are imported past its ``__init__``
(``pip install --no-deps easyfsl``).
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
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
    "tim-gd": ("tim", "TIM", {"feature_normalization": 2.0}),
}
# Where our defaults are the paper's and theirs are not.
OPTIONS: dict[str, dict[str, Any]] = {
    "tim-gd": {"temperature": 10, "ce": 1, "alpha": 0.1, "steps": 50, "rate": 1e-4, "cosine": True}
}
TURNS = 3


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
    """Time both sides on the same trials, in turns, after one turn to load what they need."""
    from firthshot.engine import Converged, Penalty, registered_heads, train

    kind = registered_heads()[head](**OPTIONS.get(head, {}))
    tasks = [episodes[number] for number in range(len(episodes))]

    def ours() -> list[np.ndarray]:
        found = train(features, episodes, kind, Converged(), Penalty(), threads=1,
                      keep=("predictions",))  # fmt: skip
        return [each[0] for each in found.kept["predictions"]]

    def theirs() -> list[np.ndarray]:
        return [their_predictions(head, features, task) for task in tasks]

    pairs = zip(ours(), theirs(), strict=True)
    same = float(np.mean([np.mean(mine == their) for mine, their in pairs]))
    turns = [(seconds(ours), seconds(theirs)) for _ in range(TURNS)]
    own, plain = (1e3 * min(side) / len(tasks) for side in zip(*turns, strict=True))
    return {"ours_ms": own, "theirs_ms": plain, "same": same, "ratio": plain / own}


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    start = process_time()
    work()
    return process_time() - start


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
    slowest = min(one["ratio"] for one in report.records)
    console.print(f"geometric mean {mean:.2f}× (goal {GOAL:g}×), least {slowest:.2f}×")
    console.print(machine_line(report.machine))
