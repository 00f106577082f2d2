"""Embeddings that were computed before, found again by the content of what was embedded.

One SQLite file in the user's cache folder (``FIRTHSHOT_CACHE``): a row per pair of encoder
fingerprint and sha256 of the bytes. Losing it costs time and nothing else, so whatever goes wrong
with the file (read-only folder, damage, a lock held too long) means: compute.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import numpy as np

from firthshot.files import user_cache

_FILE = "embeddings.sqlite"
_AT_ONCE = 500  # below SQLite's limit on variables in a statement
_TABLE = (
    "CREATE TABLE IF NOT EXISTS embeddings (encoder TEXT, content TEXT, features BLOB, "
    "PRIMARY KEY (encoder, content)) WITHOUT ROWID"
)
_QUERY = "SELECT content, features FROM embeddings WHERE encoder = ? AND content IN"


def content_key(content: bytes) -> str:
    """Return the key of some content."""
    return hashlib.sha256(content).hexdigest()


def recall(encoder: str, keys: Sequence[str], dim: int) -> dict[str, np.ndarray]:
    """Return the embeddings (dim,) float32 that are known, by key."""
    found: dict[str, np.ndarray] = {}
    wanted = list(dict.fromkeys(keys))
    with _connection() as connection:
        if connection is None:
            return found
        for start in range(0, len(wanted), _AT_ONCE):
            part = wanted[start : start + _AT_ONCE]
            marks = ", ".join("?" * len(part))
            query = f"{_QUERY} ({marks})"
            for key, raw in connection.execute(query, (encoder, *part)):
                if isinstance(raw, bytes) and len(raw) == 4 * dim:
                    found[key] = np.frombuffer(raw, "<f4").astype(np.float32)
    return found


def remember(encoder: str, embeddings: dict[str, np.ndarray]) -> None:
    """Keep embeddings (dim,) by key."""
    rows = [(encoder, key, own.astype("<f4").tobytes()) for key, own in embeddings.items()]
    with _connection() as connection:
        if connection is not None:
            connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?)", rows)
            connection.commit()


@contextmanager
def _connection() -> Iterator[sqlite3.Connection | None]:
    """Open the cache, or give None; errors inside end the work with it quietly."""
    folder = user_cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(folder / _FILE, timeout=10)
    except (OSError, sqlite3.Error):
        yield None
        return
    with closing(connection):
        try:
            connection.execute(_TABLE)
        except sqlite3.Error:
            yield None
            return
        try:
            yield connection
        except sqlite3.Error:
            return
