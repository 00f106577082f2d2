"""easy-few-shot-learning as its users meet it: its methods, and its loop over tasks.

The package imports backbones and pictures that need torchvision, which would replace a CPU build of
torch. Neither its methods nor its loop use them, so that both are imported past its ``__init__``
files, with an empty module in torchvision's place (``pip install --no-deps easyfsl``).
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

from firthshot.errors import FirthshotError


def is_installed() -> bool:
    """Tell whether easy-few-shot-learning is there."""
    return importlib.util.find_spec("easyfsl") is not None


def easy_method(module: str, name: str) -> Any:
    """Return a class of one of its methods."""
    _shell("methods")
    return getattr(importlib.import_module(f"easyfsl.methods.{module}"), name)


def easy_loop(
    make: Callable[[], Any], classes: Mapping[str, np.ndarray], sizes: tuple[int, int, int, int]
) -> Callable[[], float]:
    """Return its evaluation of a method on tasks that its sampler draws from rows by class.

    ``sizes`` are ways, shots, queries of a class and tasks. A progress bar is the only part of the
    published loop that is switched off.
    """
    from torch.utils.data import DataLoader, Sampler

    sampler_of, dataset_of, evaluate = _parts()
    dataset = dataset_of.from_dict(dict(classes))
    # Its sampler hands its base class an argument that torch no longer takes.
    with patch.object(Sampler, "__init__", lambda *_, **__: None):
        sampler = sampler_of(dataset, *sizes)
    loader: Any = DataLoader(
        dataset, batch_sampler=sampler, num_workers=0, collate_fn=sampler.episodic_collate_fn
    )

    def loop() -> float:
        random.seed(0)
        return float(evaluate(make(), loader, device="cpu", use_tqdm=False))

    return loop


def _parts() -> tuple[Any, Any, Callable[..., float]]:
    """Return its sampler of tasks, its set of features and its loop."""
    methods, datasets = _shell("methods"), _shell("datasets")
    base = importlib.import_module("easyfsl.methods.few_shot_classifier")
    methods.FewShotClassifier = base.FewShotClassifier  # type: ignore[attr-defined]
    rows = importlib.import_module("easyfsl.datasets.few_shot_dataset")
    datasets.FewShotDataset = rows.FewShotDataset  # type: ignore[attr-defined]
    held = importlib.import_module("easyfsl.datasets.features_dataset")
    empty = "torchvision" not in sys.modules and importlib.util.find_spec("torchvision") is None
    if empty:
        sys.modules["torchvision"] = ModuleType("torchvision")
    try:
        utils = importlib.import_module("easyfsl.utils")
    finally:
        if empty:
            del sys.modules["torchvision"]
    sampler = importlib.import_module("easyfsl.samplers.task_sampler")
    return sampler.TaskSampler, held.FeaturesDataset, utils.evaluate


def _shell(part: str) -> ModuleType:
    """Return a package of it without what its ``__init__`` imports."""
    found = importlib.util.find_spec("easyfsl")
    if found is None or not found.submodule_search_locations:
        raise FirthshotError(
            "The bench needs easy-few-shot-learning: pip install --no-deps easyfsl."
        )
    name = f"easyfsl.{part}"
    if name not in sys.modules:
        shell = ModuleType(name)
        shell.__path__ = [str(Path(found.submodule_search_locations[0]) / part)]
        sys.modules[name] = shell
    return sys.modules[name]
