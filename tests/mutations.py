"""Damaged files for every reader: each ends in what was asked for or in a documented error.

    python tests/mutations.py COUNT [READER ...] [--seed S] [--keep FOLDER]

tries COUNT mutated files of each reader in a child process of its own and prints how many were
sound, refused or a violation: any other exception, an end of the process, more than 10 s, or more
than 1 GB of memory. Files that violate are kept, to be opened again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
import zlib
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import run_files
import sound_files
from sound_files import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

READERS = {**sound_files.READERS, **run_files.READERS}
SECONDS, MEMORY = 10, 10**9  # that one file may take
_WALL = 300  # processor time decides; this ends a child that waits for nothing on a busy machine
_HUGE = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**64 - 1)
_WORDS = (
    b"\r", b"\n", b"\r\n", b"\0", b'"', b'""', b",", b"\t", b";", b"\xff\xfe", b"\xef\xbb\xbf",
    b"nan", b"inf", b"-1", b"1e999", b"9" * 400, b"9" * 5000, b"9223372036854775808", b"0x1", b"01",
    b"null", b"true", b"[]", b"{}", b"[1,2]", b'{"a":[1]}', b'"\\ud800"', b"[" * 2000,
    b'{"a":' * 300, b"2020-01-01", b" ", b"", b"label", b"id", b"x" * 70000, b"\x1b[2J",
)  # fmt: skip


def mutate(raw: bytes, rng: random.Random) -> bytes:
    """Return a file with one to four faults; containers with checksums are mended around them."""
    for opened in (_inside_safetensors, _inside_zip, _inside_png):
        if rng.random() < 0.5 and (changed := opened(raw, rng)) is not None:
            return changed
    return _damage(raw, rng)


def _damage(raw: bytes, rng: random.Random) -> bytes:
    kinds = [_flip, _flip, _set, _number, _number, _cut, _splice, _drop, _repeat]
    if _is_text(raw):
        kinds += [_word] * 8 + [_value] * 6 + [_swap_lines]
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        if raw:
            raw = rng.choice(kinds)(raw, rng)
    return raw


def _is_text(raw: bytes) -> bool:
    try:
        return raw.decode("utf-8").isprintable() or b"\n" in raw
    except UnicodeDecodeError:
        return False


def _flip(raw: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(raw))
    return raw[:place] + bytes([raw[place] ^ (1 << rng.randrange(8))]) + raw[place + 1 :]


def _set(raw: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(raw))
    return raw[:place] + bytes([rng.choice((0, 1, 0x7F, 0x80, 0xFF))]) + raw[place + 1 :]


def _number(raw: bytes, rng: random.Random) -> bytes:
    """Put a telling whole number over 2, 4 or 8 bytes, in either byte order."""
    width, order = rng.choice((2, 4, 8)), rng.choice(("little", "big"))
    place = rng.randrange(len(raw))
    value = (rng.choice(_HUGE) & (256**width - 1)).to_bytes(width, order)
    return raw[:place] + value + raw[place + width :]


def _cut(raw: bytes, rng: random.Random) -> bytes:
    return raw[: rng.randrange(len(raw))]


def _span(raw: bytes, rng: random.Random) -> slice:
    start = rng.randrange(len(raw))
    return slice(start, start + rng.choice((1, 2, 4, 8, 16, 64)))


def _splice(raw: bytes, rng: random.Random) -> bytes:
    piece, place = raw[_span(raw, rng)], rng.randrange(len(raw))
    return raw[:place] + piece + raw[place + len(piece) * rng.randrange(2) :]


def _drop(raw: bytes, rng: random.Random) -> bytes:
    span = _span(raw, rng)
    return raw[: span.start] + raw[span.stop :]


def _repeat(raw: bytes, rng: random.Random) -> bytes:
    span = _span(raw, rng)
    return raw[: span.stop] + raw[span] * rng.choice((1, 10, 1000)) + raw[span.stop :]


def _word(raw: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(raw) + 1)
    return raw[:place] + rng.choice(_WORDS) + raw[place:]


def _value(raw: bytes, rng: random.Random) -> bytes:
    """Replace one cell or JSON value, in all lines or in one."""
    found = list(re.finditer(rb'"[^"\n]*"|[-+.\w]+', raw))
    if not found:
        return raw
    old = rng.choice(found)
    word = rng.choice(_WORDS)
    if rng.random() < 0.2:
        return raw.replace(old[0], word)
    return raw[: old.start()] + word + raw[old.end() :]


def _swap_lines(raw: bytes, rng: random.Random) -> bytes:
    lines = raw.split(b"\n")
    rng.shuffle(lines)
    return b"\n".join(lines)


def _inside_safetensors(raw: bytes, rng: random.Random) -> bytes | None:
    """Damage the header alone and mend its length."""
    length = int.from_bytes(raw[:8], "little")
    if raw[8:9] != b"{" or length > len(raw) - 8:
        return None
    header = _damage(raw[8 : 8 + length], rng)
    return len(header).to_bytes(8, "little") + header + raw[8 + length :]


def _inside_zip(raw: bytes, rng: random.Random) -> bytes | None:
    """Damage one member and write the archive anew."""
    if raw[:4] != b"PK\3\4":
        return None
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(content, "w") as new:
        chosen = rng.choice(old.infolist())
        for member in old.infolist():
            body = old.read(member)
            body = _damage(body, rng) if member is chosen else body
            new.writestr(member.filename, body, member.compress_type)
    return content.getvalue()


def _inside_png(raw: bytes, rng: random.Random) -> bytes | None:
    """Damage the chunks of a PNG and mend their checksums."""
    if raw[:4] != b"\x89PNG":
        return None
    out, place = bytearray(raw[:8]), 8
    while place + 12 <= len(raw):
        length = int.from_bytes(raw[place : place + 4], "big")
        body = raw[place + 4 : place + 8 + length]
        if len(body) > 4 and rng.random() < 0.4:
            body = body[:4] + _damage(body[4:], rng)
        out += (len(body) - 4).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
        place += 12 + length
    return bytes(out)


@dataclass
class Counts:
    """What became of the mutated files of one reader."""

    reader: str
    sound: int = 0
    refused: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        bad = f"{len(self.violations)} violations"
        return f"{self.reader:20} {self.sound:6} sound {self.refused:6} refused  {bad}"


def usable(readers: Mapping[str, Reader] = sound_files.READERS) -> list[str]:
    """Return the readers whose libraries are installed; without those of run folders by default."""
    return [name for name, own in readers.items() if all(find_spec(m) for m in own.modules)]


def mutated(name: str, seed: int, number: int, sound: bytes) -> bytes:
    """Return one file of a campaign, the same for the same arguments."""
    return mutate(sound, random.Random(f"{name} {seed} {number}"))


def try_reader(name: str, count: int, seed: int, keep: Path) -> Counts:
    """Open mutated files of one reader in a child process; what violates is kept."""
    return try_readers([name], count, seed, keep)[0]


def try_readers(names: Sequence[str], count: int, seed: int, keep: Path) -> list[Counts]:
    """Open mutated files of several readers in one child; a new child follows each that ended."""
    counts = [Counts(name) for name in names]
    first, total = 0, count * len(names)
    with tempfile.TemporaryDirectory() as folder:
        while first < total:
            first = _one_child(counts, first, count, seed, Path(folder), keep)
    return counts


def _one_child(
    counts: list[Counts], first: int, count: int, seed: int, folder: Path, keep: Path
) -> int:
    """Read what one child says of its files; return the number of the next file."""
    names = [own.reader for own in counts]
    command = [sys.executable, __file__, "--child", str(first), str(count), *names]
    command += ["--seed", str(seed), "--keep", str(folder)]
    place = first
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=_environment(folder)
        ) as child,
    ):
        for line in _lines(child):
            own, (word, _, rest) = counts[place // count], line.partition(" ")
            if word == "sound":
                own.sound += 1
            elif word == "refused":
                own.refused += 1
            else:
                _keep(own, rest, seed, place % count, folder, keep)
            place += 1
        code = child.wait()
        errors.seek(0)
        said = errors.read()[-300:].decode(errors="replace")
    if place < count * len(names):
        own = counts[place // count]
        if not _sound_file(folder, own.reader).exists():
            raise RuntimeError(f"The sound file of {own.reader} cannot be read: {said}")
        _keep(own, f"the process ended with {code}: {said}", seed, place % count, folder, keep)
        place += 1
    return place


def _keep(own: Counts, words: str, seed: int, number: int, folder: Path, keep: Path) -> None:
    """Write the file that violates again, as the child may be at the next one by now."""
    keep.mkdir(parents=True, exist_ok=True)
    kept = keep / f"{own.reader}-{seed}-{number}{READERS[own.reader].ending}".replace(" ", "-")
    kept.write_bytes(
        mutated(own.reader, seed, number, _sound_file(folder, own.reader).read_bytes())
    )
    own.violations.append(f"{kept}: {words}")


def _sound_file(folder: Path, name: str) -> Path:
    return folder / name / "sound"


def _environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, sys.path))
    return {**os.environ, "PYTHONPATH": path, "FIRTHSHOT_CACHE": str(folder / "cache")}


def _lines(child: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield the lines of a child; one that is silent for too long is ended."""
    import select

    assert child.stdout is not None
    buffer = b""
    while True:
        ready, _, _ = select.select([child.stdout], [], [], _WALL)
        if not ready:
            child.kill()
            return
        if not (more := os.read(child.stdout.fileno(), 1 << 16)):
            return
        *lines, buffer = (buffer + more).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)


