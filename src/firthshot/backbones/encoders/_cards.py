"""What is known of an encoder without loading it, from the time when it was loaded.

A card is kept in the cache by the line that names the encoder. It holds while the encoder's files
have the sizes and times that they had, and the version of firthshot is the same.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from firthshot import __version__
from firthshot.backbones.cache import recall_note, remember_note
from firthshot.backbones.encoders._base import Encoder

_KEPT = tuple(one.name for one in fields(Encoder) if one.name != "source")


def recall_card(line: str) -> dict[str, Any] | None:
    """Return the fields of an encoder but for its network, if they still hold."""
    note = recall_note(line)
    if not note or note.get("version") != __version__ or note.get("state") != _state(note):
        return None
    card = {name: note[name] for name in _KEPT if name in note}
    return {**card, "files": tuple(card["files"])} if len(card) == len(_KEPT) else None


def remember_card(line: str, encoder: Encoder) -> None:
    """Keep what is known of an encoder; one without files cannot be known again."""
    if not encoder.files:
        return
    note: dict[str, Any] = {name: getattr(encoder, name) for name in _KEPT}
    note |= {"files": list(encoder.files), "version": __version__}
    remember_note(line, {**note, "state": _state(note)}, encoder.fingerprint)


def _state(note: dict[str, Any]) -> list[list[int]] | None:
    """Return size and time of each file, None where one is gone."""
    try:
        found = [Path(name).stat() for name in note.get("files", [])]
    except (OSError, TypeError):
        return None
    return [[one.st_size, one.st_mtime_ns] for one in found]
