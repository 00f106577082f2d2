"""The doctor: what is wrong or suspicious about a bank, in plain words with the figure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from firthshot.banks._bank import Bank
from firthshot.banks._survey import Survey, centroid_accuracy, sound_rows, survey, telling_ratio
from firthshot.errors import BankError

Severity = Literal["broken", "remarkable"]
BN_SORTED = "bn-train-sorted"
_USUAL_ROWS = 16  # one shot and the usual fifteen queries
_NEAR_CHANCE = 0.1
_SCALE_RATIO = 100.0
_SPLIT_RATIO = 3.0
_WORDS = tomllib.loads(Path(__file__).with_name("doctor.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Finding:
    """State one thing that is wrong ("broken") or suspicious ("remarkable") about a bank.

    Attributes
    ----------
    code : str
        Stable short name of the check, such as "zero-rows".
    severity : {"broken", "remarkable"}
        Broken: results from this bank would be wrong. Remarkable: look before you trust it.
    sentence : str
        The finding in plain words.
    figure : float
        The number that shows it.
    """

    code: str
    severity: Severity
    sentence: str
    figure: float


def diagnose(bank: Bank) -> list[Finding]:
    """Examine a bank and return what is wrong or suspicious, the broken first.

    Rows with NaN or infinity and zero rows are reported and then left out of the other checks.
    """
    seen = survey(bank)
    findings = [
        *_digest(bank),
        *_values(bank, seen),
        *_class_sizes(bank),
        *_class_overlap(bank),
        *_constant_dimensions(seen),
        *_duplicates(bank, seen),
        *_scales(bank, seen),
        *_separability(bank, seen),
        *_singular_covariances(bank),
    ]
    return sorted(findings, key=lambda finding: finding.severity)


def refuse_not_finite(bank: Bank) -> None:
    """Refuse a bank with NaN or infinite values, in the words of the doctor."""
    for finding in _values(bank, survey(bank)):
        if finding.code == "not-finite":
            raise BankError(f"Bank {bank.name!r}: {finding.sentence} Mend it and import it again.")


def _found(code: str, figure: float, severity: Severity | None = None, **words: Any) -> Finding:
    """Return a finding in the words of ``doctor.toml``, as grave as there unless it is said."""
    about = _WORDS[code]
    return Finding(code, severity or about["severity"], about["sentence"].format(**words), figure)


def _digest(bank: Bank) -> Iterator[Finding]:
    try:
        bank.verify()
    except BankError as error:
        yield _found("sha256", 1, error=error)


def _values(bank: Bank, seen: Survey) -> Iterator[Finding]:
    bad, zero = np.flatnonzero(~seen.finite), np.flatnonzero(seen.norms == 0)
    if len(bad):
        values: dict[str, Any] = {
            "rows": len(seen.finite),
            "nans": seen.nans,
            "infinities": seen.infinities,
        }
        first = _owner(bank, bad[0])
        yield _found("not-finite", len(bad), count=len(bad), first=first, **values)
    if len(zero):
        yield _found("zero-rows", len(zero), count=len(zero), first=_owner(bank, zero[0]))


def _class_sizes(bank: Bank) -> Iterator[Finding]:
    for split in bank.splits:
        sizes = [len(rows) for rows in bank.class_rows(split)]
        smallest = min(sizes)
        if smallest >= _USUAL_ROWS:
            continue
        wanted = 2 if smallest < 2 else _USUAL_ROWS
        words: dict[str, Any] = {
            "split": split,
            "wanted": wanted,
            "purpose": "one shot and one query" if wanted == 2 else "one shot and 15 queries",
            "few": sum(size < wanted for size in sizes),
            "classes": len(sizes),
            "name": bank.classes(split)[sizes.index(smallest)],
            "smallest": smallest,
        }
        yield _found("few-rows", smallest, "broken" if wanted == 2 else None, **words)


def _class_overlap(bank: Bank) -> Iterator[Finding]:
    for split, other in combinations(bank.splits, 2):
        shared = [name for name in bank.classes(split) if name in set(bank.classes(other))]
        if shared:
            words: dict[str, Any] = {"split": split, "other": other, "first": shared[0]}
            yield _found("class-overlap", len(shared), count=len(shared), **words)


def _constant_dimensions(seen: Survey) -> Iterator[Finding]:
    constant, d = np.flatnonzero(seen.low == seen.high), len(seen.low)
    count = len(constant)
    if count:
        words: dict[str, Any] = {"first": constant[0], "value": seen.low[constant[0]] + 0.0}
        severity: Severity | None = "broken" if count == d else None
        yield _found("constant-dimensions", count, severity, count=count, d=d, **words)


def _duplicates(bank: Bank, seen: Survey) -> Iterator[Finding]:
    twins = _identical_rows(bank.features, np.flatnonzero(seen.sound))
    splits = np.array(bank.meta.class_splits)[bank.labels]
    for i, split in enumerate(bank.splits):
        inside = [own for group in twins if len(own := group[splits[group] == split]) > 1]
        if inside:
            count = sum(map(len, inside))
            ends = (_owner(bank, inside[0][at]) for at in (0, -1))
            words: dict[str, Any] = dict(zip(("first", "second"), ends, strict=True))
            yield _found("duplicates-inside", count, count=count, split=split, **words)
        for other in bank.splits[i + 1 :]:
            across = [group for group in twins if {split, other} <= set(splits[group].tolist())]
            if across:
                count = sum(int((splits[group] == split).sum()) for group in across)
                pair = (across[0][splits[across[0]] == one][0] for one in (split, other))
                owners = (_owner(bank, row) for row in pair)
                words = dict(zip(("first", "second"), owners, strict=True))
                words |= {"rows": "row is" if count == 1 else "rows are", "other": other}
                yield _found("duplicates-across", count, count=count, split=split, **words)


def _identical_rows(features: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
    """Return groups of identical rows, each ascending; rows are compared byte by byte."""
    width = features.dtype.itemsize * features.shape[1]
    keys = np.ascontiguousarray(features[rows]).view(np.dtype((np.void, width))).ravel()
    order = np.argsort(keys, kind="stable")
    same = keys[order][1:] == keys[order][:-1]
    runs = np.split(rows[order], np.flatnonzero(~same) + 1)
    return sorted((np.sort(run) for run in runs if len(run) > 1), key=lambda run: int(run[0]))


def _scales(bank: Bank, seen: Survey) -> Iterator[Finding]:
    moving = seen.deviations[seen.high > seen.low]
    ratio = float(moving.max() / np.median(moving)) if len(moving) else 1.0
    if ratio > _SCALE_RATIO:
        worst = int(np.argmax(np.where(seen.high > seen.low, seen.deviations, -1)))
        yield _found("dimension-scales", ratio, worst=worst, ratio=ratio)
    sound = {split: (rows := bank.rows(split))[seen.sound[rows]] for split in bank.splits}
    norms = {split: float(np.median(seen.norms[own])) for split, own in sound.items() if len(own)}
    if norms and max(norms.values()) > _SPLIT_RATIO * min(norms.values()):
        ratio = max(norms.values()) / min(norms.values())
        medians = ", ".join(f"{split} {norm:.3g}" for split, norm in norms.items())
        yield _found("split-scales", ratio, ratio=ratio, medians=medians)


def _separability(bank: Bank, seen: Survey) -> Iterator[Finding]:
    for split in bank.splits:
        X, y = sound_rows(bank, seen.sound, split)
        scored = centroid_accuracy(X, y)
        if scored is None:
            continue
        accuracy, ways = scored
        words = f"leave-one-out nearest centroid {accuracy:.1%}, chance {1 / ways:.1%}"
        centred = telling_ratio(X, y)
        if centred is not None and centred.centred:
            declared = bank.meta.extraction == BN_SORTED
            yield _found(
                "batchnorm-sorted",
                centred.ratio,
                "remarkable" if declared else None,
                split=split,
                block=centred.block,
                ratio=centred.ratio,
                words=words,
                way_out="as the bank declares" if declared else "extract again in eval mode",
            )
        elif (accuracy - 1 / ways) / (1 - 1 / ways) < _NEAR_CHANCE:
            yield _found("near-chance", accuracy, split=split, words=words)


def _singular_covariances(bank: Bank) -> Iterator[Finding]:
    """Say where Distribution Calibration meets base classes with no more rows than features."""
    d, sizes = bank.features.shape[1], []
    if "base" in bank.splits:
        sizes = [len(rows) for rows in bank.class_rows("base")]
    few = sum(size <= d for size in sizes)
    if few:
        words: dict[str, Any] = {"d": d, "few": few, "classes": len(sizes), "smallest": min(sizes)}
        yield _found("singular-covariance", min(sizes), **words)


def _owner(bank: Bank, row: int) -> str:
    return f"row {row}, class {bank.meta.classes[bank.labels[row]]!r}"
