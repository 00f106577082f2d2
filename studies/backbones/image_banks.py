r"""Build the image banks of ``banks/`` from pictures and checkpoints.

    python -m studies.backbones.image_banks --mini MINI --cub CUB --cifar CIFAR \
        --resnet10 RUN --wrn16-2 RUN --out banks

MINI, CUB and CIFAR are folders of class folders (alone, or under train and val or test) with the
100 classes of mini-ImageNet, the 200 of CUB-200-2011 and the 100 of CIFAR-100. The runs are folders
of ``firthshot backbone train`` or their checkpoints. What is not given is not built. An interrupted
build goes on where it stopped; a bank that exists is kept unless ``--again`` is given.

Which rows: the first of each class by file name, 150 for val and novel. Base classes have 100 rows
for mini-ImageNet and CIFAR-FS by the WideResNet, 20 for CUB, and none for EfficientNet-Lite0, whose
rows are the longest: all banks together stay below 50 MB. Base rows that are also in val or novel
classes, as some pictures of CIFAR-100 are, are dropped.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from firthshot.backbones.datasets import open_dataset
from firthshot.backbones.encoders import load_encoder
from firthshot.backbones.extract import extract
from firthshot.banks import Bank, diagnose, load_bank, save_bank
from firthshot.cli._progress import ScreenProgress
from firthshot.cli._screen import screen
from firthshot.engine.baseline import SHOTS, baseline_accuracies
from firthshot.experiments.statistics import half_width

LIMIT_MEGABYTES = 50
MINI_ROWS = {"base": 100, "val": 150, "novel": 150}
CUB_ROWS = {"base": 20, "val": 150, "novel": 150}  # CUB has 41 to 60 pictures per class
LONG_ROWS = {"base": 0, "val": 150, "novel": 150}
MINI = "features derived from mini-ImageNet (ImageNet: non-commercial research and education)"
CUB = "features derived from CUB-200-2011 (non-commercial research and education)"
CIFAR = "features derived from CIFAR-100 (no licence stated)"
FOREIGN = "The network was trained on mini-ImageNet's base classes: CUB is another domain to it."
UNFAIR = (
    "The network was trained on all of ImageNet, whose classes cover CIFAR's in part: not a "
    "backbone for claims about classes never seen."
)


@dataclass(frozen=True)
class Recipe:
    """What one bank is made of."""

    name: str
    pictures: str
    encoder: str
    rows: dict[str, int]
    licence: str
    size: int | None = None
    bn_train_sorted: bool = False
    notes: dict[str, str] = field(default_factory=dict)


RECIPES = (
    Recipe("mini-resnet10", "mini", "resnet10", MINI_ROWS, MINI),
    Recipe(
        "mini-resnet10-bn-train-sorted", "mini", "resnet10", MINI_ROWS, MINI, bn_train_sorted=True
    ),
    Recipe("cub-resnet10", "cub", "resnet10", CUB_ROWS, CUB, notes={"domain": FOREIGN}),
    Recipe(
        "cifarfs-efficientnet-lite0",
        "cifar",
        "efficientnet-lite0",
        LONG_ROWS,
        f"{CIFAR}; encoder Apache-2.0",
        size=128,
        notes={"caution": UNFAIR},
    ),
    Recipe("cifarfs-wrn16-2", "cifar", "wrn16_2", MINI_ROWS, CIFAR),
)


def build(recipe: Recipe, pictures: Path, encoder: str, out: Path) -> Bank:
    """Extract one bank, saying now and then how far it is."""
    data = open_dataset(pictures)
    data.notes.update(recipe.notes)
    bank = extract(
        data,
        load_encoder(encoder, size=recipe.size, resize=recipe.size),
        out,
        rows_per_class=recipe.rows,
        bn_train_sorted=recipe.bn_train_sorted,
        listener=ScreenProgress(screen()),
        licence=recipe.licence,
    )
    return without_shared_rows(bank, out)


def without_shared_rows(bank: Bank, path: Path) -> Bank:
    """Drop base rows that are also in val or novel: CIFAR-100 has some pictures in two classes."""
    held_out = {row.tobytes() for split in ("val", "novel") for row in bank.select(split)}
    features, base = np.asarray(bank.features), bank.rows("base") if "base" in bank.splits else ()
    shared = [row for row in base if features[row].tobytes() in held_out]
    if not shared:
        return bank
    keep = np.delete(np.arange(len(features)), shared)
    words = f"{len(shared)} base rows that are also in val or novel classes"
    meta = msgspec.structs.replace(bank.meta, notes={**bank.meta.notes, "rows dropped": words})
    return save_bank(path, features[keep], np.asarray(bank.labels)[keep], meta)


def report(bank: Bank) -> None:
    """Print size, findings of the doctor and the accuracy of the nearest class mean."""
    assert bank.path is not None
    print(f"  {bank}, {bank.path.stat().st_size / 1e6:.1f} MB")
    for finding in diagnose(bank):
        print(f"  {finding.severity} [{finding.code}] {finding.sentence}")
    for words, found in baseline_accuracies(bank).items():
        for shots, accuracy in zip(SHOTS, found, strict=True):
            mean, half = 100 * accuracy.mean(), 100 * half_width(accuracy)
            print(f"  nearest class mean, {words}, {shots}-shot: {mean:.1f} ± {half:.1f} %")


def main() -> None:
    """Build what is asked for and not there yet, and report on every bank."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    for source in ("mini", "cub", "cifar"):
        parser.add_argument(f"--{source}", type=Path, help="folder of pictures")
    for run in ("resnet10", "wrn16-2"):
        parser.add_argument(f"--{run}", help="folder of a training, or a checkpoint")
    parser.add_argument("--out", type=Path, default=Path("banks"), help="folder of the banks")
    parser.add_argument("--only", action="append", help="build this bank only; may be repeated")
    parser.add_argument("--again", action="store_true", help="build also what is there")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for recipe in RECIPES:
        path = given.out / f"{recipe.name}.bank"
        pictures = getattr(given, recipe.pictures)
        encoder = getattr(given, recipe.encoder, recipe.encoder)
        if given.only and recipe.name not in given.only:
            continue
        if path.exists() and not given.again:
            print(f"{recipe.name}: there already")
            report(load_bank(path))
        elif pictures is None or encoder is None:
            print(f"{recipe.name}: not built, --{recipe.pictures} or its network is not given")
        else:
            print(f"{recipe.name}:", flush=True)
            report(build(recipe, pictures, encoder, path))
    total = sum(path.stat().st_size for path in given.out.glob("*.bank")) / 1e6
    print(f"All banks: {total:.1f} MB of {LIMIT_MEGABYTES}.")
    if total > LIMIT_MEGABYTES:
        raise SystemExit("Error: the banks are too large together.")


if __name__ == "__main__":
    main()
