"""The training loop: epochs over shuffled crops, a checkpoint after each, exact resumption.

Nothing random is carried from epoch to epoch. The order of the pictures is a function of (seed,
epoch), the crops, flips, colours and mixtures of (seed, epoch, batch, lane), the learning rate of
(epoch, batch): weights, optimiser state and the records of finished epochs are all there is to a
run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from firthshot.backbones.architectures import make_backbone
from firthshot.backbones.encoders import BEST
from firthshot.backbones.pixels import Pixels
from firthshot.backbones.training._augment import augment, plain_view
from firthshot.backbones.training._files import (
    load_optimiser,
    optimiser_tensors,
    read_tensors,
    write_tensors,
)
from firthshot.backbones.training._learner import OBJECTIVES, Lanes, Learner
from firthshot.backbones.training._recipes import (
    EpochRecord,
    Setup,
    Stage,
    best_record,
    setup_differences,
)
from firthshot.errors import FirthshotError
from firthshot.kernels.streams import stream_key
from firthshot.progress import SILENT, ProgressListener

LAST = "last.safetensors"


class _Share(NamedTuple):
    """A lane's part of a step: its share of the loss and its gradient, and its counts."""

    loss: float
    right: int
    seen: int
    gradient: tuple[torch.Tensor | None, ...]


