from __future__ import annotations

import errno
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from firthshot.banks import export_npz, import_bank, import_dealt, import_whole, load_bank
from firthshot.errors import BankError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from firthshot.banks import Bank

X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
y = np.array([2, 2, 0, 0, 1, 1])
names = np.array(["ant", "bee", "cat"])


def write_npz(path: Path) -> str:
    np.savez(path, X=X, y=y)
    return str(path)


def write_npy(path: Path) -> str:
    np.save(path.with_name("f.npy"), X)
    np.save(path.with_name("l.npy"), y)
    return f"{path.with_name('f.npy')},{path.with_name('l.npy')}"


def frame() -> pl.DataFrame:
    return pl.DataFrame({"label": y, **{f"x{i}": X[:, i] for i in range(3)}})


def write_csv(path: Path) -> str:
    frame().write_csv(path)
    return str(path)


def write_tsv(path: Path) -> str:
    frame().write_csv(path, separator="\t")
    return str(path)


def write_parquet(path: Path) -> str:
    frame().write_parquet(path)
    return str(path)


def write_lists(path: Path) -> str:
    pl.DataFrame({"embedding": X.tolist(), "label": y}).write_parquet(path)
    return str(path)


def write_hdf5(path: Path, count: int = 8, tail: int = 4) -> str:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["all_feats"] = np.vstack([X, np.zeros((tail, 3), np.float32)])
        file["all_labels"] = np.concatenate([y, np.zeros(tail, int)])
        file.create_dataset("count", (1,), "i")[0] = count
    return str(path)


def write_torch(path: Path) -> str:
    torch = pytest.importorskip("torch")
    torch.save((torch.tensor(X), torch.tensor(y)), path)
    return str(path)


def write_pickle(path: Path) -> str:
    import pickle

    path.write_bytes(pickle.dumps({int(c): list(X[y == c]) for c in (2, 0, 1)}))
    return str(path)


WRITERS = [
    ("f.npz", write_npz),
    ("f.npy", write_npy),
    ("f.csv", write_csv),
    ("f.tsv", write_tsv),
    ("f.parquet", write_parquet),
    ("lists.parquet", write_lists),
    ("f.hdf5", write_hdf5),
    ("f.h5", write_hdf5),
    ("f.pth", write_torch),
    ("f.pkl", write_pickle),
    ("f.plk", write_pickle),
]


@pytest.mark.parametrize(("file", "writer"), WRITERS)
def test_every_kind_gives_the_same_bank(tmp_path: Path, file: str, writer: Any) -> None:
    spec = writer(tmp_path / file)
    bank = import_bank(tmp_path / "out.bank", {"novel": spec}, name="mine", licence="MIT")
    np.testing.assert_array_equal(bank.features, X)
    assert bank.features.dtype == np.float32
    np.testing.assert_array_equal(bank.labels, y)
    assert bank.classes("novel") == ("novel-0", "novel-1", "novel-2")
    assert (bank.name, bank.meta.licence) == ("mine", "MIT")
    assert bank.meta.provenance.startswith("imported from ")
    load_bank(tmp_path / "out.bank").verify()


