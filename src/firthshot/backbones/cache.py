"""Embeddings that were computed before, found again by the content of what was embedded.

One SQLite file in the user's cache folder (``FIRTHSHOT_CACHE``): a row per pair of encoder
fingerprint and sha256 of the bytes, and a note on each encoder. Losing it costs time and nothing
else, so whatever goes wrong with the file (read-only folder, damage, a lock held too long) means:
compute. Beyond ``FIRTHSHOT_CACHE_MB`` (2,000) the rows that were not used for longest go.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from firthshot.errors import FirthshotError, refusing
from firthshot.files import user_cache

_FILE = "embeddings.sqlite"
_AT_ONCE = 500  # below SQLite's limit on variables in a statement
_MEGABYTES = 2000
_KEPT = 0.8  # of the room, when the cache is cut
_FAULTS = (OSError, sqlite3.Error)  # of the file: what it would have given is computed
_TABLES = (
    (
        "CREATE TABLE IF NOT EXISTS rows (encoder TEXT, content TEXT, features BLOB, used REAL, "
        "PRIMARY KEY (encoder, content)) WITHOUT ROWID"
    ),
    "CREATE TABLE IF NOT EXISTS notes (line TEXT PRIMARY KEY, fingerprint TEXT, note TEXT)",
    "DROP TABLE IF EXISTS embeddings",  # of version 0.1.0, without times
)


def content_key(content: bytes) -> str:
    """Return the key of some content."""
    return hashlib.sha256(content).hexdigest()


def recall(encoder: str, keys: Sequence[str], dim: int) -> dict[str, np.ndarray]:
    """Return the embeddings (dim,) float32 that are known, by key."""
    found: dict[str, np.ndarray] = {}
    wanted = list(dict.fromkeys(keys))
    with suppress(*_FAULTS), _connection() as connection:
        for start in range(0, len(wanted), _AT_ONCE):
            part = wanted[start : start + _AT_ONCE]
            where = f"WHERE encoder = ? AND content IN ({', '.join('?' * len(part))})"
            query = f"SELECT content, features FROM rows {where}"
            for key, raw in connection.execute(query, (encoder, *part)):
                if isinstance(raw, bytes) and len(raw) == 4 * dim:
                    found[key] = np.frombuffer(raw, "<f4").astype(np.float32)
            connection.execute(f"UPDATE rows SET used = ? {where}", (time.time(), encoder, *part))
    return found


def remember(encoder: str, embeddings: dict[str, np.ndarray]) -> None:
    """Keep embeddings (dim,) by key."""
    now = time.time()
    rows = [(encoder, key, own.astype("<f4").tobytes(), now) for key, own in embeddings.items()]
    with suppress(*_FAULTS), _connection() as connection:
        connection.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?)", rows)
        _cut(connection)


def recall_note(line: str) -> dict[str, Any] | None:
    """Return what was noted on an encoder, by the line that names it."""
    with suppress(*_FAULTS, ValueError, TypeError), _connection() as connection:
        found = connection.execute("SELECT note FROM notes WHERE line = ?", (line,)).fetchone()
        note = json.loads(found[0])
        return note if isinstance(note, dict) else None
    return None


def remember_note(line: str, note: dict[str, Any], fingerprint: str) -> None:
    """Keep a note on an encoder."""
    row = (line, fingerprint, json.dumps(note))
    with suppress(*_FAULTS), _connection() as connection:
        connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", row)


@dataclass(frozen=True)
class CachedEncoder:
    """What the cache holds of one encoder: its name, rows, bytes, and when it was last used."""

    name: str
    fingerprint: str
    rows: int
    size: int
    used: float


def cache_file() -> Path:
    """Return the file of the cache, which need not exist."""
    return user_cache() / _FILE


def cache_limit() -> int:
    """Return how many bytes of rows the cache may hold."""
    given = os.environ.get("FIRTHSHOT_CACHE_MB", "").strip()
    if given and not given.isdigit():
        raise FirthshotError(f"FIRTHSHOT_CACHE_MB is {given!r}: give a number of megabytes.")
    return int(given or _MEGABYTES) * 1_000_000


def cached_encoders() -> list[CachedEncoder]:
    """Return what the cache holds, the encoder that was used last first."""
    query = (
        "SELECT coalesce((SELECT min(line) FROM notes WHERE fingerprint = encoder), ''), encoder, "
        "count(*), sum(length(features)), max(used) FROM rows GROUP BY encoder ORDER BY 5 DESC"
    )
    with suppress(*_FAULTS), _connection() as connection:
        return [CachedEncoder(*row) for row in connection.execute(query)]
    return []


def clear_cache() -> int:
    """Remove all that the cache holds; return how many rows there were."""
    count = sum(one.rows for one in cached_encoders())
    with refusing(f"{cache_file()} cannot be removed", OSError):
        cache_file().unlink(missing_ok=True)
    return count


def _cut(connection: sqlite3.Connection) -> None:
    """Remove the rows that were not used for longest, when there are too many bytes of them."""
    (size,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    held, limit = (size - free) * page, cache_limit()
    if held <= limit:
        return
    (rows,) = connection.execute("SELECT count(*) FROM rows").fetchone()
    fewer = rows - int(rows * _KEPT * limit / held)
    connection.execute(
        "DELETE FROM rows WHERE (encoder, content) IN "
        "(SELECT encoder, content FROM rows ORDER BY used LIMIT ?)",
        (fewer,),
    )


@contextmanager
def _connection() -> Iterator[sqlite3.Connection]:
    """Open the cache, and keep what is written to it."""
    user_cache().mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(cache_file(), timeout=10)) as connection:
        for statement in _TABLES:
            connection.execute(statement)
        yield connection
        connection.commit()