def split_monitored(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train on and to monitor: the first 90 % of each class, and the rest."""
    train, monitored = [], []
    for label in range(int(labels.max()) + 1):
        rows = np.flatnonzero(labels == label)
        cut = max(1, int(0.9 * len(rows)))
        train.append(rows[:cut])
        monitored.append(rows[cut:])
    return np.concatenate(train), np.concatenate(monitored)


class TrainingRun:
    """A training run in its folder: ``last.safetensors`` (all state) and ``best.safetensors``.

    A run found there is continued, another one refused. ``after_epoch`` gets the records of all
    finished epochs after each epoch.
    """

    def __init__(
        self,
        setup: Setup,
        pixels: Pixels,
        folder: str | Path,
        listener: ProgressListener = SILENT,
        after_epoch: Callable[[list[EpochRecord]], None] | None = None,
    ) -> None:
        self.setup, self.pixels, self.folder = setup, pixels, Path(folder)
        self.listener, self.after_epoch = listener, after_epoch
        self.train_rows, self.monitored_rows = split_monitored(pixels.labels)
        self._refuse_small_parts()
        self.learner = _make_learner(setup, len(pixels.classes))
        self.optimiser: torch.optim.Optimizer | None = None
        self.history: list[EpochRecord] = []
        self.folder.mkdir(parents=True, exist_ok=True)
        if (self.folder / LAST).exists():
            self._resume()
        self.lanes = Lanes(self.learner, setup.lanes)

    def _refuse_small_parts(self) -> None:
        """Batch norm needs two pictures in a lane, the monitoring at least one."""
        batch, lanes = self.setup.recipe.batch, self.setup.lanes
        if len(self.train_rows) < batch or not len(self.monitored_rows):
            raise FirthshotError(
                f"{len(self.pixels)} pictures are too few for batches of {batch} and a monitored "
                "tenth: give a smaller batch or more pictures.",
                "batch",
            )
        if lanes < 1 or batch < 2 * lanes:
            raise FirthshotError(
                f"A batch of {batch} cannot be cut into {lanes} lanes of two pictures or more: "
                "give fewer lanes or a larger batch.",
                "lanes",
                "batch",
            )

    @property
    def batches(self) -> int:
        """Return the batches of an epoch; an incomplete last one is left out."""
        return len(self.train_rows) // self.setup.recipe.batch

    def train(self) -> list[EpochRecord]:
        """Train the epochs that are left and return the records of all."""
        total, done = self.setup.recipe.epochs, len(self.history)
        self.listener.start(
            total * self.batches, "batches", done=done * self.batches, unit="pictures"
        )
        with self.lanes.open():
            for epoch in range(done, total):
                self.history.append(self._epoch(epoch))
                self._save()
                if self.after_epoch is not None:
                    self.after_epoch(self.history)
        return self.history

    def _epoch(self, epoch: int) -> EpochRecord:
        began = time.perf_counter()
        stage, place = self.setup.recipe.stage_of(epoch)
        if place == 0 or self.optimiser is None:
            self.optimiser = _make_optimiser(stage, self.learner)
        rate, loss, accuracy = self._pass(stage, place, epoch)
        monitored_loss, monitored_accuracy = self._monitor()
        return EpochRecord(
            epoch=epoch + 1,
            objective=stage.objective,
            rate=rate,
            loss=loss,
            accuracy=accuracy,
            monitored_loss=monitored_loss,
            monitored_accuracy=monitored_accuracy,
            seconds=time.perf_counter() - began,
        )

    def _pass(self, stage: Stage, place: int, epoch: int) -> tuple[float, float, float]:
        """Train one epoch; return the last rate, the mean loss and the share of right answers."""
        assert self.optimiser is not None
        order = _generator(self.setup.seed, "order", epoch)
        rows = self.train_rows[torch.randperm(len(self.train_rows), generator=order).numpy()]
        size, rate, loss, right, seen = self.setup.recipe.batch, stage.rate, 0.0, 0, 0
        for batch in range(self.batches):
            rate = stage.rate_at(place + batch / self.batches)
            for group in self.optimiser.param_groups:
                group["lr"] = rate
            shares = self._step(stage, rows[batch * size : (batch + 1) * size], (epoch, batch))
            loss += sum(share.loss for share in shares)
            right += sum(share.right for share in shares)
            seen += sum(share.seen for share in shares)
            words = f"epoch {epoch + 1}, loss {loss / (batch + 1):.3f}"
            self.listener.advance(units=size, words=words)
        self.lanes.merge()
        return rate, loss / self.batches, right / seen

    def _step(self, stage: Stage, rows: np.ndarray, when: tuple[int, int]) -> list[_Share]:
        """Descend along the gradient of one batch."""
        assert self.optimiser is not None
        parts = np.array_split(rows, self.setup.lanes)

        def work(lane: int, learner: Learner) -> _Share:
            rng = _generator(self.setup.seed, "batch", *when, lane)
            return self._share(learner, stage, parts[lane], len(rows), rng)

        shares = self.lanes.run(work)
        if not np.isfinite(sum(share.loss for share in shares)):
            raise FirthshotError(
                f"The loss left the finite numbers in epoch {when[0] + 1}: start again in a new "
                "folder with a smaller learning rate.",
                "rate",
            )
        gradients = (share.gradient for share in shares)
        for parameter, *parts_of_it in zip(self.learner.parameters(), *gradients, strict=True):
            present = [part for part in parts_of_it if part is not None]
            parameter.grad = sum(present[1:], present[0]) if present else None
        self.optimiser.step()
        return shares

    def _share(
        self, learner: Learner, stage: Stage, rows: np.ndarray, batch: int, rng: torch.Generator
    ) -> _Share:
        recipe = self.setup.recipe
        learner.train()
        images = self.pixels.images[rows]
        pictures = augment(images, self.setup.size, recipe.smallest_crop, recipe.jitter, rng)
        labels = torch.from_numpy(self.pixels.labels[rows])
        with self._precision():
            outcome = OBJECTIVES[stage.objective](learner, pictures, labels, rng)
        loss = len(rows) / batch * outcome.loss
        # Returned, not accumulated: the lanes share their parameters.
        gradient = torch.autograd.grad(loss, list(learner.parameters()), allow_unused=True)
        return _Share(float(loss.detach()), outcome.right, outcome.seen, gradient)

    def _precision(self) -> torch.autocast:
        # Without autocast's cache of converted weights, which all threads would share.
        enabled = self.setup.precision == "bfloat16"
        return torch.autocast("cpu", torch.bfloat16, enabled=enabled, cache_enabled=False)

    def _monitor(self) -> tuple[float, float]:
        """Return loss and accuracy on the monitored rows, in evaluation mode."""
        parts = np.array_split(self.monitored_rows, self.setup.lanes)
        found = self.lanes.run(lambda lane, learner: self._evaluate(learner, parts[lane]))
        loss, right = (sum(values) for values in zip(*found, strict=True))
        return loss / len(self.monitored_rows), right / len(self.monitored_rows)

    def _evaluate(self, learner: Learner, rows: np.ndarray) -> tuple[float, int]:
        learner.eval()
        loss, right = 0.0, 0
        for start in range(0, len(rows), 128):
            chosen = rows[start : start + 128]
            labels = torch.from_numpy(self.pixels.labels[chosen])
            with torch.inference_mode(), self._precision():
                pictures = plain_view(self.pixels.images[chosen], self.setup.size)
                scores = learner.network(pictures).float()
                loss += float(torch.nn.functional.cross_entropy(scores, labels, reduction="sum"))
                right += int((scores.argmax(dim=1) == labels).sum())
        return loss, right

    def _save(self) -> None:
        """Write the best weights first: a kill between both writes only repeats an epoch."""
        assert self.optimiser is not None
        record = self.history[-1]
        if best_record(self.history) is record:
            notes = self._describe() | {"epoch": asdict(record)}
            write_tensors(self.folder / BEST, self.learner.network.state_dict(), notes)
        everything = {f"learner.{k}": v for k, v in self.learner.state_dict().items()}
        everything |= optimiser_tensors(self.optimiser)
        notes = self._describe() | {"history": [asdict(r) for r in self.history]}
        write_tensors(self.folder / LAST, everything, notes)

    def _describe(self) -> dict[str, Any]:
        return {
            "setup": self.setup.as_notes(),
            "classes": self.pixels.classes,
            "counts": np.bincount(self.pixels.labels).tolist(),
            "side": self.pixels.side,
        }

    def _resume(self) -> None:
        tensors, notes = read_tensors(self.folder / LAST)
        self._refuse_other(notes)
        self.history = [EpochRecord(**record) for record in notes["history"]]
        self.learner.load_state_dict(
            {k.removeprefix("learner."): v for k, v in tensors.items() if k.startswith("learner.")}
        )
        stage, _ = self.setup.recipe.stage_of(len(self.history) - 1)
        self.optimiser = _make_optimiser(stage, self.learner)
        load_optimiser(self.optimiser, tensors)

    def _refuse_other(self, notes: dict[str, Any]) -> None:
        """Refuse to continue a run of other options or pictures, and name the difference."""
        here = self._describe()
        there = notes | {"setup": Setup.from_notes(notes["setup"]).as_notes()}
        differing = setup_differences(there["setup"], here["setup"])
        what = {"classes": "classes", "counts": "number of pictures", "side": "stored side"}
        differing += [word for key, word in what.items() if there.get(key, here[key]) != here[key]]
        if differing:
            raise FirthshotError(
                f"{self.folder} holds a run with other {', '.join(differing)}: continue it with "
                "its own options or choose a new folder."
            )


def _make_learner(setup: Setup, classes: int) -> Learner:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key("start", setup.seed) % 2**63)
        network = make_backbone(setup.architecture, classes, setup.recipe.head)
        rotations = any(s.objective != "cross-entropy" for s in setup.recipe.stages)
        learner: Learner = Learner(network, rotations=rotations)
    return learner.to(memory_format=torch.channels_last)  # type: ignore[no-any-return]


def _generator(seed: int, *what: str | int) -> torch.Generator:
    generator: torch.Generator = torch.Generator().manual_seed(stream_key(seed, *what) % 2**63)
    return generator


def _make_optimiser(stage: Stage, learner: Learner) -> torch.optim.Optimizer:
    parameters, decay = learner.parameters(), stage.weight_decay
    if stage.optimiser == "adam":
        return torch.optim.Adam(parameters, lr=stage.rate, weight_decay=decay)
    return torch.optim.SGD(
        parameters, lr=stage.rate, momentum=0.9, weight_decay=decay, nesterov=stage.nesterov
    )