@pytest.mark.parametrize(
    ("file", "writer"), [pair for pair in WRITERS if pair[0] not in ("f.npy", "f.csv", "f.tsv")]
)
def test_a_truncated_file_is_one_sentence(tmp_path: Path, file: str, writer: Any) -> None:
    writer(tmp_path / file)
    raw = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(raw[: len(raw) // 2])
    with pytest.raises(BankError, match=file) as caught:
        import_bank(tmp_path / "out.bank", {"novel": str(tmp_path / file)})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.bank").exists()


def test_several_files_become_one_bank(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", X=X, y=y, classes=names)
    np.savez(tmp_path / "n.npz", X=2 * X, y=np.array(list("xyzxyz")))
    np.savez(tmp_path / "b.npz", X=3 * X, y=y)
    files = {"novel": tmp_path / "n.npz", "val": tmp_path / "v.npz", "base": tmp_path / "b.npz"}
    bank = import_bank(tmp_path / "out.bank", files)
    assert bank.name == "out"
    assert bank.classes("base") == ("base-0", "base-1", "base-2")
    assert bank.classes("val") == ("ant", "bee", "cat")
    assert bank.classes("novel") == ("x", "y", "z")
    np.testing.assert_array_equal(bank.features, np.concatenate([3 * X, X, 2 * X]))
    np.testing.assert_array_equal(bank.select("val", "cat"), X[:2])
    np.testing.assert_array_equal(bank.select("novel", "x"), 2 * X[[0, 3]])


def test_the_same_class_name_in_two_splits_is_refused(tmp_path: Path) -> None:
    for split in ("val", "novel"):
        np.savez(tmp_path / f"{split}.npz", X=X, y=y, classes=names)
    files = {split: tmp_path / f"{split}.npz" for split in ("val", "novel")}
    with pytest.raises(BankError, match="Class 'ant' is in split 'val' and in split 'novel'"):
        import_bank(tmp_path / "out.bank", files)


def test_files_of_different_width_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", X=X, y=y)
    np.savez(tmp_path / "n.npz", X=X[:, :2], y=y)
    with pytest.raises(BankError, match=r"dimensions \(val 3, novel 2\)"):
        import_bank(tmp_path / "o.bank", {"val": tmp_path / "v.npz", "novel": tmp_path / "n.npz"})


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": X}, "lacks array 'y'"),
        ({"y": y}, "lacks array 'X'"),
        ({"X": X, "y": y[:3]}, "do not fit"),
        ({"X": X[:0], "y": y[:0]}, "it is empty"),
        ({"X": X[0], "y": y}, "do not fit"),
        ({"X": X[:, :, None], "y": y}, "must be rows × dimensions: flatten or pool them"),
        ({"X": X, "y": y + 0.5}, "whole numbers or text"),
        ({"X": X, "y": y, "classes": names[:2]}, "not indices into its 2 classes"),
        ({"X": X, "y": y - 1, "classes": names}, "not indices"),
        ({"X": X, "y": y, "classes": np.array(["a", "a", "b"])}, "twice in split 'val'"),
        ({"X": np.array([[None]]), "y": y[:1]}, "Python objects instead of plain arrays"),
    ],
)
def test_unfit_npz_files_are_refused(tmp_path: Path, arrays: Any, words: str) -> None:
    np.savez(tmp_path / "f.npz", **arrays)
    with pytest.raises(BankError, match=words):
        import_bank(tmp_path / "out.bank", {"val": tmp_path / "f.npz"})


def test_unknown_endings_splits_and_files_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", X=X, y=y)
    for files, words in [
        ({"val": tmp_path / "f.mat"}, "ending '.mat': known are .npy, .npz"),
        ({"val": tmp_path / "none.npz"}, "There is no file"),
        ({"val": tmp_path / "f.npy"}, "give features.npy,labels.npy"),
        ({"test": tmp_path / "f.npz"}, "Unknown split 'test'"),
        ({}, "nothing to import"),
    ]:
        with pytest.raises(BankError, match=words):
            import_bank(tmp_path / "out.bank", files)


def test_text_in_a_numpy_file_brings_no_advice_to_run_it(tmp_path: Path) -> None:
    for name, text in (("f.npz", "f.npz"), ("f.npy", "f.npy,f.npy")):
        (tmp_path / name).write_text("not an archive")
        file = ",".join(str(tmp_path / half) for half in text.split(","))
        with pytest.raises(BankError, match="is no NumPy file") as caught:
            import_bank(tmp_path / "out.bank", {"val": file})
        assert "allow_pickle" not in str(caught.value)


def test_an_input_is_not_written_over(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", X=X, y=y)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    (tmp_path / "link.bank").symlink_to(tmp_path / "f.npz")
    pair = f"{tmp_path / 'X.npy'},{tmp_path / 'y.npy'}"
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for out, file in [
        ("f.npz", tmp_path / "f.npz"),
        ("link.bank", tmp_path / "f.npz"),
        ("X.npy", pair),
        ("y.npy", pair),
    ]:
        with pytest.raises(BankError, match="one of the files to import"):
            import_bank(tmp_path / out, {"val": file})
    with pytest.raises(BankError, match="one of the files to import"):
        import_whole(tmp_path / "f.npz", tmp_path / "f.npz")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_precision_on_import(tmp_path: Path) -> None:
    np.savez(tmp_path / "h.npz", X=X.astype(np.float16), y=y)
    np.savez(tmp_path / "d.npz", X=1e5 * X.astype(np.float64), y=y)
    half, double = {"val": tmp_path / "h.npz"}, {"novel": tmp_path / "d.npz"}
    out = tmp_path / "out.bank"
    assert import_bank(out, half).features.dtype == np.float16
    assert import_bank(out, half, dtype="float32").features.dtype == np.float32
    assert import_bank(out, {**half, **double}).features.dtype == np.float32
    with pytest.raises(BankError, match="does not fit into float16"):
        import_bank(out, double, dtype="float16")


def test_hdf5_drops_rows_past_the_count_and_the_zero_tail(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    out = tmp_path / "o.bank"
    assert len(import_bank(out, {"val": write_hdf5(tmp_path / "a.h5", 10)}).features) == 6
    assert len(import_bank(out, {"val": write_hdf5(tmp_path / "b.h5", 4)}).features) == 4
    with pytest.raises(BankError, match="count is 11"):
        import_bank(out, {"val": write_hdf5(tmp_path / "c.h5", 11)})
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["all_feats"] = h5py.ExternalLink("a.h5", "all_feats")
        file["all_labels"] = y
    with pytest.raises(BankError, match="lacks the data set 'all_feats'"):
        import_bank(out, {"val": tmp_path / "d.h5"})


def test_torch_files_with_code_or_another_shape_are_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save((torch.tensor(X), torch.nn.Linear(1, 1)), tmp_path / "code.pth")
    torch.save({"X": torch.tensor(X)}, tmp_path / "dict.pth")
    torch.save((torch.tensor(X), [1, 2]), tmp_path / "list.pth")
    for file, words in [("code", "more than tensors"), ("dict", "pair"), ("list", "not tensors")]:
        with pytest.raises(BankError, match=words) as caught:
            import_bank(tmp_path / "o.bank", {"val": tmp_path / f"{file}.pth"})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("module", "file"), [("h5py", "f.h5"), ("torch", "f.pth")])
def test_a_missing_library_names_its_extra(
    tmp_path: Path, monkeypatch: Any, module: str, file: str
) -> None:
    (tmp_path / file).touch()
    monkeypatch.setitem(sys.modules, module, None)
    extra = {"h5py": "hdf5"}.get(module, module)
    with pytest.raises(MissingExtraError, match=rf"\.\[{extra}\]"):
        import_bank(tmp_path / "o.bank", {"val": tmp_path / file})


def whole_table() -> pl.DataFrame:
    labels = ["ant", "bee", "ant", "cat", "cat", "bee"]
    splits = ["val", "novel", "val", "base", "base", "novel"]
    return pl.DataFrame({"x0": X[:, 0], "kind": labels, "part": splits, "x1": X[:, 1]})


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_one_table_with_a_split_column(tmp_path: Path, ending: str) -> None:
    getattr(whole_table(), f"write_{ending}")(tmp_path / f"t.{ending}")
    bank = import_whole(tmp_path / "o.bank", tmp_path / f"t.{ending}", label="kind", split="part")
    np.testing.assert_array_equal(bank.features, X[:, :2])
    assert [bank.classes(split) for split in bank.splits] == [("cat",), ("ant",), ("bee",)]
    np.testing.assert_array_equal(bank.rows("val"), [0, 2])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (pl.lit("val").alias("part"), None),
        (pl.lit("train").alias("part"), "split 'train'"),
        (pl.Series("part", ["val", "val", "novel", "base", "base", "val"]), "Class 'ant' is in"),
        (pl.lit("word").alias("x1"), "column 'x1' is not numeric"),
        (pl.Series("x1", [1.0, None, 1, 1, 1, 1]), "column 'x1' has empty cells"),
        (pl.Series("kind", X[:, 0]), "fractional"),
        (pl.lit(1).alias("other"), None),
    ],
)
def test_tables_are_not_repaired(tmp_path: Path, change: Any, words: str | None) -> None:
    whole_table().with_columns(change).write_csv(tmp_path / "t.csv")
    arguments = (tmp_path / "o.bank", tmp_path / "t.csv")
    if words is None:
        assert len(import_whole(*arguments, label="kind", split="part").features) == 6
    else:
        with pytest.raises(BankError, match=words):
            import_whole(*arguments, label="kind", split="part")


