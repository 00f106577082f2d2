"""Predictions of thousands of pictures: part by part into a file that can be gone on with."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from firthshot.own_data._encoded import embed_files, refuse_bad
from firthshot.own_data._predictions import as_predictions, render
from firthshot.progress import SILENT

if TYPE_CHECKING:
    from firthshot.own_data._examples import Array, Examples
    from firthshot.own_data._model import FittedModel

PART = 64  # files that are embedded together
KINDS_IN_PARTS = (".csv", ".tsv", ".jsonl")


@dataclass
class PictureRun:
    """Predict picture files into a .csv, .tsv or .jsonl file.

    What is done is kept in a file beside it, ``OUT.….part``, until all is done: the same call goes
    on from there. Memory does not grow with the number of files.

    Attributes
    ----------
    model : FittedModel; out : Path
    unknown : rate of false alarms at which rows are called unknown, or None
    skip_bad : leave out files that cannot be read
    bad : files that could not be read
    rows : in the file
    right, labelled : those whose folder was predicted, and those whose folder is a class
    foreign : those whose folder is no class of the model
    """

    model: FittedModel
    out: Path
    unknown: float | None = None
    skip_bad: bool = False
    bad: list[str] = field(default_factory=list)
    rows: int = 0
    right: int = 0
    labelled: int = 0
    foreign: int = 0

    def predict(self, paths: Sequence[Path], labels: Array | None) -> None:
        """Predict the files that are not done, and put the whole in its place."""
        names = [path.as_posix() for path in paths]
        truth = {} if labels is None else dict(zip(names, labels, strict=True))
        part = self._part(paths)
        done = dict(self._kept(part))
        for name, predicted in done.items():
            self._count(predicted, truth.get(name))
        left = [path for path in paths if path.as_posix() not in done]
        embedder = self.model.embedder
        listener, embedder.listener = embedder.listener, SILENT
        listener.start(len(paths), "pictures", done=len(done))
        with part.open("ab") as file:
            for start in range(0, len(left), PART):
                chosen = left[start : start + PART]
                found = embed_files(chosen, None, str(self.out), embedder, skip_bad=None)
                self.bad += found.bad
                if len(found):
                    self._write(found, file, truth)
                listener.advance(len(chosen))
        embedder.listener = listener
        refuse_bad(self.bad, len(paths), skip_bad=self.skip_bad)
        part.replace(self.out)

    def _write(self, found: Examples, file: BinaryIO, truth: dict[str, object]) -> None:
        answer = self.model.predict_examples(found, unknown=self.unknown)
        predictions = as_predictions(found, self.model.classes_, *answer)
        text = render(predictions, self.out.suffix.lower())
        file.write(text if not file.tell() else _without_header(text, self.out))
        file.flush()
        for name, predicted in zip(predictions.ids, predictions.predicted, strict=True):
            self._count(predicted, truth.get(str(name)))

    def _count(self, predicted: object, truth: object) -> None:
        self.rows += 1
        if truth is None:
            return
        is_class = str(truth) in self._classes
        self.labelled += is_class
        self.foreign += not is_class
        self.right += str(predicted) == str(truth)

    @cached_property
    def _classes(self) -> frozenset[str]:
        return frozenset(map(str, self.model.classes_.tolist()))

    def _part(self, paths: Sequence[Path]) -> Path:
        """Return the file of what is done: another model, rate or list of files has another."""
        asked = [self.model.file_digest, str(self.unknown), *map(str, paths)]
        digest = hashlib.sha256("\n".join(asked).encode("utf-8", "surrogateescape"))
        return self.out.with_name(f"{self.out.name}.{digest.hexdigest()[:8]}.part")

    def _kept(self, part: Path) -> Iterator[tuple[str, str]]:
        """Yield names and predictions of an earlier call; a line that was cut short is dropped."""
        if not part.is_file():
            return
        content = part.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            part.write_bytes(whole)
        lines = whole.decode().splitlines()
        if self.out.suffix.lower() == ".jsonl":
            yield from ((one["picture"], str(one["prediction"])) for one in map(json.loads, lines))
        else:
            mark = "\t" if self.out.suffix.lower() == ".tsv" else ","
            yield from ((one[0], one[1]) for one in csv.reader(lines[1:], delimiter=mark))


def _without_header(text: bytes, out: Path) -> bytes:
    return text if out.suffix.lower() == ".jsonl" else text[text.index(b"\n") + 1 :]
