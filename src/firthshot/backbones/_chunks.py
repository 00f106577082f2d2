"""Finished chunks of an extraction on disk, each whole or absent."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from firthshot.errors import FirthshotError, refusing
from firthshot.files import write_whole


class ChunkFolder:
    """Keep chunks of features with an identity, in plain JSON values, that they depend on.

    A folder of another identity is refused.
    """

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder = folder
        plan = folder / "plan.json"
        with refusing(f"{folder} cannot be used", OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if plan.exists():
                self._compare(json.loads(plan.read_text(encoding="utf-8")), identity)
            else:
                write_whole(plan, json.dumps(identity).encode())

    def _compare(self, found: dict[str, Any], identity: dict[str, Any]) -> None:
        other = [key for key, value in identity.items() if found.get(key) != value]
        if other:
            raise FirthshotError(
                f"{self.folder} holds an unfinished extraction with another {' and '.join(other)}: "
                "go on with the same command, or remove the folder to start anew."
            )

    def has(self, number: int) -> bool:
        """Tell whether a chunk is finished."""
        return self._path(number).is_file()

    def write(self, number: int, features: np.ndarray, good: np.ndarray) -> None:
        """Write a chunk: features (n, d) float32 with a last column that says which are good."""
        import io

        buffer = io.BytesIO()
        np.save(buffer, np.column_stack([features, good]).astype(np.float32), allow_pickle=False)
        write_whole(self._path(number), buffer.getbuffer())

    def join(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the features (n, d) of all chunks, and whether each row is good (n,)."""
        parts = [np.load(self._path(number), allow_pickle=False) for number in range(count)]
        table = np.concatenate(parts)
        return table[:, :-1], table[:, -1] > 0

    def remove_if_empty(self) -> None:
        """Remove the folder when not one chunk was finished: there is nothing to go on with."""
        if not any(self.folder.glob("chunk-*.npy")):
            self.remove()

    def remove(self) -> None:
        """Remove the folder, when the bank is written."""
        shutil.rmtree(self.folder)

    def _path(self, number: int) -> Path:
        return self.folder / f"chunk-{number:06d}.npy"
