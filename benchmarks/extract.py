"""Pictures to features: `firthshot backbone extract` against the plain loop of transformers.

The plain loop is that of transformers' documentation: open a batch of 64 pictures, call the image
processor, call the model, keep the pooled output. Both sides run in one process with the same
networks, threads and batches, one after the other and then in the other order; ours also reads the
folder, keeps finished chunks on disk and writes the bank. Networks have the shapes of published
ones and random weights, on which the time does not depend. Times are those of the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common import (
    OtherWork,
    Report,
    Say,
    describe_machine,
    digits,
    machine_line,
    make_table,
    require_torch,
)
from firthshot.backbones.extract import BATCH
from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from rich.console import Console

    from firthshot.backbones.datasets import Dataset
    from firthshot.backbones.encoders import Encoder

    Side = Callable[[], np.ndarray]

COUNTS = {"ResNet-18": 1000, "DINOv2-small": 100}  # pictures; a ViT is slow on a CPU
QUICK = {"ResNet-18": 100}
SIDE = 224


def run(quick: bool, say: Say, pictures: Path) -> Report:
    """Time both sides on the first pictures of a folder of class folders."""
    require_torch("The bench of extraction")
    import torch

    machine, others = describe_machine(torch.get_num_threads()), OtherWork()
    records = []
    with TemporaryDirectory() as place:
        for name, count in (QUICK if quick else COUNTS).items():
            data, folder = _pictures(pictures, count), Path(place, name)
            _save(name, folder)
            say(f"{name}: {count} pictures …")
            records.append({"case": name, "pictures": count, **_compare(data, folder)})
    return Report(machine, records, {"quick": quick, "other_work": others.share()})


def show(report: Report, console: Console) -> None:
    """Print the seconds of both sides."""
    rows = [
        [
            one["case"],
            str(one["pictures"]),
            digits(one["seconds"]),
            digits(one["plain_seconds"]),
            digits(one["ratio"]),
            f"{one['difference']:.1e}",
        ]
        for one in report.records
    ]
    columns = ["network", "pictures", "extract, s", "plain, s", "ratio", "difference"]
    console.print(machine_line(report.machine))
    console.print(f"{report.machine['threads']} threads of torch, best of two rounds.")
    console.print(
        make_table("backbone extract against the plain loop of transformers", columns, rows)
    )
    if (share := report.extra["other_work"]) is not None:
        console.print(f"Other programs used {100 * share:.0f} % of the cores.")


def _pictures(folder: Path, count: int) -> Dataset:
    """Return the data set cut to so many pictures, evenly from its classes."""
    from firthshot.backbones.datasets import open_dataset

    data = open_dataset(folder)
    rows = np.linspace(0, len(data) - 1, min(count, len(data))).astype(int)
    if len(rows) < count:
        raise FirthshotError(f"{folder} has {len(data)} pictures; give a folder of {count}.")
    kept = {"contents": [data.contents[row] for row in rows], "labels": data.labels[rows]}
    return replace(data, **kept, names=[data.names[row] for row in rows])


def _compare(data: Dataset, folder: Path) -> dict[str, Any]:
    """Return seconds of both sides, their ratio, and how far their features differ."""
    from firthshot.backbones.encoders import load_encoder

    encoder = load_encoder(folder, device="cpu")
    encoder.encode(data.contents[:BATCH])  # both sides begin warm
    sides: dict[str, Side] = {"ours": _ours(data, encoder, folder), "plain": _plain(data, folder)}
    found: dict[str, np.ndarray] = {}
    seconds: dict[str, list[float]] = {"ours": [], "plain": []}
    for name in ("plain", "ours", "ours", "plain"):
        start = perf_counter()
        found[name] = sides[name]()
        seconds[name].append(perf_counter() - start)
    ours, plain = min(seconds["ours"]), min(seconds["plain"])
    difference = float(np.abs(found["ours"] - found["plain"]).max())
    return {
        "seconds": ours,
        "plain_seconds": plain,
        "ratio": plain / ours,
        "difference": difference,
    }


def _ours(data: Dataset, encoder: Encoder, folder: Path) -> Side:
    from firthshot.backbones.extract import extract

    def side() -> np.ndarray:
        bank = extract(data, encoder, folder / "out.bank", dtype="float32")
        return np.array(bank.features)

    return side


def _plain(data: Dataset, folder: Path) -> Side:
    import torch
    from PIL import Image
    from transformers import AutoImageProcessor, AutoModel

    processor = AutoImageProcessor.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()

    def side() -> np.ndarray:
        parts = []
        for start in range(0, len(data), BATCH):
            paths = data.contents[start : start + BATCH]
            images = [Image.open(path).convert("RGB") for path in paths]
            with torch.inference_mode():
                output = model(**processor(images, return_tensors="pt"))
            parts.append(output.pooler_output.flatten(1).numpy())
        return np.concatenate(parts)

    return side


def _save(name: str, folder: Path) -> None:
    """Save a network of random weights with the processor of DINOv2 and ImageNet's ResNets."""
    from transformers import BitImageProcessorPil

    crop = {"height": SIDE, "width": SIDE}
    NETWORKS[name]().save_pretrained(folder)
    BitImageProcessorPil(size={"shortest_edge": 256}, crop_size=crop).save_pretrained(folder)


def _resnet() -> Any:
    from transformers import ResNetConfig, ResNetModel

    widths = {"hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2]}
    return ResNetModel(ResNetConfig(**widths, layer_type="basic"))


def _dinov2() -> Any:
    from transformers import Dinov2Config, Dinov2Model

    sizes = {"hidden_size": 384, "num_attention_heads": 6, "image_size": 518, "patch_size": 14}
    return Dinov2Model(Dinov2Config(**sizes))


NETWORKS: dict[str, Callable[[], Any]] = {"ResNet-18": _resnet, "DINOv2-small": _dinov2}
