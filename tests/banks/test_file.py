from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from firthshot.banks import Bank, BankMeta, list_banks, load_bank, make_bank, save_bank
from firthshot.errors import BankError

if TYPE_CHECKING:
    from collections.abc import Callable

META = {"name": "t", "classes": ["a", "b"], "class_splits": ["val", "novel"], "sha256": "0" * 64}
X2 = np.arange(8, dtype=np.float32).reshape(4, 2)
Y2 = np.array([0, 0, 1, 1], np.int32)


def write(path: Path, header: Any, payload: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + payload)
    return path


def header(**changes: Any) -> dict[str, Any]:
    """A sound header for X2 and Y2 (32 + 16 bytes), with tensors replaced."""
    meta = {"firthshot-bank": json.dumps({**META, "format": 1, **changes.pop("meta", {})})}
    return {
        "__metadata__": meta,
        "features": {"dtype": "F32", "shape": [4, 2], "data_offsets": [0, 32]},
        "labels": {"dtype": "I32", "shape": [4], "data_offsets": [32, 48]},
        **changes,
    }


PAYLOAD = X2.tobytes() + Y2.tobytes()


def test_round_trip_keeps_rows_labels_and_words(make: Callable[..., Bank], clusters: Any) -> None:
    order = np.random.default_rng(1).permutation(400)
    made = make(clusters[0][order], clusters[1][order], licence="MIT", notes={"a": "b"})
    bank = load_bank(made.path)
    np.testing.assert_array_equal(bank.features, clusters[0][order])
    np.testing.assert_array_equal(bank.labels, clusters[1][order])
    assert bank.meta == made.meta
    assert (bank.name, bank.meta.licence, bank.meta.notes) == ("toy", "MIT", {"a": "b"})
    assert bank.splits == ("base", "val", "novel")
    bank.verify()


def test_the_hand_written_header_is_sound(tmp_path: Path) -> None:
    bank = load_bank(write(tmp_path / "x.bank", header(), PAYLOAD))
    np.testing.assert_array_equal(bank.features, X2)
    np.testing.assert_array_equal(bank.labels, Y2)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_safetensors_library_reads_our_files(make: Callable[..., Bank], dtype: str) -> None:
    bank = make(dtype=dtype)
    assert bank.features.dtype == dtype
    tensors = load_file(bank.path)
    np.testing.assert_array_equal(tensors["features"], bank.features)
    np.testing.assert_array_equal(tensors["labels"], bank.labels)


