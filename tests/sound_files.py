"""A small sound file of every format that is read, and its reader as the product calls it."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, WIDTH = 12, 3


@dataclass(frozen=True)
class Reader:
    """One way into the product.

    ``make`` writes a sound file to a path that ends in ``ending``; ``read`` opens it and uses what
    it holds, and raises nothing but errors of the `FirthshotError` family. ``modules`` must be
    importable. ``name``, where given, is what the file has to be called.
    """

    ending: str
    make: Callable[[Path], object]
    read: Callable[[Path], object]
    modules: tuple[str, ...] = field(default=())
    name: str = "file"

    def place(self, folder: Path) -> Path:
        return folder / f"{self.name}{self.ending}"


def _X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)


def _y() -> np.ndarray:
    return np.repeat(np.arange(3), ROWS // 3)


# Features: banks, models, files to import


def make_bank(path: Path) -> None:
    from firthshot.banks import save_bank

    splits = ["base", "val", "novel"]
    notes = {"a": "b"}
    save_bank(path, _X(), _y(), classes=list("abc"), class_splits=splits, notes=notes)


def read_bank(path: Path) -> None:
    from firthshot.banks import diagnose, load_bank

    bank = load_bank(path)
    for split in bank.splits:
        bank.select(split)
    diagnose(bank)
    fit(path)


def make_model(path: Path) -> None:
    from firthshot.estimators import FirthClassifier

    FirthClassifier(standardize=True).fit(_X(), np.array(list("abc"))[_y()]).save(path)


def read_model(path: Path) -> None:
    from firthshot import load_model

    load_model(path).predict_proba(_X())


def make_npz(path: Path) -> None:
    np.savez_compressed(path, X=_X(), y=_y(), classes=np.array(list("abc")))


def make_npy(path: Path) -> None:
    np.save(path, _X())
    np.save(path.with_name("labels.npy"), _y())


def read_npy(path: Path) -> None:
    np.save(path.with_name("labels.npy"), _y())
    import_file(f"{path},{path.with_name('labels.npy')}")


def make_hdf5(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("all_feats", data=_X(), compression="gzip", chunks=(4, WIDTH))
        file["all_labels"], file["count"] = _y(), np.array([ROWS])


def make_torch(path: Path) -> None:
    import torch

    torch.save((torch.tensor(_X()), torch.tensor(_y())), path)


def make_pickle(path: Path, protocol: int = 4) -> None:
    classes = {name: [*_X()[_y() == k]] for k, name in enumerate("abc")}
    path.write_bytes(pickle.dumps(classes, protocol))


def import_file(path: Path | str) -> None:
    from firthshot.banks import make_bank
    from firthshot.banks._importers import _name_classes
    from firthshot.banks._sources import read_source

    source = read_source(str(path))
    names, index = _name_classes(source, "novel")
    make_bank(source.features, index, name="n", classes=names, class_splits=["novel"] * len(names))


# Tables


def _frame() -> Any:
    import polars as pl

    columns = {f"x{j}": _X()[:, j].round(3) for j in range(WIDTH)}
    names = np.array(list("abc"))[_y()]
    return pl.DataFrame({"id": np.arange(ROWS), "label": names, **columns, "n": np.arange(ROWS)})


def make_table(path: Path) -> None:
    kind, frame = path.suffix, _frame()
    if kind == ".parquet":
        frame.write_parquet(path)
    elif kind == ".jsonl":
        frame.write_ndjson(path)
    elif kind == ".json":
        frame.write_json(path)
    else:
        frame.write_csv(path, separator="\t" if kind == ".tsv" else ",")


def make_lists(path: Path) -> None:
    import polars as pl

    pl.DataFrame({"label": _y(), "x": _X().tolist()}).write_parquet(path)


def make_texts(path: Path) -> None:
    import polars as pl

    words = [f'word {k} and "more", or so' for k in range(ROWS)]
    frame = pl.DataFrame({"id": np.arange(ROWS), "label": _y(), "text": words})
    if path.suffix == ".parquet":
        frame.write_parquet(path)
    elif path.suffix == ".jsonl":
        frame.write_ndjson(path)
    else:
        frame.write_csv(path, separator="\t" if path.suffix == ".tsv" else ",")


def fit(path: Path) -> None:
    from firthshot.own_data import Columns, Embedder, read_examples
    from firthshot.own_data._encoded import holds_texts

    if not holds_texts(path, Columns(), Embedder()):  # embedding is no part of it
        read_examples(str(path)).as_input()
    else:
        read_texts(path)


def predict(path: Path) -> None:
    from firthshot.own_data import Columns, Embedder, read_examples
    from firthshot.own_data._encoded import holds_texts

    columns = Columns(features=("x0", "x1", "x2"), classes=frozenset("abc"))
    if not holds_texts(path, columns, Embedder()):
        read_examples(str(path), columns, needs_label=False).as_input()
    else:
        read_texts(path)


def read_standard_input(path: Path) -> None:
    from firthshot.own_data import Columns
    from firthshot.own_data._texts import decode, lines_table, parse_items

    text = decode(path.read_bytes())
    parse_items(text, Columns()).as_input()
    if text.strip():
        lines_table(text, Columns(), "Standard input")


def regress(path: Path) -> None:
    from firthshot.formulas._tables import read_table

    read_table(path)


def read_texts(path: Path) -> None:
    from firthshot.backbones.datasets._readers import load_table
    from firthshot.backbones.datasets._readers import read_texts as read_dataset
    from firthshot.own_data import Columns
    from firthshot.own_data._texts import table_texts

    table_texts(load_table(path), path, Columns(), needs_label=True)
    read_dataset(path)


# Pictures, data sets of pictures, weights


def make_picture(path: Path, **options: Any) -> None:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (24, 16, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6  # turned
    if path.suffix in (".jpg", ".png", ".webp", ".tif"):
        options["exif"] = exif
    Image.fromarray(pixels).save(path, **options)


def make_animation(path: Path) -> None:
    from PIL import Image

    frames = [Image.new("RGB", (16, 16), (k, 0, 99)) for k in (9, 99, 199)]
    frames[0].save(path, save_all=True, append_images=frames[1:])


def make_deep_grey(path: Path) -> None:
    from PIL import Image

    Image.fromarray(np.arange(400, dtype=np.uint16).reshape(20, 20)).save(path)


def read_picture(path: Path) -> None:
    from firthshot.backbones.images import Preparation

    Preparation(8).pixels(path)


def make_cache(path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 4, 4, 3), dtype=np.uint8)
    content = {"image_data": pixels, "class_dict": {"a": [0, 1, 2], "b": [3, 4, 5]}}
    path.write_bytes(pickle.dumps(content, 2))


def read_cache(path: Path) -> None:
    from firthshot.backbones.datasets._pickles import read_pickles
    from firthshot.backbones.images import Preparation

    for example in read_pickles([path]).examples:
        Preparation(8).pixels(example.content, example.name)


def _weights() -> dict[str, Any]:
    import torch

    return {"layer.weight": torch.ones(4, 3), "layer.bias": torch.zeros(4)}


def make_state(path: Path, old: bool = False) -> None:
    import torch

    torch.save({"state_dict": _weights()}, path, _use_new_zipfile_serialization=not old)


_NOTES = {"setup": {"architecture": "conv4", "size": 84}, "classes": ["a", "b"], "epoch": {}}


def make_checkpoint(path: Path) -> None:
    from firthshot.backbones.training._files import write_tensors

    write_tensors(path, _weights(), _NOTES)


def read_weights(path: Path) -> None:
    from firthshot.backbones.encoders import load_encoder

    told = "" if path.suffix == ".safetensors" else "?architecture=conv4"
    try:
        load_encoder(f"{path}{told}")
    except FirthshotError as error:
        if "does not fit conv4" not in str(error):  # true of the sound file: it is a small one
            raise


def make_split(path: Path) -> None:
    path.write_text("filename,label\na.png,x\nb.png,y\n")


def read_split(path: Path) -> None:
    from firthshot.backbones.datasets._readers import read_rows

    read_rows(path)


def make_json_rows(path: Path) -> None:
    path.write_text(json.dumps(_X().tolist()))


def read_victim(path: Path) -> None:
    """Do what no reader may, to whatever is not sound: for the test of this test."""
    raw = path.read_bytes()
    if raw != b"sound":
        if sum(raw) % 2:
            os.abort()
        raise KeyError(raw)


READERS: dict[str, Reader] = {
    "bank": Reader(".bank", make_bank, read_bank),
    "model": Reader(".firth", make_model, read_model),
    "fit csv": Reader(".csv", make_table, fit),
    "fit tsv": Reader(".tsv", make_table, fit),
    "fit jsonl": Reader(".jsonl", make_table, fit),
    "fit parquet": Reader(".parquet", make_table, fit),
    "predict csv": Reader(".csv", make_table, predict),
    "predict jsonl": Reader(".jsonl", make_table, predict),
    "predict npz": Reader(".npz", make_npz, predict),
    "predict npy": Reader(".npy", make_npy, predict),
    "predict parquet": Reader(".parquet", make_lists, predict),
    "standard input": Reader(".txt", make_json_rows, read_standard_input),
    "regress csv": Reader(".csv", make_table, regress),
    "regress json": Reader(".json", make_table, regress),
    "regress parquet": Reader(".parquet", make_table, regress),
    "import csv": Reader(".csv", make_table, import_file),
    "import parquet": Reader(".parquet", make_lists, import_file),
    "import npz": Reader(".npz", make_npz, import_file),
    "import npy": Reader(".npy", make_npy, read_npy),
    "import hdf5": Reader(".h5", make_hdf5, import_file, ("h5py",)),
    "import torch": Reader(".pt", make_torch, import_file, ("torch",)),
    "import pickle": Reader(".pkl", make_pickle, import_file),
    "import old pickle": Reader(".pkl", partial(make_pickle, protocol=2), import_file),
    "texts csv": Reader(".csv", make_texts, read_texts),
    "texts tsv": Reader(".tsv", make_texts, read_texts),
    "texts jsonl": Reader(".jsonl", make_texts, read_texts),
    "texts parquet": Reader(".parquet", make_texts, read_texts),
    "cache pickle": Reader(".pickle", make_cache, read_cache, ("PIL",), "train"),
    "split csv": Reader(".csv", make_split, read_split, (), "train"),
    "weights torch": Reader(".pth", make_state, read_weights, ("torch",)),
    "weights old torch": Reader(".pth", partial(make_state, old=True), read_weights, ("torch",)),
    "weights safetensors": Reader(".safetensors", make_checkpoint, read_weights, ("torch",)),
    "picture png": Reader(".png", make_picture, read_picture, ("PIL",)),
    "picture grey png": Reader(".png", make_deep_grey, read_picture, ("PIL",)),
    "picture jpeg": Reader(".jpg", make_picture, read_picture, ("PIL",)),
    "picture tiff": Reader(".tif", make_picture, read_picture, ("PIL",)),
    "picture lzw tiff": Reader(
        ".tif", partial(make_picture, compression="tiff_lzw"), read_picture, ("PIL",)
    ),
    "picture webp": Reader(".webp", make_picture, read_picture, ("PIL",)),
    "picture gif": Reader(".gif", make_animation, read_picture, ("PIL",)),
    "picture bmp": Reader(".bmp", make_picture, read_picture, ("PIL",)),
    "picture ppm": Reader(".ppm", make_picture, read_picture, ("PIL",)),
}
VICTIM = Reader(".txt", lambda path: path.write_bytes(b"sound"), read_victim)
if "FIRTHSHOT_TEST_VICTIM" in os.environ:  # in a child process of the test
    READERS["victim"] = VICTIM
