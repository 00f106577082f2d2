"""The methods of easy-few-shot-learning here and there, as shipped and on one thread.

Theirs is its own loop as published: its sampler draws tasks, a ``DataLoader`` with its collate
function gathers their rows, and its ``evaluate`` calls the method and counts hits. Ours is
`firthshot.sample_episodes` and `firthshot.engine.train`, which draws tasks, gathers their rows and
scores predictions and probabilities. Both start from the same features in memory. A second ratio
compares with the calls of their method alone, on rows that were gathered before.

Both see rows of unit length, or PT-MAP's roots, and TIM has the settings of theirs on either side.
Predictions are compared on the same tasks. The sides take turns under two clocks:

* *as shipped*: every side with its default threads, by wall clock, the median of the turns. This is
  what a user waits for; other work on the machine changes it.
* *one thread*: processor time of one thread each, the quickest turn. This is what the work costs.

Both are printed. The file's ``ratio`` is that of one thread. A turn has as many tasks as theirs
does in about a third of a second, at most 64, and turns as shipped end after some seconds: where
other work holds torch's threads up, they take minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter, process_time
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
from benchmarks.easy_loop import easy_loop, easy_method

if TYPE_CHECKING:
    from rich.console import Console

    from firthshot.banks import Bank

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
TURNS, TASKS, FEWEST, QUICK = 3, 64, 4, 8
TURN, SHIPPED = 0.3, 4.0  # seconds of a turn of theirs, and of all turns as shipped
Clock = Callable[[], float]


def run(*, quick: bool = False, say: Say = print) -> Report:
    """Time every method that both have, at 5 and 20 ways and 1 and 5 shots."""
    require_torch("The bench of rivals")
    from firthshot.banks import load_bank

    machine, others, bank = describe_machine(1), OtherWork(), load_bank(BANK)
    features = np.abs(bank.features.astype(np.float32))  # roots need no sign then
    records = []
    for ways, shots in ((5, 1),) if quick else ((5, 1), (5, 5), (20, 1), (20, 5)):
        for head in METHODS:
            sizes = (ways, shots, QUERIES, QUICK if quick else TASKS)
            say(f"{head}, {ways} ways, {shots} shots")
            case = f"{head}, {ways}-way {shots}-shot"
            records.append({"case": case} | compare(head, bank, features, sizes))
    return Report(machine, records, {"goal": GOAL, "share_of_others": others.share()})


def compare(
    head: str, bank: Bank, features: np.ndarray, sizes: tuple[int, int, int, int]
) -> Record:
    """Time our loop, theirs and their calls alone in turns, after one turn to load what they need.

    ``sizes`` are ways, shots, queries of a class and the most tasks.
    """
    from firthshot.engine import Converged, Penalty, registered_heads, train
    from firthshot.episodes import sample_episodes

    kind = registered_heads()[head](**OPTIONS.get(head, {}))
    by_class = _by_class(head, bank, features)
    ways, shots, queries, most = sizes
    tasks = _tasks(head, by_class, sizes[:3], most)

    def sampled() -> Any:
        return sample_episodes(bank, "novel", ways=ways, shots=shots, trials=tasks, queries=queries)

    def ours(threads: int | None = 1) -> list[np.ndarray]:
        found = train(features, sampled(), kind, Converged(), Penalty(), threads=threads,
                      keep=("predictions",))  # fmt: skip
        return [each[0] for each in found.kept["predictions"]]

    ready = [their_rows(head, features, episode) for episode in sampled()]

    def calls() -> list[np.ndarray]:
        return [their_predictions(head, *rows) for rows in ready]

    loop = easy_loop(lambda: their_method(head), by_class, (ways, shots, queries, tasks))
    same = np.mean([np.mean(a == b) for a, b in zip(ours(), calls(), strict=True)])
    loop()
    with _torch_threads(1):
        turns = [
            [seconds(side, process_time) for side in (ours, loop, calls)] for _ in range(TURNS)
        ]
    own, theirs, alone = (1e3 * min(side) / tasks for side in zip(*turns, strict=True))
    waits = _waits(lambda: ours(None), loop)
    own_wait, their_wait = (1e3 * median(side) / tasks for side in zip(*waits, strict=True))
    return {
        "tasks": tasks, "ours_ms": own, "theirs_ms": theirs, "calls_ms": alone, "same": float(same),
        "ratio": theirs / own, "ratio_calls": alone / own,
        "ours_wall_ms": own_wait, "theirs_wall_ms": their_wait, "ratio_wall": their_wait / own_wait,
    }  # fmt: skip


def _tasks(head: str, rows: dict[str, np.ndarray], sizes: tuple[int, int, int], most: int) -> int:
    """Return how many tasks theirs does in a turn's time."""
    few = easy_loop(lambda: their_method(head), rows, (*sizes, FEWEST))
    with _torch_threads(1):
        few()
        each = seconds(few, process_time) / FEWEST
    return max(FEWEST, min(most, int(TURN / each)))