# In the child


def _child(names: Sequence[str], first: int, count: int, seed: int, folder: Path) -> None:
    for place in range(first, count * len(names)):
        name, number = names[place // count], place % count
        own, kept = READERS[name], _sound_file(folder, name)
        path = own.place(kept.parent)
        if not kept.exists():
            kept.parent.mkdir(exist_ok=True)
            own.make(path)
            own.read(path)  # a sound file raises nothing; libraries are imported by now
            kept.write_bytes(path.read_bytes())
        path.unlink(missing_ok=True)  # a new file, also for whoever remembers the old
        path.write_bytes(mutated(name, seed, number, kept.read_bytes()))
        os.write(1, (_outcome(own, path) + "\n").encode(errors="replace"))


def _outcome(own: Reader, path: Path) -> str:
    """Open a file; return "sound", "refused", or "violation" and why."""
    from firthshot.errors import FirthshotError

    _limit()
    before, held = _peak_of_children(), _restart_peak()
    begin = time.process_time()
    outcome = "sound"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            own.read(path)
    except FirthshotError as error:
        outcome = "refused" if "Traceback" not in str(error) else "violation a traceback"
    except BaseException as error:  # noqa: BLE001 - panics are no Exception
        return f"violation {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if (spent := time.process_time() - begin) > SECONDS:
        return f"violation {spent:.1f} s"
    if (swollen := _peak() - held) > MEMORY:
        return f"violation {swollen / 1e6:.0f} MB"
    if (children := _peak_of_children()) > max(before, MEMORY):
        return f"violation {children / 1e6:.0f} MB in a child process"
    return outcome


def _limit() -> None:
    """End this process after too much processor time, and before it fills the machine."""
    used = int(time.process_time()) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (used + SECONDS, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_DATA, (8 * MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _restart_peak() -> int:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        return 0  # no such figure here
    found = re.search(r"VmHWM:\s+(\d+)", status.read_text())
    return 1024 * int(found[1]) if found else 0


def _peak_of_children() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=100)
    parser.add_argument("readers", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("violations"))
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        _child(given.readers, given.child, given.count, given.seed, given.keep)
        return 0
    bad = 0
    for name in given.readers or usable():
        begin = time.perf_counter()
        counts = try_reader(name, given.count, given.seed, given.keep)
        print(f"{counts}  {time.perf_counter() - begin:6.1f} s", flush=True)
        for words in counts.violations:
            print(f"    {words}", flush=True)
        bad += len(counts.violations)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
