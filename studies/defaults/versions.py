"""Compare the shipped heads of two versions of the package on the same trials.

python studies/defaults/versions.py score FILE       scores the package that is installed
python studies/defaults/versions.py compare OLD NEW  prints the paired differences of two such files
python studies/defaults/versions.py tolerance        prints what a looser tol changes
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from firthshot.arrays import Array

BANKS = ("clinc150-minilm", "mini-resnet10", "cub-resnet10")
SIZES = ((5, 1), (5, 5), (5, 20), (20, 1), (20, 5), (20, 20))  # ways and shots
TRIALS, QUERIES, BINS = 30, 10, 15
HEADS = ("FirthClassifier", "FirthCosineClassifier")
SCORES = ("accuracy", "nll", "ece")
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6)
KEY = ("head", "bank", "ways", "shots", "trial")


Trial = tuple[str, int, int, int, Array, Array, Array, Array]


def trials(number: int) -> Iterator[Trial]:
    """Yield bank, ways, shots, trial, rows, labels, new rows and their labels."""
    from firthshot import load_bank, sample_episodes

    for name in BANKS:
        bank = load_bank(name)
        for ways, shots in SIZES:
            if ways > len(bank.classes("val")):
                continue
            episodes = sample_episodes(
                bank, "val", ways=ways, shots=shots, trials=number, queries=QUERIES
            )
            for trial in range(number):
                one = episodes[trial]
                X, new = (np.asarray(bank.features[rows], np.float32)
                          for rows in (one.support, one.query))  # fmt: skip
                yield name, ways, shots, trial, X, one.support_labels, new, one.query_labels


def score(path: Path) -> None:
    """Write accuracy, nll and ECE of every trial."""
    import firthshot

    rows = []
    for *key, X, labels, new, new_labels in trials(TRIALS):
        for head in HEADS:
            model = getattr(firthshot, head)().fit(X, labels)
            rows.append((head, *key, *_scores(model.predict_proba(new), new_labels)))
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([(*KEY, *SCORES), *rows])


def tolerance() -> None:
    """Print what a looser tol changes, against 1e-10, at the same temperature."""
    import firthshot

    changes: dict[float, list[Array]] = {tol: [] for tol in TOLERANCES}
    for *_, X, labels, new, new_labels in trials(2):
        for head in HEADS:
            best = getattr(firthshot, head)(tol=1e-10).fit(X, labels)
            p = best.predict_proba(new)
            for tol, found in changes.items():
                model = getattr(firthshot, head)(tol=tol).fit(X, labels)
                model.temperature_ = best.temperature_
                q = model.predict_proba(new)
                by = np.subtract(_scores(q, new_labels), _scores(p, new_labels))
                found.append(np.abs([*by[:2], np.abs(q - p).max()]))
    print(
        "| tol | accuracy, largest change | nll, largest change | a probability, largest change |"
    )
    print("|---|---:|---:|---:|")
    for tol, found in changes.items():
        print(f"| {tol:g} | {' | '.join(f'{value:.1e}' for value in np.max(found, axis=0))} |")


def _scores(p: Array, labels: Array) -> tuple[float, float, float]:
    right, sure = p.argmax(axis=1) == labels, p.max(axis=1)
    nll = -np.log(np.maximum(p[np.arange(len(labels)), labels], 1e-12)).mean()
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = np.bincount(place, right - sure, minlength=BINS)
    return float(right.mean()), float(nll), float(np.abs(gaps).sum() / len(labels))


def compare(old: Path, new: Path) -> None:
    """Print a Markdown table of mean scores and paired differences with 95 % intervals."""
    before, after = _read(old), _read(new)
    print("| head, ways x shots | accuracy, new | change | nll, new | change | ECE, new | change |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for head in HEADS:
        for ways, shots in SIZES:
            keys = [key for key in before if (key[0], key[2], key[3]) == (head, ways, shots)]
            values = np.array([after[key] for key in keys])
            change = values - np.array([before[key] for key in keys])
            half = 1.96 * change.std(axis=0, ddof=1) / np.sqrt(len(keys))
            cells = [
                f"{mean:.4f} | {by:+.4f} ± {width:.4f}"
                for mean, by, width in zip(values.mean(0), change.mean(0), half, strict=True)
            ]
            print(f"| {head}, {ways} x {shots} | {' | '.join(cells)} |")


def _read(path: Path) -> dict[tuple[str, str, int, int, int], tuple[float, ...]]:
    with path.open() as file:
        return {
            (row["head"], row["bank"], int(row["ways"]), int(row["shots"]), int(row["trial"])):
                tuple(float(row[name]) for name in SCORES)
            for row in csv.DictReader(file)
        }  # fmt: skip


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["score", file]:
            score(Path(file))
        case ["compare", first, second]:
            compare(Path(first), Path(second))
        case ["tolerance"]:
            tolerance()
        case _:
            raise SystemExit(__doc__)
