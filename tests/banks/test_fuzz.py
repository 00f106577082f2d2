"""No file, however mangled, makes the reader raise anything but `BankError`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from firthshot.banks import diagnose, load_bank, save_bank
from firthshot.errors import BankError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def sound(folder: Path) -> bytes:
    X = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
    y = np.repeat(np.arange(4), 6)
    splits = ["base", "val", "novel", "novel"]
    save_bank(folder / "sound.bank", X, y, classes=list("abcd"), class_splits=splits)
    return (folder / "sound.bank").read_bytes()


def read(folder: Path, raw: bytes) -> None:
    """Open, use and examine a file as a run would; only `BankError` may come out."""
    path = folder / "mutated.bank"
    path.write_bytes(raw)
    try:
        bank = load_bank(path)
    except BankError:
        return
    for split in bank.splits:
        rows = np.concatenate(bank.class_rows(split))
        assert bank.features[rows].shape == bank.select(split).shape
    assert all(finding.sentence for finding in diagnose(bank))


changes = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=8)


@settings(max_examples=400, deadline=None)
@given(changes=changes, keep=st.floats(0, 1), tail=st.binary(max_size=8))
def test_mutated_bytes(
    folder: Path, sound: bytes, changes: list[tuple[float, int]], keep: float, tail: bytes
) -> None:
    raw = bytearray(sound)
    header = 8 + int.from_bytes(sound[:8], "little")
    for place, value in changes:  # half of the changes hit the header
        span = header if value % 2 else len(raw)
        raw[int(place * span)] = value
    read(folder, bytes(raw))
    read(folder, bytes(raw[: int(keep * len(raw))]) + tail)


@settings(max_examples=200, deadline=None)
@given(place=st.integers(0, 63), length=st.integers(0, 2**64 - 1), raw=st.binary(max_size=64))
@example(place=0, length=2**64 - 1, raw=b"")
def test_any_header_length(folder: Path, sound: bytes, place: int, length: int, raw: bytes) -> None:
    read(folder, (length % (len(sound) + 2)).to_bytes(8, "little") + sound[8:])
    read(folder, length.to_bytes(8, "little") + sound[8:])
    read(folder, raw)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=8,
)


def _replace(tree: Any, path: list[int], value: Any) -> Any:
    """Put a value somewhere into a JSON tree."""
    if not path or not isinstance(tree, dict | list) or not tree:
        return value
    keys = sorted(tree) if isinstance(tree, dict) else range(len(tree))
    key = keys[path[0] % len(keys)]
    copy: Any = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[key] = _replace(tree[key], path[1:], value)
    return copy


@settings(max_examples=400, deadline=None)
@given(path=st.lists(st.integers(0, 12), max_size=4), value=junk, inside=st.booleans())
def test_any_json_in_any_place(
    folder: Path, sound: bytes, path: list[int], value: Any, inside: bool
) -> None:
    length = int.from_bytes(sound[:8], "little")
    header = json.loads(sound[8 : 8 + length])
    if inside:
        meta = json.loads(header["__metadata__"]["firthshot-bank"])
        text = json.dumps(_replace(meta, path, value))
        header["__metadata__"]["firthshot-bank"] = text
    else:
        header = _replace(header, path, value)
    text = json.dumps(header).encode()
    read(folder, len(text).to_bytes(8, "little") + text + sound[8 + length :])
