from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from backbones.pictures import pixels, write_folder
from firthshot.backbones.datasets import open_dataset, published, published_homes, read_homes
from firthshot.backbones.images import decode
from firthshot.errors import FirthshotError

COUNTS = {"cat": 3, "ant": 2, "bee": 4}


def test_class_folders_are_sorted_by_class_and_file(tmp_path: Path) -> None:
    data = open_dataset(write_folder(tmp_path / "zoo", COUNTS))
    assert data.name == "zoo"
    assert data.classes == ["ant", "bee", "cat"]
    assert data.labels.tolist() == [0, 0, 1, 1, 1, 1, 2, 2, 2]
    assert data.names[:3] == ["zoo/ant/ant_000.png", "zoo/ant/ant_001.png", "zoo/bee/bee_000.png"]
    assert data.class_splits == ["novel"] * 3
    assert "all of zoo is novel" in data.notes["class split"]


def test_order_does_not_depend_on_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "train", COUNTS)
    write_folder(tmp_path / "test", COUNTS, start=2)
    before = open_dataset(tmp_path)
    original = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda self: sorted(original(self), reverse=True))
    after = open_dataset(tmp_path)
    assert before.names == after.names
    assert before.contents == after.contents


def test_parts_with_the_same_classes_are_put_together(tmp_path: Path) -> None:
    write_folder(tmp_path / "train", COUNTS)
    write_folder(tmp_path / "test", COUNTS, start=1)
    data = open_dataset(tmp_path)
    assert len(data) == 18
    # By file name first; the same name in two parts by part.
    assert data.names[:4] == [
        "train/ant/ant_000.png",
        "test/ant/ant_001.png",
        "train/ant/ant_001.png",
        "test/ant/ant_002.png",
    ]


def test_parts_with_their_own_classes_are_the_split(tmp_path: Path) -> None:
    write_folder(tmp_path / "base", {"yak": 2})
    write_folder(tmp_path / "val", {"gnu": 1, "elk": 1})
    write_folder(tmp_path / "novel", {"ape": 2})
    data = open_dataset(tmp_path)
    assert data.classes == ["yak", "elk", "gnu", "ape"]
    assert data.class_splits == ["base", "val", "val", "novel"]
    assert data.rows("val").tolist() == [2, 3]


def test_parts_that_overlap_in_part_are_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "train", {"yak": 1, "gnu": 1})
    write_folder(tmp_path / "test", {"gnu": 1, "ape": 1})
    with pytest.raises(FirthshotError, match="Class 'gnu' is in test/ and train/"):
        open_dataset(tmp_path)


def test_an_images_folder_is_entered_and_clutter_ignored(tmp_path: Path) -> None:
    write_folder(tmp_path / "images", {"ant": 1, "bee": 1})
    (tmp_path / "attributes").mkdir()
    (tmp_path / "images" / ".DS_Store").touch()
    (tmp_path / "images" / "ant" / "Thumbs.db").touch()
    (tmp_path / "images" / "ant" / "._ant.png").touch()
    assert len(open_dataset(tmp_path)) == 2


def test_tables_and_pickles_beside_class_folders_are_left_alone(tmp_path: Path) -> None:
    write_folder(tmp_path, {"ant": 1, "bee": 1})
    (tmp_path / "train.csv").write_text("something,else\n1,2\n")
    (tmp_path / "notes.pkl").write_bytes(b"")
    assert open_dataset(tmp_path).classes == ["ant", "bee"]


def test_empty_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(FirthshotError, match="holds no class folders"):
        open_dataset(tmp_path)
    write_folder(tmp_path, {"ant": 1})
    (tmp_path / "bee").mkdir()
    with pytest.raises(FirthshotError, match=r"class folder .*bee holds no pictures"):
        open_dataset(tmp_path)
    with pytest.raises(FirthshotError, match="There is nothing at"):
        open_dataset(tmp_path / "gone")