LABELS = [
    (["01", "1", "02", "2", "007"], ["007", "01", "02", "1", "2"]),
    (["1.0", "2.0", "10.0", "1.0", "2.0"], ["1", "10", "2"]),
    (["1", "1.0", "2", "2", "1"], ["1", "1.0", "2"]),  # two texts are two classes
    (["true", "false", "True", "true", "no"], ["True", "false", "no", "true"]),
]


@pytest.mark.parametrize(("cells", "classes"), LABELS)
@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_labels_are_the_text_of_the_file_or_whole_numbers(
    tmp_path: Path, ending: str, cells: list[str], classes: list[str]
) -> None:
    path, table = tmp_path / f"t.{ending}", pl.DataFrame({"x": X[:5, 0], "label": cells})
    split = table.with_columns(split=pl.lit("val"))
    if ending == "parquet":
        split.write_parquet(path)
    else:
        split.write_csv(path, separator="," if ending == "csv" else "\t")
    bank = import_whole(tmp_path / "o.bank", path)
    assert list(bank.classes("val")) == classes
    plain = [cell.removesuffix(".0") if classes[1] == "10" else cell for cell in cells]
    assert [classes[owner] for owner in bank.labels] == plain


def test_a_split_file_keeps_leading_zeros_and_numbers_the_rest(tmp_path: Path) -> None:
    def classes(*cells: object) -> tuple[str, ...]:
        rows = "".join(f"{cell},{j}\n" for j, cell in enumerate(cells))
        (tmp_path / "t.csv").write_text("label,x\n" + rows)
        return import_bank(tmp_path / "o.bank", {"val": tmp_path / "t.csv"}).classes("val")

    assert classes("01", "1", "02", "2") == ("01", "02", "1", "2")
    assert classes("10", "2", "10") == ("val-2", "val-10")
    assert classes("10.0", "2.0") == ("val-2", "val-10")


