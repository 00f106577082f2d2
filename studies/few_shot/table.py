"""From scores of trials to the table: regret, log-loss, and the bars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from studies.few_shot.rivals import MORE, NINE
from studies.few_shot.sources import KEPT_OUT, TABLES

# Group of settings: bar on the mean regret, and on every setting, in points.
BARS = {"equal shots": (0.0, 0.5), "unequal shots": (-2.0, 0.0), "tables": (0.5, 3.0)}
LOWEST_SHARE, ABOVE_LOWEST = 0.9, 0.03


@dataclass(frozen=True)
class Line:
    """One setting: accuracies in per cent, regret in points with half of its 95 % interval.

    ``ahead`` is the regret to the rival that is best on the other half of the trials: picking the
    best of nine on the trials that score it favours the rivals, the more, the fewer trials.
    """

    source: str
    setting: str
    trials: int
    ours: float
    best: float
    rival: str
    regret: float
    half: float
    ahead: float
    log_loss: float
    lowest: float
    teller: str

    @property
    def group(self) -> str:
        """Name the group of settings whose bars apply."""
        if self.source in TABLES:
            return "tables"
        return "equal shots" if self.setting.split("x", 1)[1].isdigit() else "unequal shots"


def lines(folder: Path) -> Iterator[Line]:
    """Yield every setting of which both ours and the rivals have trials."""
    names = list(NINE | MORE)
    for path in sorted((folder / "ours").glob("*.npy")):
        theirs = folder / "rivals" / path.name
        if not theirs.exists():
            continue
        ours, rivals = np.load(path)[:, 0], np.load(theirs)
        n = min(len(ours), len(rivals))
        ours, rivals = ours[:n], rivals[:n]
        mean = rivals.mean(axis=0)
        best = int(np.nanargmax(mean[: len(NINE), 0]))
        lowest = int(np.nanargmin(mean[:, 1]))
        regret = 100 * (rivals[:, best, 0] - ours[:, 0])
        source, setting = path.stem.rsplit("_", 1)
        yield Line(
            source,
            setting,
            n,
            100 * float(ours[:, 0].mean()),
            100 * float(mean[best, 0]),
            names[best],
            float(regret.mean()),
            1.96 * float(regret.std(ddof=1)) / np.sqrt(n) if n > 1 else np.inf,
            100 * _to_rival_chosen_elsewhere(rivals[:, : len(NINE), 0], ours[:, 0]),
            float(ours[:, 1].mean()),
            float(mean[lowest, 1]),
            names[lowest],
        )


def _to_rival_chosen_elsewhere(rivals: np.ndarray, ours: np.ndarray) -> float:
    """Return the mean regret to the best rival of the other half: of even and odd trials."""
    if len(ours) < 2:
        return float("nan")
    found = []
    for first in (0, 1):
        best = int(np.nanargmax(rivals[1 - first :: 2].mean(axis=0)))
        found.append(float((rivals[first::2, best] - ours[first::2]).mean()))
    return float(np.mean(found))


def write_table(folder: Path) -> str:
    """Return the verdict on every bar, then one line a setting, in Markdown."""
    found = list(lines(folder))
    head = (
        "| source | setting | trials | ours | best of nine | regret | log-loss | lowest other |\n"
        "|---|---|---:|---:|---|---:|---:|---|\n"
    )
    return "\n".join([*_verdicts(found), "", head + "\n".join(map(_row, found))])


def _row(line: Line) -> str:
    mark = " (kept out)" if line.source in KEPT_OUT else ""
    return (
        f"| {line.source}{mark} | {line.setting} | {line.trials} | {line.ours:.1f} | "
        f"{line.best:.1f} {line.rival} | {line.regret:+.1f} ± {line.half:.1f} | "
        f"{line.log_loss:.3f} | {line.lowest:.3f} {line.teller} |"
    )


def _verdicts(found: list[Line]) -> Iterator[str]:
    for group, (mean_bar, each_bar) in BARS.items():
        yield _verdict(group, [line for line in found if line.group == group], mean_bar, each_bar)
        kept = [line for line in found if line.group == group and line.source in KEPT_OUT]
        yield _verdict(f"{group}, kept out", kept, mean_bar, each_bar)
    above = np.array([line.log_loss - line.lowest for line in found])
    if len(above):
        yield (
            f"- log-loss: lowest in {100 * (above <= 0).mean():.0f} % of {len(above)} settings "
            f"(bar {100 * LOWEST_SHARE:.0f} %), at most {above.max():+.3f} above the lowest "
            f"(bar {ABOVE_LOWEST}), more than the bar in {(above > ABOVE_LOWEST).sum()}."
        )


def _counted(lines: list[Line]) -> str:
    return f"{len(lines)} setting{'s' * (len(lines) != 1)}"


def _verdict(name: str, lines: list[Line], mean_bar: float, each_bar: float) -> str:
    if not lines:
        return f"- {name}: no setting has been run."
    regret = np.array([line.regret for line in lines])
    out = [line for line in lines if line.regret - line.half > each_bar]
    worst = lines[int(regret.argmax())]
    trials = [line.trials for line in lines]
    ahead = np.array([line.ahead for line in lines])
    return (
        f"- {name}: {_counted(lines)} of {min(trials)} to {max(trials)} trials; mean regret "
        f"{regret.mean():+.2f} (bar {mean_bar:+.1f}), and {ahead.mean():+.2f} to the rival that is "
        f"best on the other half of the trials; {_counted(out)} beyond {each_bar:+.1f} "
        f"with the interval; worst {worst.regret:+.1f} ± {worst.half:.1f} "
        f"({worst.source} {worst.setting})."
    )