def test_first_rows_of_each_class(tmp_path: Path) -> None:
    homes = tmp_path / "split.json"
    homes.write_text(json.dumps({"train": ["cat"], "val": ["ant"], "test": ["bee"], "_by": "me"}))
    data = open_dataset(write_folder(tmp_path / "zoo", COUNTS), split_file=homes)
    assert data.classes == ["cat", "ant", "bee"]
    assert data.first_rows({"base": 1, "novel": 2}).tolist() == [0, 3, 4, 5, 6]
    assert data.first_rows({}).tolist() == list(range(9))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"val": ["ant"], "novel": ["ant"]}, "puts class 'ant' into val and into novel"),
        ({"val": ["ant"], "novel": ["owl"]}, "names 'owl'"),
        ({"val": "ant"}, "does not list class names under 'val'"),
        ({"other": ["ant"]}, "names no classes"),
        ([], "does not hold lists"),
    ],
)
def test_bad_splits_are_named(tmp_path: Path, content: Any, reason: str) -> None:
    path = tmp_path / "split.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FirthshotError, match=reason):
        open_dataset(write_folder(tmp_path / "zoo", COUNTS), split_file=path)


def test_classes_that_a_split_does_not_name_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "split.json"
    path.write_text(json.dumps({"novel": ["ant", "cat"]}))
    data = open_dataset(write_folder(tmp_path / "zoo", COUNTS), split_file=path)
    assert data.classes == ["ant", "cat"]
    assert data.notes["classes left out"].startswith("1 ")


