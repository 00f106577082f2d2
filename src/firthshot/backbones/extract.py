"""From a data set and an encoder to a bank: in evaluation mode, resumable, the same every time.

The rows are cut into batches before anything is computed, and finished chunks of batches are kept
on disk: an interrupted extraction goes on where it stopped and ends with the same bits.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from firthshot import __version__
from firthshot.backbones.datasets import Dataset
from firthshot.backbones.encoders import Encoder, check_kind
from firthshot.backbones.encoders._base import fingerprint
from firthshot.backbones.images import PictureError
from firthshot.banks import SPLITS, Bank, save_bank
from firthshot.errors import FirthshotError, refusing
from firthshot.files import write_whole
from firthshot.progress import SILENT, ProgressListener

BATCH = 64
SORTED_BATCH = 32  # of the published extraction with batch statistics
BATCHES_PER_CHUNK = 16


@dataclass(frozen=True)
class ExtractPlan:
    """Which rows are encoded together, and which of them are kept."""

    batches: list[np.ndarray]  # rows of the data set
    kept: np.ndarray  # (n,): whether a row goes into the bank
    mode: str  # BatchNorm's statistics: the training's (eval) or the batch's (bn-train-sorted)

    @property
    def total(self) -> int:
        """Number of rows to encode."""
        return sum(map(len, self.batches))

    @property
    def chunks(self) -> list[list[np.ndarray]]:
        """Batches whose features are kept on disk together."""
        starts = range(0, len(self.batches), BATCHES_PER_CHUNK)
        return [self.batches[start : start + BATCHES_PER_CHUNK] for start in starts]


def plan_batches(
    dataset: Dataset,
    rows_per_class: Mapping[str, int] | None = None,
    *,
    bn_train_sorted: bool = False,
) -> ExtractPlan:
    """Cut a data set into batches.

    With ``bn_train_sorted`` the batches of 32 run through *all* rows of each split, sorted by
    class, as in the published extraction; those that hold no row to be kept are skipped. What a
    row's features are thus does not depend on how many rows are kept.
    """
    kept = np.zeros(len(dataset), bool)
    kept[dataset.first_rows(dict(rows_per_class or {}))] = True
    if not kept.any():
        raise FirthshotError("No rows are left to extract: allow at least one per class.")
    if not bn_train_sorted:
        return ExtractPlan(_cut(np.flatnonzero(kept), BATCH), kept, "eval")
    whole = [part for split in SPLITS for part in _cut(dataset.rows(split), SORTED_BATCH)]
    return ExtractPlan([part for part in whole if kept[part].any()], kept, "bn-train-sorted")


def _cut(rows: np.ndarray, length: int) -> list[np.ndarray]:
    return [rows[start : start + length] for start in range(0, len(rows), length)]


def extract(
    dataset: Dataset,
    encoder: Encoder,
    out: str | Path,
    *,
    rows_per_class: Mapping[str, int] | None = None,
    bn_train_sorted: bool = False,
    skip_bad: bool = False,
    threads: int | None = None,
    listener: ProgressListener = SILENT,
    dtype: str = "float16",
    **words: Any,
) -> Bank:
    """Encode a data set (`open_dataset`) with an encoder (`load_encoder`) and write the bank.

    Unfinished work is kept beside the bank in ``OUT.parts``. ``rows_per_class`` says by split how
    many rows of each class to keep, the first ones by file name. ``bn_train_sorted`` takes
    BatchNorm's statistics from class-sorted batches of 32, as the published ResNet features were
    taken; the bank's ``extraction`` says so. ``skip_bad`` leaves out pictures that cannot be read
    and lists them in the bank's notes; otherwise the first of them stops the extraction. ``words``
    are fields of `BankMeta` that replace the default ones: name, dataset, backbone, licence,
    provenance.
    """
    check_kind(encoder.name, encoder.kind, dataset.kind)
    if not encoder.cacheable:
        raise FirthshotError(
            f"Nothing says whether {encoder.name} is the same the next time, as an extraction that "
            "resumes needs: encode with it yourself, and save_bank the features."
        )
    plan = plan_batches(dataset, rows_per_class, bn_train_sorted=bn_train_sorted)
    used = encoder.with_batch_statistics() if bn_train_sorted else encoder
    out = Path(out)
    chunks = ChunkFolder(out.with_name(f"{out.name}.parts"), _identity(dataset, encoder, plan))
    try:
        _run(dataset, used, plan, chunks, skip_bad, threads, listener)
    except PictureError as error:
        raise PictureError(f"{error} Or leave such pictures out.", "skip_bad") from None
    finally:
        if not any(chunks.folder.glob("chunk-*.npy")):  # nothing to go on with
            shutil.rmtree(chunks.folder)
    features, good = chunks.join(len(plan.chunks))
    rows = np.concatenate(plan.batches)
    chosen = good & plan.kept[rows]
    if not chosen.any():
        raise FirthshotError(f"Not one of the pictures of {dataset.name} can be decoded.")
    bad = [dataset.names[row] for row in rows[~good & plan.kept[rows]]]
    if bad and not skip_bad:  # an earlier part of the work was told to
        raise PictureError(f"{bad[0]} could not be decoded: leave such pictures out.", "skip_bad")
    present, labels = np.unique(dataset.labels[rows[chosen]], return_inverse=True)
    meta = _describe(dataset, encoder, plan, rows_per_class, bad) | words
    meta["classes"] = [dataset.classes[label] for label in present]
    meta["class_splits"] = [dataset.class_splits[label] for label in present]
    meta.setdefault("name", out.stem)
    bank = save_bank(out, features[chosen], labels, dtype=dtype, **meta)
    shutil.rmtree(chunks.folder)
    return bank


def _run(
    dataset: Dataset,
    encoder: Encoder,
    plan: ExtractPlan,
    chunks: ChunkFolder,
    skip_bad: bool,
    threads: int | None,
    listener: ProgressListener,
) -> None:
    """Encode the chunks that are not on disk."""
    groups = plan.chunks
    missing = [number for number in range(len(groups)) if not chunks.path(number).is_file()]
    done = plan.total - sum(len(part) for number in missing for part in groups[number])
    listener.start(plan.total, f"{dataset.kind}s", done=done)
    wanted = [row for number in missing for part in groups[number] for row in part.tolist()]
    inputs = iter([dataset.contents[row] for row in wanted])
    if encoder.kind == "image":
        names = [dataset.names[row] for row in wanted]
        inputs = encoder.prepared(list(inputs), names, threads, skip_bad)
    for number in missing:
        good = np.zeros(sum(map(len, groups[number])), bool)
        features, start = np.zeros((len(good), encoder.dim), np.float32), 0  # bad rows are zeros
        for rows in groups[number]:
            read = {start + place: next(inputs) for place in range(len(rows))}
            present = {row: one for row, one in read.items() if one is not None}
            if present:
                batch: Any = list(present.values())
                features[list(present)] = encoder.encode(
                    batch if encoder.kind == "text" else np.stack(batch)
                )
                good[list(present)] = True
            listener.advance(len(rows))
            start += len(rows)
        chunks.write(number, features, good)


def _identity(dataset: Dataset, encoder: Encoder, plan: ExtractPlan) -> dict[str, Any]:
    """Return what finished chunks depend on; another identity may not be mixed with them.

    Whether bad pictures are left out does not belong to it: chunks say it row by row.
    """
    sizes = [
        content.stat().st_size if isinstance(content, Path) else len(content)
        for content in dataset.contents
    ]
    return {
        "encoder": encoder.fingerprint,
        "data": fingerprint(dataset.names, sizes),
        "batches": fingerprint([rows.tolist() for rows in plan.batches]),
        "mode": plan.mode,
    }


def _describe(
    dataset: Dataset,
    encoder: Encoder,
    plan: ExtractPlan,
    rows_per_class: Mapping[str, int] | None,
    bad: list[str],
) -> dict[str, Any]:
    """Return the fields of the bank's metadata."""
    limits = ", ".join(f"{split} {count}" for split, count in (rows_per_class or {}).items())
    kept = f"the first rows of each class by file name, at most: {limits}" if limits else "all"
    notes = {
        "row order": "by split (base, val, novel), class name and file name",
        "rows kept": kept,
        "encoder": f"{encoder.spec or encoder.name}, fingerprint {encoder.fingerprint}",
        "made by": f"firthshot {__version__}, backbone extract",
        **dataset.notes,
    }
    if encoder.kind == "image":
        notes["pictures"] = encoder.pictures
    if plan.mode != "eval":
        notes["batches"] = (
            f"BatchNorm used the statistics of class-sorted batches of {SORTED_BATCH} rows, cut "
            "over all rows of the split before any was dropped"
        )
    if bad:
        notes["left out"] = json.dumps(bad)
    return {
        "dataset": dataset.name,
        "backbone": encoder.description or encoder.name,
        "extraction": plan.mode,
        "licence": encoder.licence,
        "provenance": f"Features of {dataset.name} by {encoder.provenance or encoder.name}.",
        "notes": notes,
    }