def test_features_are_mapped_and_read_only(make: Callable[..., Bank]) -> None:
    bank = make()
    root = bank.features
    while isinstance(root.base, np.ndarray):
        root = root.base
    assert isinstance(root, np.memmap)
    for array in (bank.features, bank.labels, bank.class_rows("val")[0]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        bank.meta = None  # type: ignore[misc]


def test_slices_are_views_where_rows_stand_together(make: Callable[..., Bank]) -> None:
    bank = make()
    assert bank.classes("val") == ("c3", "c4", "c5")
    np.testing.assert_array_equal(bank.rows("val"), np.arange(120, 240))
    for part in (bank.select("val"), bank.select("val", "c4")):
        assert np.shares_memory(part, bank.features)
    np.testing.assert_array_equal(bank.select("val", "c4"), bank.features[160:200])
    np.testing.assert_array_equal(bank.class_rows("novel")[1], np.arange(280, 320))
    assert bank.class_rows("novel")[1] is bank.class_rows("novel")[1]  # cached


def test_slices_of_scattered_rows_keep_file_order(make: Callable[..., Bank], clusters: Any) -> None:
    order = np.random.default_rng(2).permutation(400)
    bank = make(clusters[0][order], clusters[1][order])
    rows = bank.class_rows("val")[2]
    np.testing.assert_array_equal(rows, np.flatnonzero(bank.labels == 5))
    np.testing.assert_array_equal(bank.select("val", "c5"), bank.features[rows])
    np.testing.assert_array_equal(bank.rows("val"), np.flatnonzero(np.isin(bank.labels, [3, 4, 5])))


def test_unknown_split_and_class_are_named(make: Callable[..., Bank]) -> None:
    bank = make(class_splits=["novel"] * 10)
    assert bank.splits == ("novel",)
    with pytest.raises(BankError, match="no split 'val': it has novel"):
        bank.rows("val")
    with pytest.raises(BankError, match="no class 'zebra'"):
        bank.select("novel", "zebra")


def test_verify_sees_one_changed_bit(make: Callable[..., Bank]) -> None:
    path = make().path
    raw = bytearray(path.read_bytes())
    raw[-2000] ^= 1
    path.write_bytes(raw)
    with pytest.raises(BankError, match="does not match its sha256"):
        load_bank(path).verify()


def test_digest_depends_on_splits_but_not_on_words(make: Callable[..., Bank]) -> None:
    digest = make().meta.sha256
    assert make(licence="other", name="other").meta.sha256 == digest
    assert make(class_splits=["novel"] * 10).meta.sha256 != digest
    assert make(classes=[f"d{i}" for i in range(10)]).meta.sha256 != digest


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (header(meta={"format": 2}), "format 2, this firthshot reads format 1"),
        (header(meta={"format": None}), "not a bank"),
        (header(meta={"colour": "red"}), "colour"),
        (header(meta={"classes": ["a"]}), "1 classes but the splits of 2"),
        (header(meta={"classes": ["a"], "class_splits": ["val"]}), "label 1"),
        (header(meta={"classes": ["a", "a"], "class_splits": ["val"] * 2}), "twice in split 'val'"),
        (header(meta={"classes": [], "class_splits": []}), "no classes"),
        (header(meta={"class_splits": ["val", "test"]}), "class_splits"),
        (header(meta={"sha256": "abc"}), "sha256"),
        (header(meta={"name": ""}), "no name"),
        (header(meta={"classes": ["a", "\ud800"]}), "not valid Unicode"),
        (header(meta={"class_splits": ["val", "\ud800"]}), "ill-formed: 'utf-8' codec"),
        (header(meta={"\ud800": 1}), "ill-formed: 'utf-8' codec"),
        (header(**{"\ud800": 1}), r"does not have \('\\ud800'\)"),
        (header(__metadata__={}), "not a firthshot bank"),
        (header(__metadata__=[]), "not a firthshot bank"),
        (header(__metadata__={"firthshot-bank": "{"}), "not valid JSON"),
        (header(__metadata__={"firthshot-bank": '{"format": 1, "format": 1}'}), "repeated"),
        (header(features=None), "'features' is missing"),
        (header(labels={"dtype": "F32", "shape": [4], "data_offsets": [32, 48]}), "dtype 'F32'"),
        (header(labels={"dtype": ["I32"], "shape": [4], "data_offsets": [32, 48]}), "dtype"),
        (header(features={"dtype": "F64", "shape": [4, 1], "data_offsets": [0, 32]}), "dtype"),
        (header(features={"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}), "features are"),
        (header(features={"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]}), "labels are"),
        (header(features={"dtype": "F32", "shape": [0, 2], "data_offsets": [0, 0]}), "impossible"),
        (
            header(features={"dtype": "F32", "shape": [-4, -2], "data_offsets": [0, 32]}),
            "impossible",
        ),
        (
            header(features={"dtype": "F32", "shape": [4.0, 2], "data_offsets": [0, 32]}),
            "impossible",
        ),
        (
            header(features={"dtype": "F32", "shape": [True, 8], "data_offsets": [0, 32]}),
            "impossible",
        ),
        (
            header(features={"dtype": "F32", "shape": [2**61, 8], "data_offsets": [0, 32]}),
            "not fit",
        ),
        (header(features={"dtype": "F32", "shape": [4, 2], "data_offsets": [32, 0]}), "not fit"),
        (header(features={"dtype": "F32", "shape": [4, 2], "data_offsets": [16, 48]}), "overlap"),
        (header(features={"dtype": "F32", "shape": [4, 2], "data_offsets": [64, 96]}), "overlap"),
        (header(features={"dtype": "F16", "shape": [4, 2], "data_offsets": [0, 16]}), "gap"),
        (header(labels={"dtype": "I64", "shape": [4], "data_offsets": [32, 64]}), "truncated"),
        (header(extra={"dtype": "F32", "shape": [1], "data_offsets": [48, 52]}), "does not have"),
        (b'{"a": 1, "a": 2}', "repeated"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"{", "not valid JSON"),
    ],
)
def test_a_bad_header_is_one_sentence(tmp_path: Path, fault: Any, words: str) -> None:
    with pytest.raises(BankError, match=words) as caught:
        load_bank(write(tmp_path / "bad.bank", fault, PAYLOAD))
    assert "bad.bank" in str(caught.value)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("labels", [[0, 0, 1, 2], [0, -1, 1, 1]])
def test_labels_outside_the_classes_are_refused(tmp_path: Path, labels: list[int]) -> None:
    payload = X2.tobytes() + np.array(labels, np.int32).tobytes()
    with pytest.raises(BankError, match=r"labels must lie between 0 and 1"):
        load_bank(write(tmp_path / "bad.bank", header(), payload))


@pytest.mark.parametrize("content", [b"", b"\0" * 7, b"\0" * 8, b"\xff" * 64])
def test_files_that_are_not_safetensors_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.bank"
    path.write_bytes(content)
    with pytest.raises(BankError, match=r"truncated or not a safetensors|not a JSON"):
        load_bank(path)


def test_truncated_and_extended_files_are_refused(make: Callable[..., Bank]) -> None:
    path = make().path
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(BankError, match="truncated"):
        load_bank(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(BankError, match="surplus"):
        load_bank(path)


def test_a_safetensors_file_of_others_is_refused(tmp_path: Path) -> None:
    save_file({"weight": X2}, tmp_path / "model.bank")
    with pytest.raises(BankError, match="not a firthshot bank"):
        load_bank(tmp_path / "model.bank")


@pytest.mark.parametrize("what", ["missing", "folder"])
def test_a_missing_file_or_a_folder_is_named(tmp_path: Path, what: str) -> None:
    path = tmp_path if what == "folder" else tmp_path / "none.bank"
    with pytest.raises(BankError, match="no such file"):
        load_bank(path)


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (X2.astype(complex), Y2, "real numbers"),
        (X2.astype(object), Y2, "real numbers"),
        (X2[0], Y2, r"shape \(2,\)"),
        (X2[:0], Y2[:0], "at least 1"),
        (X2[:3], Y2, "3 rows of features but 4 labels"),
        (X2, Y2 + 0.5, "whole numbers"),
        (X2, Y2 - 1, "Label -1"),
        (X2, Y2 + 1, "label 2"),
        (X2, Y2.astype(np.int64) + 2**40, "Label 1099511627777"),
    ],
)
def test_arrays_that_make_no_bank_are_refused(X: Any, y: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(BankError, match=words):
        save_bank(tmp_path / "x.bank", X, y, classes=["a", "b"], class_splits=["val", "val"])
    assert list(tmp_path.iterdir()) == []


def test_overflow_into_float16_is_refused(make: Callable[..., Bank], clusters: Any) -> None:
    X = clusters[0].copy()
    X[7, 3] = 1e5
    with pytest.raises(BankError, match="Value 100000 does not fit into float16"):
        make(X, dtype="float16")
    with pytest.raises(BankError, match=r"1e\+300 does not fit into float32"):
        make(np.full((400, 2), 1e300))
    with pytest.raises(BankError, match="not float64"):
        make(dtype="float64")


def test_precision_follows_the_source(make: Callable[..., Bank], clusters: Any) -> None:
    assert make(clusters[0].astype(np.float16)).features.dtype == np.float16
    assert make(clusters[0].astype(np.float64)).features.dtype == np.float32


def test_meta_and_fields_exclude_one_another(make: Callable[..., Bank]) -> None:
    meta = BankMeta(name="m", classes=["a", "b"], class_splits=["val", "novel"])
    assert make_bank(X2, Y2, meta).path is None
    with pytest.raises(BankError, match="not both"):
        make_bank(X2, Y2, meta, licence="x")
    with pytest.raises(BankError, match="ill-formed"):
        make_bank(X2, Y2, name="x", classes=["a"], class_splits=["val"], colour="red")


def test_a_failed_write_leaves_the_old_file(make: Callable[..., Bank], monkeypatch: Any) -> None:
    bank = make()
    before = bank.path.read_bytes()

    def fail(handle: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(BankError, match="cannot be written: disk full"):
        make(licence="new")
    assert bank.path.read_bytes() == before
    assert [path.name for path in bank.path.parent.iterdir()] == ["toy.bank"]


def test_writing_gives_the_usual_permissions_and_the_same_bytes(make: Callable[..., Bank]) -> None:
    path = make().path
    plain = path.with_name("plain")
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode
    first = path.read_bytes()
    assert make().path.read_bytes() == first


def test_a_bank_in_use_survives_its_replacement(make: Callable[..., Bank], clusters: Any) -> None:
    old = make()
    new = make(clusters[0] + 1)
    np.testing.assert_array_equal(old.features, clusters[0])
    np.testing.assert_array_equal(new.features, clusters[0] + 1)


def test_names_are_looked_up_in_order(
    make: Callable[..., Bank], tmp_path: Path, monkeypatch: Any
) -> None:
    make()
    for folder in ("listed", "here/banks", "data/firthshot/banks"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("FIRTHSHOT_BANKS", f"{tmp_path / 'nowhere'}:{tmp_path / 'listed'}")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with pytest.raises(BankError, match=r"no bank named 'toy'.*clinc150-minilm"):
        load_bank("toy")
    (tmp_path / "listed" / "toy.bank").symlink_to("moved/toy.bank")
    with pytest.raises(BankError, match=r"^Bank 'toy' is a link to moved/toy.bank, which is not"):
        load_bank("toy")
    with pytest.raises(BankError, match=r"no bank named 'other'.*shows \(clinc150-minilm\)"):
        load_bank("other")
    (tmp_path / "listed" / "toy.bank").unlink()
    for folder in ("data/firthshot/banks", "here/banks", "listed"):
        place = tmp_path / folder / "toy.bank"
        place.write_bytes((tmp_path / "toy.bank").read_bytes())
        assert load_bank("toy").path.resolve() == place
    (tmp_path / "listed" / "broken.bank").write_bytes(b"nonsense")
    entries = list_banks()
    assert [(entry.name, entry.origin) for entry in entries] == [
        ("broken", "FIRTHSHOT_BANKS"),
        ("toy", "FIRTHSHOT_BANKS"),
        ("toy", "./banks"),
        ("toy", "user data"),
        ("clinc150-minilm", "embedded"),
    ]
    assert entries[0].bank is None
    assert "broken.bank" in str(entries[0].error)
    assert load_bank(str(tmp_path / "toy.bank")).name == "toy"


def test_a_pickle_named_bank_is_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "x.bank"
    path.write_bytes(pickle.dumps({"features": X2}))
    with pytest.raises(BankError, match="not a safetensors file"):
        load_bank(path)


def test_a_bank_into_a_folder_that_is_not_there(tmp_path: Path) -> None:
    words = {"classes": ["a", "b"], "class_splits": ["val", "novel"]}
    with pytest.raises(BankError, match=r"as there is no folder .*nowhere: make it first\.$"):
        save_bank(tmp_path / "nowhere" / "x.bank", X2, Y2, **words)