def test_splits_as_text_files(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("ant\nbee\n\n")
    (tmp_path / "test.txt").write_text("cat\n")
    assert read_homes(tmp_path) == {"ant": "base", "bee": "base", "cat": "novel"}


def test_published_splits() -> None:
    sizes = {"mini-imagenet": (64, 16, 20), "cifar-fs": (64, 16, 20), "cub": (100, 50, 50)}
    assert set(published()) == set(sizes)
    for name, counts in sizes.items():
        homes = list(published_homes(name).values())
        assert tuple(homes.count(split) for split in ("base", "val", "novel")) == counts
    # Chen et al. take every second class for base, then every second of the rest for val.
    rule = ("base", "val", "base", "novel")
    for name, split in published_homes("cub").items():
        assert split == rule[(int(name[:3]) - 1) % 4]
    with pytest.raises(FirthshotError, match="No class split of 'mnist'"):
        published_homes("mnist")


def test_a_published_data_set_is_recognised(tmp_path: Path) -> None:
    names = sorted(published_homes("cifar-fs"))
    write_folder(tmp_path / "train", dict.fromkeys(names, 1), side=2)
    data = open_dataset(tmp_path / "train")
    assert data.name == "CIFAR-FS"
    assert data.class_splits.count("val") == 16
    assert "Bertinetto" in data.notes["class split"]


def test_csv_splits(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for number in range(4):
        Image.fromarray(pixels(number)).save(tmp_path / "images" / f"n{number}.png")
    (tmp_path / "train.csv").write_text("filename,label\nn1.png,dog\nn0.png,dog\n")
    (tmp_path / "test.csv").write_text("filename,label\nn3.png,owl\nn2.png,eel\n")
    data = open_dataset(tmp_path)
    assert data.names == ["dog/n0.png", "dog/n1.png", "eel/n2.png", "owl/n3.png"]
    assert data.class_splits == ["base", "novel", "novel"]
    (tmp_path / "val.csv").write_text("filename,label\nn9.png,cow\n")
    with pytest.raises(FirthshotError, match=r"val.csv lists n9.png"):
        open_dataset(tmp_path)
    (tmp_path / "val.csv").write_text("file,label\nn9.png,cow\n")
    with pytest.raises(FirthshotError, match="filename and label are needed"):
        open_dataset(tmp_path)


@pytest.mark.parametrize("protocol", [2, 4])
def test_mini_imagenet_caches(tmp_path: Path, protocol: int) -> None:
    for split, names in {"train": "ab", "val": "c", "test": "de"}.items():
        images = np.stack([pixels(ord(n) + k, 84) for n in names for k in range(2)])
        rows = {f"n{name}": [2 * place, 2 * place + 1] for place, name in enumerate(names)}
        content = {"image_data": images, "class_dict": rows}
        path = tmp_path / f"mini-imagenet-cache-{split}.pkl"
        path.write_bytes(pickle.dumps(content, protocol))
    data = open_dataset(tmp_path)
    assert data.classes == ["na", "nb", "nc", "nd", "ne"]
    assert data.class_splits == ["base", "base", "val", "novel", "novel"]
    np.testing.assert_array_equal(data.contents[3], pixels(ord("b") + 1, 84))
    alone = open_dataset(tmp_path / "mini-imagenet-cache-val.pkl")
    assert alone.class_splits == ["val"]


def test_tiered_imagenet_caches(tmp_path: Path) -> None:
    def png(seed: int) -> np.ndarray:
        file = io.BytesIO()
        Image.fromarray(pixels(seed)).save(file, "PNG")
        return np.frombuffer(file.getvalue(), np.uint8)[:, None]  # as OpenCV encodes

    labels = {"label_specific": np.array([1, 0, 1]), "label_specific_str": ["owl", "eel"]}
    (tmp_path / "test_images_png.pkl").write_bytes(pickle.dumps([png(0), png(1), png(2)], 2))
    (tmp_path / "test_labels.pkl").write_bytes(pickle.dumps(labels, 2))
    data = open_dataset(tmp_path)
    assert data.classes == ["eel", "owl"]
    assert data.class_splits == ["novel", "novel"]
    np.testing.assert_array_equal(np.asarray(decode(data.contents[2])), pixels(1))


def test_cifar100_python_version(tmp_path: Path) -> None:
    names = sorted(published_homes("cifar-fs"))
    rng = np.random.default_rng(0)
    raw = {part: rng.integers(0, 256, (100, 3072), np.uint8) for part in ("train", "test")}
    meta = {b"fine_label_names": [name.encode() for name in names]}
    (tmp_path / "meta").write_bytes(pickle.dumps(meta, 2))
    for part, data in raw.items():
        files = [f"{name}_{part}.png".encode() for name in names]
        content = {b"data": data, b"fine_labels": list(range(100)), b"filenames": files}
        (tmp_path / part).write_bytes(pickle.dumps(content, 2))
    data = open_dataset(tmp_path)
    assert data.name == "CIFAR-FS"
    assert data.classes[0] == "apple"
    assert data.names[:2] == ["test/apple/apple_test.png", "train/apple/apple_train.png"]
    red = raw["test"][names.index("apple")][:1024].reshape(32, 32)
    np.testing.assert_array_equal(data.contents[0][:, :, 0], red)


def test_pickles_of_python_2_are_read(tmp_path: Path) -> None:
    # What Python 2 wrote for {'data': array, 'labels': [1]}: text and raw bytes are one type.
    raw = bytes(range(12))
    program = (
        b"\x80\x02}q\x00(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
        b"K\x00\x85U\x01b\x87R(K\x01(K\x01K\x02K\x02K\x03tcnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x0c" + raw + b"tb"
        b"U\x06labels]K\x01au."
    )
    path = tmp_path / "CIFAR_FS_val.pickle"
    path.write_bytes(program)
    data = open_dataset(path)
    assert data.classes == ["val-001"]
    np.testing.assert_array_equal(data.contents[0].reshape(-1), np.arange(12))


class Evil:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return (Path.touch, (self.target,))


@pytest.mark.parametrize("name", ["mini-imagenet-cache-test.pkl", "test_images_png.pkl"])
def test_a_pickle_that_runs_something_is_refused(tmp_path: Path, name: str) -> None:
    target = tmp_path / "harm"
    (tmp_path / name).write_bytes(pickle.dumps({"image_data": Evil(target), "class_dict": {}}))
    with pytest.raises(FirthshotError, match="which is not data"):
        open_dataset(tmp_path / name)
    assert not target.exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"image_data": np.zeros((1, 4, 4, 3), np.uint8), "class_dict": {"a": [1]}}, "picture 1"),
        ({"image_data": np.zeros((1, 4, 4, 3), np.uint8), "class_dict": {}}, "no class"),
        ({"image_data": np.zeros((1, 4, 4, 3)), "class_dict": {"a": [0]}}, "float64"),
        ({"data": np.zeros((2, 4, 4, 3), np.uint8), "labels": [0]}, "2 pictures but 1 labels"),
        ({"something": 1}, "not a cache"),
        ({"data": np.zeros((1, 4, 4, 3), np.uint8), "labels": 3}, "not a cache"),
        ({"data": np.zeros((1, 4, 4, 3), np.uint8), "labels": ["x"]}, "not a cache"),
        (
            {"image_data": np.zeros((1, 4, 4, 3), np.uint8), "class_dict": {"a": [0], "b": [0]}},
            "more pictures to classes than it has",
        ),
    ],
)
def test_ill_formed_caches_are_named(tmp_path: Path, content: Any, reason: str) -> None:
    path = tmp_path / "cache-test.pkl"
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(FirthshotError, match=reason):
        open_dataset(path)