class ChunkFolder:
    """Keep chunks of features with an identity, in plain JSON values, that they depend on.

    A folder of another identity is refused.
    """

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder = folder
        plan = folder / "plan.json"
        with refusing(f"{folder} cannot be used", OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if not plan.exists():
                write_whole(plan, json.dumps(identity).encode())
            found = json.loads(plan.read_text(encoding="utf-8"))
        other = [key for key, value in identity.items() if found.get(key) != value]
        if other:
            raise FirthshotError(
                f"{folder} holds an unfinished extraction with another {' and '.join(other)}: "
                "go on with the same command, or remove the folder to start anew."
            )

    def path(self, number: int) -> Path:
        """Return the file of a chunk, which is there when the chunk is finished."""
        return self.folder / f"chunk-{number:06d}.npy"

    def write(self, number: int, features: np.ndarray, good: np.ndarray) -> None:
        """Write a chunk: features (n, d) float32 with a last column that says which are good."""
        buffer = io.BytesIO()
        np.save(buffer, np.column_stack([features, good]).astype(np.float32), allow_pickle=False)
        write_whole(self.path(number), buffer.getbuffer())

    def join(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the features (n, d) of all chunks, and whether each row is good (n,)."""
        parts = [np.load(self.path(number), allow_pickle=False) for number in range(count)]
        table = np.concatenate(parts)
        return table[:, :-1], table[:, -1] > 0
