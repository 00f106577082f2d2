"""How methods were trained, and whether runs that are taken together trained them alike.

The keys of a row name what was trained, not every setting of how. Within a run its spec settles
those; two runs may differ in them, and in the content of banks of one name.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec

from firthshot.engine import registered_heads
from firthshot.errors import FirthshotError
from firthshot.experiments.run.folder_spec import read_banks, show_value
from firthshot.experiments.schema import CLOSED_FORM, KEYS
from firthshot.experiments.spec.fields import Spec
from firthshot.experiments.spec.methods import head_options, solver_options
from firthshot.experiments.spec.reading import read_source
from firthshot.experiments.summary.reading import Index, Key, splits
from firthshot.experiments.summary.scores import label

Training = dict[str, Any]  # a setting, by the name that a spec has for it → its value


def read_trainings(index: Index) -> dict[Key, Training]:
    """Return how the method of each key was trained; nothing for a single run.

    Refused are runs with different banks of one name, or that trained one setting differently:
    their trials would be averaged as if they were of one experiment.
    """
    specs = _specs(index)
    if len(specs) < 2:
        return {}
    _refuse_other_banks(list(specs))
    found: dict[Key, Training] = {}
    for _, by_split in splits(index):  # λ is chosen on val for novel: both must be trained alike
        keys = [key for some in by_split.values() for key in some]
        told = list(_told(index, keys, specs))
        _refuse_two_trainings(told)
        found |= {key: training for key, _, training in told}
    return found


def training_of(spec: Spec, key: dict[str, Any]) -> Training:
    """Return every setting of a spec that decides the scores of a key, but is no part of it."""
    head, solver = key["head"], key["solver"]
    known = head in registered_heads()  # one's own head need not be, in another process
    training = head_options(spec, head) if known else {}
    if solver == CLOSED_FORM:
        return {**training, "first_classes": spec.first_classes}
    # Of a head that is not known, what the spec sets is all that is known.
    options = (
        solver_options(spec, head, key["shots"])
        if known
        else msgspec.to_builtins(getattr(spec, solver))
    )
    training |= {f"{solver}.{name}": value for name, value in options.items()}
    if spec.calibration is not None and key["artificial"]:
        drawn = spec.calibration
        training |= {"calibration.neighbours": drawn.neighbours, "calibration.alpha": drawn.alpha}
    return training | {"first_classes": spec.first_classes, "dtype": spec.dtype}


def differences(one: Training | None, other: Training | None) -> str:
    """Say in which settings two trainings differ; nothing where they are alike, or not known."""
    if one is None or other is None:
        return ""
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    pairs = ((name, show_value(one.get(name)), show_value(other.get(name))) for name in names)
    return "; ".join(f"{name} is {ours} and {theirs}" for name, ours, theirs in pairs)


def _specs(index: Index) -> dict[Path, Spec]:
    """Read the spec of each run folder; tables alone, without a spec, tell nothing."""
    folders = {part.parents[1]: None for parts in index.files.values() for part in parts}
    if len(folders) < 2:  # one run has one spec
        return {}
    return {folder: _spec(folder) for folder in folders if (folder / "spec.toml").is_file()}


def _spec(folder: Path) -> Spec:
    """Read a spec as it is: the heads and penalties of one's own need not be registered here."""
    fields, _ = read_source(folder)
    try:
        return msgspec.convert(fields, Spec)
    except msgspec.ValidationError as error:
        raise FirthshotError(
            f"{folder}/spec.toml is no spec of this version ({error}): report {folder} apart."
        ) from None


def _refuse_other_banks(folders: list[Path]) -> None:
    """Refuse two banks of one name: rows are told apart by the name."""
    seen: dict[str, tuple[Path, str]] = {}
    for folder in folders:
        for name, record in read_banks(folder).items():
            digest = record.get("sha256", "")
            first, known = seen.setdefault(name, (folder, digest))
            if digest != known:
                raise FirthshotError(
                    f"{first} and {folder} ran on different banks that are both called {name!r} "
                    f"(sha256 {known[:12]}… and {digest[:12]}…): report them apart, or import one "
                    "bank under another name and run on it again."
                )


def _told(
    index: Index, keys: list[Key], specs: dict[Path, Spec]
) -> Iterator[tuple[Key, Path, Training]]:
    for key in keys:
        for folder in sorted({part.parents[1] for part in index.files[key]} & specs.keys()):
            yield key, folder, training_of(specs[folder], dict(zip(KEYS, key, strict=True)))


def _refuse_two_trainings(told: list[tuple[Key, Path, Training]]) -> None:
    by_folder = {folder: (key, training) for key, folder, training in told}
    for (first, (key, ours)), (second, (_, theirs)) in combinations(by_folder.items(), 2):
        if said := differences(ours, theirs):
            raise FirthshotError(
                f"{first} and {second} trained {label(dict(zip(KEYS, key, strict=True)))} "
                f"differently ({said}), so that their trials cannot be taken together: report them "
                "apart, or run one again with the settings of the other."
            )
