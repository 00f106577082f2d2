"""Tables that carry a checksum of their own bytes: a damaged one never reaches polars.

Damaged Parquet may end the whole process inside polars, so a run looks before it reads. The
checksum stands among the key-value metadata in the footer of the Parquet file. So a table stays one
file that any reader of Parquet opens, and it appears together with its checksum, in one rename.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    import polars as pl

_KEY, _SIGN, _DIGITS = b"firthshot.checksum", b"firthshot-sha256:", 64
_BLANK = b"0" * _DIGITS
_SEAL = re.compile(rb"%b.{1,4}%b([0-9a-f]{%d})" % (re.escape(_KEY), _SIGN, _DIGITS), re.DOTALL)
_PARQUET = b"PAR1"  # how such a file begins and ends
_TRY = """
import os, sys
import polars as pl
print(end="!", flush=True)
for path in sys.stdin.buffer.read().split(b"\\0"):
    try:
        pl.read_parquet(os.fsdecode(path), glob=False)
    except BaseException:
        print(end="-", flush=True)
    else:
        print(end="+", flush=True)
"""
_PATIENCE = 60.0  # seconds for the tables together, beside those that their size allows
_SLOWEST = 1e6  # bytes per second

_tried: set[tuple[Path, int, int]] = set()  # tables of older versions that could be read


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
    """Return the tables that are damaged; none of these bytes has met polars in this process.

    Tables without a checksum, as older versions wrote them, are read by another process first.

    Raises
    ------
    FirthshotError
        When a file cannot be looked at.
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
    if seal is None:  # half a seal is damage, no seal is an older version's
        return False if _KEY in content or _SIGN in content else None
    start, stop = seal.span(1)
    digest = hashlib.sha256(content[:start])
    digest.update(_BLANK)
    digest.update(content[stop:])
    return digest.hexdigest().encode() == seal[1]


def _unreadable(paths: list[Path]) -> set[Path]:
    """Return the tables that another process cannot read, whether it says so, dies or hangs."""
    known = {path: (path, (stat := path.stat()).st_size, stat.st_mtime_ns) for path in paths}
    left = [path for path in paths if known[path] not in _tried]
    bad = set()
    while left:
        signs = _try_reading(left)
        bad |= {path for path, sign in zip(left, signs, strict=False) if sign == "-"}
        left = left[len(signs) :]
    _tried.update(known[path] for path in paths if path not in bad)
    return bad


def _try_reading(paths: list[Path]) -> str:
    """Return "+" for each table that was read and "-" for one that was not, which may be the last.

    A process that dies takes no others with it: the caller goes on behind the table that killed it.
    """
    patience = _PATIENCE + sum(path.stat().st_size for path in paths) / _SLOWEST
    process = subprocess.Popen(  # -P: no module of the working directory is taken for polars
        [sys.executable, "-P", "-c", _TRY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        out, _ = process.communicate(b"\0".join(map(os.fsencode, paths)), patience)
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
    if not out:  # no table is to blame
        raise FirthshotError(
            f"{paths[0]} has no checksum, and no process could be started that tries to read it: "
            "free some memory, then run again."
        )
    signs = out.decode().removeprefix("!")
    return signs if len(signs) == len(paths) else signs + "-"
