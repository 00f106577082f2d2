"""``firthshot demo``: the main job on the embedded bank, small enough for a first minute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firthshot.engine import Results

COEFFICIENTS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
WAYS, SHOTS, TRIALS = 20, 5, 200


def demo() -> None:
    """Train heads on few-shot trials of the embedded bank and show what Firth's penalty changes."""
    from rich.console import Console

    from firthshot.banks import load_bank
    from firthshot.engine import Cosine, Linear

    console = Console()
    bank = load_bank("clinc150-minilm")
    console.print(
        f"{bank.name}: {len(bank.labels):,} sentences, {WAYS}-way {SHOTS}-shot, "
        f"{TRIALS} matched trials, classes never seen by any choice."
    )
    for head in (Linear(), Cosine()):
        results = _train(bank, head)
        console.print(_table(head.name, results))
    console.print(
        "Improvement: mean over trials of the difference to λ = 0, ± 1.96 standard errors."
    )


def _train(bank: Any, head: Any) -> Results:
    from firthshot.engine import Cosine, Penalty, paper_sgd, train
    from firthshot.episodes import sample_episodes

    episodes = sample_episodes(bank, "novel", ways=WAYS, shots=SHOTS, trials=TRIALS, queries=15)
    decay = 0.001 if isinstance(head, Cosine) else 0.0
    penalty = Penalty("firth", COEFFICIENTS, l2=decay, l2_kind="weight-decay")
    return train(bank.features, episodes, head, paper_sgd(head, SHOTS), penalty)


def _table(head: str, results: Results) -> Any:
    from rich.table import Table

    table = Table("λ", "accuracy %", "improvement", "nll", "ECE", title=f"{head} head")
    gains = 100 * (results.accuracy - results.accuracy[:, :1])
    errors = 1.96 * gains.std(axis=0, ddof=1) / len(gains) ** 0.5
    for l, coefficient in enumerate(results.coefficients):
        change = f"{gains[:, l].mean():+.2f} ± {errors[l]:.2f}" if l else "baseline"
        scores = (f"{scores[:, l].mean():.3f}" for scores in (results.nll, results.ece))
        table.add_row(
            f"{coefficient:g}", f"{100 * results.accuracy[:, l].mean():.2f}", change, *scores
        )
    return table
