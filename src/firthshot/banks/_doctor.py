"""The doctor: what is wrong or suspicious about a bank, in plain words with the figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

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


def _digest(bank: Bank) -> Iterator[Finding]:
    try:
        bank.verify()
    except BankError as error:
        yield Finding("sha256", "broken", str(error), 1)


def _values(bank: Bank, seen: Survey) -> Iterator[Finding]:
    bad = int((~seen.finite).sum())
    if bad:
        first = int(np.flatnonzero(~seen.finite)[0])
        yield Finding(
            "not-finite",
            "broken",
            f"Rows with NaN or infinite values: {bad} of {len(seen.finite)} ({seen.nans} NaN, "
            f"{seen.infinities} infinite; first: row {first}, {_owner(bank, first)}).",
            bad,
        )
    zero = np.flatnonzero(seen.norms == 0)
    if len(zero):
        yield Finding(
            "zero-rows",
            "broken",
            f"All-zero rows: {len(zero)} (first: row {zero[0]}, {_owner(bank, zero[0])}): "
            "failed extraction or padding; drop them and import again.",
            len(zero),
        )


def _class_sizes(bank: Bank) -> Iterator[Finding]:
    for split in bank.splits:
        sizes = [len(rows) for rows in bank.class_rows(split)]
        smallest = min(sizes)
        if smallest >= _USUAL_ROWS:
            continue
        severity: Severity = "broken" if smallest < 2 else "remarkable"
        wanted = 2 if smallest < 2 else _USUAL_ROWS
        few = sum(size < wanted for size in sizes)
        name = bank.classes(split)[sizes.index(smallest)]
        purpose = "one shot and one query" if wanted == 2 else "one shot and 15 queries"
        yield Finding(
            "few-rows",
            severity,
            f"Classes of split {split!r} with fewer than {wanted} rows, too few for {purpose}: "
            f"{few} of {len(sizes)} (smallest: {name!r} with {smallest}).",
            smallest,
        )


def _class_overlap(bank: Bank) -> Iterator[Finding]:
    for i, split in enumerate(bank.splits):
        for other in bank.splits[i + 1 :]:
            shared = [name for name in bank.classes(split) if name in set(bank.classes(other))]
            if shared:
                yield Finding(
                    "class-overlap",
                    "broken",
                    f"Classes in both {split!r} and {other!r}: {len(shared)} (first: "
                    f"{shared[0]!r}); few-shot splits must not share classes.",
                    len(shared),
                )


def _constant_dimensions(seen: Survey) -> Iterator[Finding]:
    constant = np.flatnonzero(seen.low == seen.high)
    if len(constant):
        d = len(seen.low)
        severity: Severity = "broken" if len(constant) == d else "remarkable"
        yield Finding(
            "constant-dimensions",
            severity,
            f"Dimensions with one value in every row: {len(constant)} of {d} (first: dimension "
            f"{constant[0]}, always {seen.low[constant[0]] + 0.0:g}); they carry nothing.",
            len(constant),
        )


def _duplicates(bank: Bank, seen: Survey) -> Iterator[Finding]:
    twins = _identical_rows(bank.features, np.flatnonzero(seen.sound))
    splits = np.array(bank.meta.class_splits)[bank.labels]
    for i, split in enumerate(bank.splits):
        inside = [own for group in twins if len(own := group[splits[group] == split]) > 1]
        if inside:
            count = sum(map(len, inside))
            said = f"{count} rows occur more than once inside split {split!r}"
            first = _first_twins(bank, inside[0][0], inside[0][-1])
            yield Finding("duplicates-inside", "remarkable", f"{said} ({first}).", count)
        for other in bank.splits[i + 1 :]:
            across = [group for group in twins if {split, other} <= set(splits[group].tolist())]
            if across:
                count = sum(int((splits[group] == split).sum()) for group in across)
                rows = "row is" if count == 1 else "rows are"
                said = f"{count} {rows} both in {split!r} and in {other!r}"
                pair = (across[0][splits[across[0]] == one][0] for one in (split, other))
                sentence = f"{said} ({_first_twins(bank, *pair)})."
                yield Finding("duplicates-across", "broken", sentence, count)


def _first_twins(bank: Bank, first: int, second: int) -> str:
    return f"first: row {first}, {_owner(bank, first)}, and row {second}, {_owner(bank, second)}"


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
        yield Finding(
            "dimension-scales",
            "remarkable",
            f"Dimension {worst} varies {ratio:.3g} times as much as the median dimension: it "
            "decides every distance; scale the features first.",
            ratio,
        )
    medians = {split: _median_norm(bank, seen, split) for split in bank.splits}
    known = {split: norm for split, norm in medians.items() if norm}
    if known and max(known.values()) > _SPLIT_RATIO * min(known.values()):
        ratio = max(known.values()) / min(known.values())
        words = ", ".join(f"{split} {norm:.3g}" for split, norm in known.items())
        yield Finding(
            "split-scales",
            "remarkable",
            f"Row norms differ {ratio:.3g}-fold between splits (medians: {words}): were all "
            "splits extracted and normalised in the same way?",
            ratio,
        )


def _median_norm(bank: Bank, seen: Survey, split: str) -> float | None:
    rows = bank.rows(split)
    norms = seen.norms[rows[seen.sound[rows]]]
    return float(np.median(norms)) if len(norms) else None


def _separability(bank: Bank, seen: Survey) -> Iterator[Finding]:
    for split in bank.splits:
        X, y = sound_rows(bank, seen.sound, split)
        scored = centroid_accuracy(X, y)
        if scored is None:
            continue
        accuracy, ways = scored
        words = f"leave-one-out nearest centroid {accuracy:.1%}, chance {1 / ways:.1%}"
        explained = list(_batch_centred(bank, split, X, y, words))
        if not explained and (accuracy - 1 / ways) / (1 - 1 / ways) < _NEAR_CHANCE:
            yield Finding(
                "near-chance",
                "remarkable",
                f"Split {split!r} is hardly separable ({words}): are labels and rows in step?",
                accuracy,
            )
        yield from explained


def _batch_centred(
    bank: Bank, split: str, X: np.ndarray, y: np.ndarray, words: str
) -> Iterator[Finding]:
    found = telling_ratio(X, y)
    if found is None or not found.centred:
        return
    declared = bank.meta.extraction == BN_SORTED
    way_out = "as the bank declares" if declared else "extract again in eval mode"
    yield Finding(
        "batchnorm-sorted",
        "remarkable" if declared else "broken",
        f"Split {split!r}: means of consecutive blocks of {found.block} rows vary only "
        f"{found.ratio:.2f} times as much as independent rows would: BatchNorm was left in "
        f"training mode over class-sorted batches ({words}); {way_out}.",
        found.ratio,
    )


def _singular_covariances(bank: Bank) -> Iterator[Finding]:
    """Say where Distribution Calibration meets base classes with no more rows than features."""
    if "base" not in bank.splits:
        return
    d, sizes = bank.features.shape[1], [len(rows) for rows in bank.class_rows("base")]
    few = sum(size <= d for size in sizes)
    if few:
        yield Finding(
            "singular-covariance",
            "remarkable",
            f"Base classes with no more rows than the {d} features: {few} of {len(sizes)} "
            f"(smallest: {min(sizes)} rows); their covariances are singular, and Distribution "
            "Calibration draws next to nothing in the directions they lack.",
            min(sizes),
        )


def _owner(bank: Bank, row: int) -> str:
    return f"class {bank.meta.classes[bank.labels[row]]!r}"