def _waits(*sides: Callable[[], object]) -> list[list[float]]:
    """Return what the sides take by the clock, turn by turn, at least one."""
    found: list[list[float]] = []
    start = perf_counter()
    while len(found) < TURNS and (not found or perf_counter() - start < SHIPPED):
        found.append([seconds(side, perf_counter) for side in sides])
    return found


@contextmanager
def _torch_threads(number: int) -> Iterator[None]:
    """Hold torch at so many threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _by_class(head: str, bank: Bank, features: np.ndarray) -> dict[str, np.ndarray]:
    """Return the rows of every novel class, as their method takes them."""
    rows = prepared(head, features)
    return {str(at): rows[own] for at, own in enumerate(bank.class_rows("novel"))}


def seconds(work: Callable[[], object], clock: Clock) -> float:
    """Return the time of a call by a clock."""
    start = clock()
    work()
    return clock() - start


def prepared(head: str, rows: np.ndarray) -> np.ndarray:
    """Return features as their method takes them: their power transform then gives unit roots."""
    if head != "pt-map":
        return rows
    return np.asarray(rows / np.linalg.norm(np.sqrt(rows), axis=1, keepdims=True) ** 2)


def their_method(head: str) -> Any:
    """Return easy-few-shot-learning's classifier on ready features."""
    module, name, settings = METHODS[head]
    return easy_method(module, name)(**settings)


def their_rows(head: str, features: np.ndarray, episode: Any) -> tuple[Any, Any, Any]:
    """Return support rows, their labels and query rows of a task as tensors."""
    import torch

    support, query = (prepared(head, features[of]) for of in (episode.support, episode.query))
    return tuple(map(torch.as_tensor, (support, episode.support_labels, query)))


def their_predictions(head: str, support: Any, labels: Any, query: Any) -> np.ndarray:
    """Return what easy-few-shot-learning predicts for the queries of a task."""
    classifier = their_method(head)
    classifier.process_support_set(support, labels)
    return np.asarray(classifier(query).argmax(1).numpy())


def show(report: Report, console: Console) -> None:
    """Print the table."""
    shown = ("ours_ms", "theirs_ms", "ratio", "ratio_wall")
    rows = [
        (
            one["case"].replace("-way ", " × ").removesuffix("-shot"),
            str(one["tasks"]),
            *(digits(one[name]) for name in shown),
            f"{100 * one['same']:.1f} %",
        )
        for one in report.records
    ]
    columns = ("ways × shots", "tasks", "ours", "theirs", "ratio", "shipped", "same")
    title = "easy-few-shot-learning: ms a task, and their loop's over ours"
    console.print(make_table(title, columns, rows))
    for name, words in (
        ("ratio", f"their loop, one thread each, processor time (goal {GOAL:g}×)"),
        ("ratio_wall", f"their loop, as shipped, wall clock (goal {GOAL:g}×)"),
        ("ratio_calls", "their calls alone, rows gathered before, one thread, processor time"),
    ):
        found = [one[name] for one in report.records]
        mean = np.exp(np.mean(np.log(found)))
        console.print(f"{words}: geometric mean {mean:.2f}×, least {min(found):.2f}×")
    console.print(machine_line(report.machine))
