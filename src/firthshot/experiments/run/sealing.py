"""Tables that carry a checksum of their own bytes: a damaged one never reaches polars.

Damaged Parquet may end the whole process inside polars, so a run looks before it reads. The
checksum stands among the key-value metadata in the footer of the Parquet file. So a table stays one
file that any reader of Parquet opens, and it appears together with its checksum, in one rename.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from firthshot.errors import FirthshotError
from firthshot.tables import parquet_fault

if TYPE_CHECKING:
    import polars as pl

_KEY, _SIGN, _DIGITS = b"firthshot.checksum", b"firthshot-sha256:", 64
_BLANK = b"0" * _DIGITS
_SEAL = re.compile(rb"%b.{1,4}%b([0-9a-f]{%d})" % (re.escape(_KEY), _SIGN, _DIGITS), re.DOTALL)
_PARQUET = b"PAR1"  # how such a file begins and ends


def sealed_parquet(frame: pl.DataFrame, marks: Mapping[str, str] | None = None) -> bytes:
    """Return a table as Parquet that holds its own checksum, and these marks, as metadata."""
    buffer = io.BytesIO()
    metadata = {**(marks or {}), _KEY.decode(): (_SIGN + _BLANK).decode()}
    frame.write_parquet(buffer, compression="zstd", metadata=metadata)
    content = bytearray(buffer.getbuffer())
    start = content.rindex(_SIGN + _BLANK) + len(_SIGN)
    content[start : start + _DIGITS] = hashlib.sha256(content).hexdigest().encode()
    return bytes(content)


def damaged_tables(paths: Iterable[Path]) -> set[Path]:
    """Return the tables that are damaged, before any of their bytes meet polars in this process.

    Tables without a checksum, as earlier versions wrote them, are tried in a process of their own.
    """
    sound = {path: _is_sound(_content(path)) for path in paths}
    unsealed = [path for path, its in sound.items() if its is None]
    return {path for path, its in sound.items() if its is False} | _unreadable(unsealed)


def _content(path: Path) -> bytes:
    try:
        if path.is_file():  # a pipe would be waited for
            return path.read_bytes()
        why = "it is no file"
    except OSError as error:
        why = str(error.strerror)
    raise FirthshotError(
        f"{path} cannot be read ({why}): make it readable, or move it elsewhere and run again."
    )


def _is_sound(content: bytes) -> bool | None:
    """Tell whether the checksum is that of the content; None where there is no checksum."""
    if not (content.startswith(_PARQUET) and content.endswith(_PARQUET)):
        return False
    seal = _SEAL.match(content, max(content.rfind(_KEY), 0))
    if seal is None:  # half a seal is damage; none is an earlier version's
        return False if _KEY in content or _SIGN in content else None
    start, stop = seal.span(1)
    digest = hashlib.sha256(memoryview(content)[:start])
    digest.update(_BLANK)
    digest.update(memoryview(content)[stop:])
    return digest.hexdigest().encode() == seal[1]


def _unreadable(paths: list[Path]) -> set[Path]:
    bad: set[Path] = set()
    while (fault := parquet_fault([path for path in paths if path not in bad])) is not None:
        bad.add(fault.path)
    return bad