@pytest.mark.parametrize("content", [b"filename,label\na\rb,c\n", b"filename,label\n\xff,c\n"])
def test_split_files_that_cannot_be_read_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "train.csv").write_bytes(content)
    with pytest.raises(FirthshotError, match=r"train\.csv"):
        open_dataset(tmp_path)


TEXTS = pl.DataFrame(
    {
        "text": ["card lost", "hello, you", "lost it", "hi"],
        "label": ["loss", "greeting", "loss", "greeting"],
    }
)


def write_table(table: pl.DataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        table.write_parquet(path)
    elif path.suffix == ".jsonl":
        table.write_ndjson(path)
    else:
        table.write_csv(path, separator="\t" if path.suffix == ".tsv" else ",")


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
def test_labels_of_texts_are_the_text_of_the_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    write_table(TEXTS.with_columns(label=pl.Series(["01", "1", "02", "2"])), path)
    assert open_dataset(path).classes == ["01", "02", "1", "2"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
def test_tables_of_texts(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"intents.{ending}"
    write_table(TEXTS, path)
    data = open_dataset(path)
    assert data.kind == "text"
    assert data.classes == ["greeting", "loss"]
    assert data.contents == ["hello, you", "hi", "card lost", "lost it"]


def test_the_column_of_texts_is_found_or_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    TEXTS.rename({"text": "utterance"}).write_csv(path)
    assert len(open_dataset(path)) == 4
    TEXTS.rename({"text": "one"}).with_columns(two=pl.lit("x")).write_csv(path)
    with pytest.raises(FirthshotError, match=r"2 columns of words \(one, two\)"):
        open_dataset(path)
    assert open_dataset(path, text="one").contents[1] == "hi"
    with pytest.raises(FirthshotError, match="no column 'intent' of labels"):
        open_dataset(path, label="intent")


def test_texts_with_a_split_column_and_with_gaps(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    TEXTS.with_columns(split=pl.Series(["val", "test", "val", "test"])).write_csv(path)
    assert open_dataset(path).class_splits == ["val", "novel"]
    TEXTS.with_columns(split=pl.Series(["val", "test", "test", "test"])).write_csv(path)
    with pytest.raises(FirthshotError, match="'loss' in val and in novel"):
        open_dataset(path)
    path.write_text("text,label\nhi,a\n,b\n")
    with pytest.raises(FirthshotError, match="no text or no label in row 2"):
        open_dataset(path)
