from __future__ import annotations

import collections
import io
import os
import pickle
import pickletools
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firthshot.banks._pickle import read_pickled_classes
from firthshot.banks._sources import read_source
from firthshot.errors import BankError

if TYPE_CHECKING:
    from pathlib import Path


def features(kind: type = np.float32) -> dict[int, list[np.ndarray]]:
    rng = np.random.default_rng(0)
    return {c: [rng.normal(size=5).astype(kind) for _ in range(c + 2)] for c in (4, 7)}


def write(path: Path, content: Any, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(content, protocol))
    return path


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, ">f4"])
def test_class_dicts_are_read_at_every_protocol(tmp_path: Path, protocol: int, kind: Any) -> None:
    content = collections.defaultdict(list, features(kind))  # what the original code writes
    X, owners = read_pickled_classes(write(tmp_path / "f.plk", content, protocol))
    np.testing.assert_array_equal(X, np.concatenate([np.stack(v) for v in content.values()]))
    assert owners == [4] * 6 + [7] * 9


def test_arrays_from_numpy_1_are_read(tmp_path: Path) -> None:
    raw = pickle.dumps(features(), 2).replace(b"numpy._core.", b"numpy.core.")
    assert b"numpy.core.multiarray" in raw
    (tmp_path / "f.pkl").write_bytes(raw)
    assert read_pickled_classes(tmp_path / "f.pkl")[0].shape == (15, 5)


@pytest.mark.parametrize(
    "content",
    [
        {"cat": np.ones((3, 2)), "dog": [np.zeros(2)]},
        {"cat": np.asfortranarray(np.arange(6.0).reshape(3, 2))},
        {"cat": (np.ones(2), np.zeros(2))},
        collections.OrderedDict(cat=[np.ones(2)]),
    ],
)
def test_names_matrices_and_tuples_are_read(tmp_path: Path, content: Any) -> None:
    X, owners = read_pickled_classes(write(tmp_path / "f.pkl", content))
    np.testing.assert_array_equal(X, np.concatenate([np.stack(v) for v in content.values()]))
    assert set(owners) == set(content)


class Hostile:
    """Pickles to a call of whatever it is given."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ((os.system, ("touch owned",)), "posix.system|nt.system"),
        ((eval, ("1",)), "builtins.eval"),
        ((exec, ("1",)), "builtins.exec"),
        ((getattr, (1, "real")), "builtins.getattr"),
        ((subprocess.Popen, (["true"],)), "subprocess.Popen"),
        ((np.load, ("x",)), "numpy.load"),
        ((io.open, ("owned", "w")), "io.open|_io.open"),
        ((bytearray, (10**13,)), "builtins.bytearray"),
    ],
)
def test_a_hostile_pickle_is_refused_by_name(
    tmp_path: Path, monkeypatch: Any, call: Any, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "evil.pkl", {0: [np.ones(2)], 1: Hostile(*call)})
    with pytest.raises(BankError, match=f"asks for '({named})', which is not data") as caught:
        read_source(str(path))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "owned").exists()


def test_object_arrays_and_fields_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BankError, match="dtype 'O8'"):
        read_source(str(write(tmp_path / "o.pkl", {0: np.array([[1, None]], object)})))
    records = np.zeros((2, 2), [("a", "f4")])
    with pytest.raises(BankError, match="dtype 'V4'"):
        read_source(str(write(tmp_path / "v.pkl", {0: records})))
    with pytest.raises(BankError, match="dtype 'U1'"):
        read_source(str(write(tmp_path / "u.pkl", {0: np.array([["a"]])})))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([1, 2], "does not hold a dict"),
        ({}, "does not hold a dict"),
        ({1.5: [np.ones(2)]}, "neither a number nor a name"),
        ({1: [np.ones(2)], "a": [np.ones(2)]}, "some classes are numbers"),
        ({1: []}, "class 1 is not a list of vectors"),
        ({1: [[1.0, 2.0]]}, "class 1 is not a list of vectors"),
        ({1: np.ones(3)}, "class 1 is not a list of vectors"),
        ({1: "text"}, "class 1 is not a list of vectors"),
        ({1: [np.ones(2), np.ones(3)]}, "differ in length"),
        ({1: [np.ones(10**5)] * 1000}, "far more than its own size"),
    ],
)
def test_other_contents_are_refused(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(BankError, match=words):
        read_source(str(write(tmp_path / "f.pkl", content)))


def test_a_pickle_cannot_alter_the_reader(tmp_path: Path) -> None:
    # GLOBAL numpy.dtype, then BUILD with attributes for it
    raw = b"cnumpy\ndtype\n" + pickle.dumps({"__call__": 1}, 0)[:-1] + b"b."
    pickletools.dis(raw, out=io.StringIO())
    (tmp_path / "f.pkl").write_bytes(raw)
    with pytest.raises(BankError, match="tries to alter"):
        read_source(str(tmp_path / "f.pkl"))


def test_a_truncated_pickle_is_one_sentence(tmp_path: Path) -> None:
    raw = pickle.dumps(features())
    (tmp_path / "f.pkl").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(BankError, match=r"f\.pkl cannot be imported: it is damaged or not"):
        read_source(str(tmp_path / "f.pkl"))


RAW = pickle.dumps(features(), 4)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(RAW) - 1), st.integers(0, 255)), max_size=5))
def test_mutated_pickles_raise_nothing_but_bank_errors(
    tmp_path_factory: Any, changes: list[tuple[int, int]]
) -> None:
    raw = bytearray(RAW)
    for place, value in changes:
        raw[place] = value
    path = tmp_path_factory.getbasetemp() / "mutated.pkl"
    path.write_bytes(raw)
    try:
        source = read_source(str(path))
    except BankError:
        return
    assert source.features.ndim == 2