def test_a_parquet_file_may_number_its_classes_in_any_type(tmp_path: Path) -> None:
    for kind in (pl.Int8, pl.UInt64, pl.Float64, pl.String):
        frame().with_columns(pl.col("label").cast(kind)).write_parquet(tmp_path / "t.parquet")
        bank = import_bank(tmp_path / "o.bank", {"val": tmp_path / "t.parquet"})
        assert bank.classes("val") == ("val-0", "val-1", "val-2")
        np.testing.assert_array_equal(bank.labels, y)


def test_missing_columns_and_damaged_tables_are_named(tmp_path: Path) -> None:
    whole_table().write_csv(tmp_path / "t.csv")
    with pytest.raises(BankError, match="no column 'label'; its columns begin with x0"):
        import_whole(tmp_path / "o.bank", tmp_path / "t.csv")
    (tmp_path / "e.csv").write_text("")
    with pytest.raises(BankError, match=r"e\.csv cannot be imported: empty CSV"):
        import_whole(tmp_path / "o.bank", tmp_path / "e.csv")


def test_export_and_import_agree(make: Callable[..., Bank], tmp_path: Path) -> None:
    bank = make(dtype="float16")
    export_npz(bank, tmp_path / "all.npz")
    again = import_whole(tmp_path / "again.bank", tmp_path / "all.npz")
    assert again.meta.sha256 == bank.meta.sha256
    export_npz(bank, tmp_path / "novel.npz", "novel")
    novel = import_bank(tmp_path / "novel.bank", {"novel": tmp_path / "novel.npz"})
    assert novel.classes("novel") == bank.classes("novel")
    np.testing.assert_array_equal(novel.features, bank.select("novel"))
    np.savez(tmp_path / "plain.npz", X=X, y=y)
    with pytest.raises(BankError, match="does not say which class is in which split"):
        import_whole(tmp_path / "o.bank", tmp_path / "plain.npz")
    with pytest.raises(BankError, match="cannot be written"):
        export_npz(bank, tmp_path / "none" / "x.npz")


def test_an_export_on_a_full_disk_leaves_the_older_file(
    make: Callable[..., Bank], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = make()
    export_npz(bank, tmp_path / "all.npz")
    older = (tmp_path / "all.npz").read_bytes()

    def fail(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(BankError, match="No space left on device"):
        export_npz(bank, tmp_path / "all.npz", "novel")
    assert (tmp_path / "all.npz").read_bytes() == older
    assert not list(tmp_path.glob(".*"))


def test_classes_of_one_file_are_dealt_to_val_and_novel(tmp_path):
    X, y = np.arange(24.0).reshape(12, 2), np.repeat(list("dbacfe"), 2)
    np.savez(tmp_path / "all.npz", X=X, y=y)
    bank = import_dealt(tmp_path / "my.bank", tmp_path / "all.npz")
    assert len(bank.classes("val")) == 3
    assert {*bank.classes("val"), *bank.classes("novel")} == set("abcdef")
    own = "val" if "d" in bank.classes("val") else "novel"
    np.testing.assert_array_equal(bank.select(own, "d"), X[:2])


def test_a_share_of_the_classes_is_drawn_for_val(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(24, 4)), np.repeat(np.arange(8), 3)
    np.savez(tmp_path / "all.npz", X=X, y=y)
    drawn = [
        import_dealt(tmp_path / f"{at}.bank", tmp_path / "all.npz", val_classes=0.5, seed=seed)
        for at, seed in enumerate((0, 0, 1))
    ]
    assert [len(bank.classes("val")) for bank in drawn] == [4, 4, 4]
    assert drawn[0].classes("val") == drawn[1].classes("val") != drawn[2].classes("val")
    with pytest.raises(BankError, match=r"val_classes = 1.5 must be a share"):
        import_dealt(tmp_path / "x.bank", tmp_path / "all.npz", val_classes=1.5)


def test_three_classes_are_too_few_to_deal(tmp_path):
    np.savez(tmp_path / "all.npz", X=np.eye(3), y=list("abc"))
    with pytest.raises(BankError, match="3 classes; 4 or more"):
        import_dealt(tmp_path / "my.bank", tmp_path / "all.npz")
