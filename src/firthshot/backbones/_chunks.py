"""Finished chunks of an extraction on disk, each whole or absent."""

from __future__ import annotations

import io
import json
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
