"""A file that crashes, fills or holds up its reader does so to a child process alone."""

import io
import pickle
import struct
import subprocess
import zipfile

import numpy as np
import polars as pl
import pytest

from firthshot import guard
from firthshot.banks import read_data_pickle
from firthshot.banks._sources import read_source
from firthshot.errors import FirthshotError
from firthshot.guard import load_tensors, refuse_bomb, room_for, trial_fault
from firthshot.own_data import read_examples
from firthshot.tables import naming_table, parquet_fault, read_parquet

PANICS = (76, 78, 174, 389, 439)  # a byte of 255 there makes polars 2.1 panic


def made(tmp_path, *names):
    for name in names:
        (tmp_path / name).write_bytes(b"some bytes")
    return [tmp_path / name for name in names]


@pytest.mark.parametrize(
    ("function", "words"),
    [("crash", "crashes"), ("swell", "more memory"), ("spin", "far too long")],
)
def test_what_a_child_does_not_survive_is_a_fault(tmp_path, function, words):
    fault = trial_fault("victims", function, made(tmp_path, "one"))
    assert fault.path.name == "one"
    assert words in fault.words


def test_a_child_that_sleeps_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "SECONDS", 1)
    assert "more than 8 s" in trial_fault("victims", "sleep", made(tmp_path, "one")).words


def test_the_first_bad_file_is_named_and_good_ones_are_not_tried_again(tmp_path, monkeypatch):
    files = made(tmp_path, "first", "second", "third")
    fault = trial_fault("victims", "refuse_second", files)
    assert (fault.path.name, fault.words) == ("second", "it is the second. Really")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a child was started"))
    assert trial_fault("victims", "refuse_second", files[:1]) is None


def test_a_child_that_cannot_start_is_said_to(tmp_path, monkeypatch):
    monkeypatch.setattr(guard.sys, "executable", "/nowhere/python")
    with pytest.raises(FirthshotError, match="no process can be started"):
        trial_fault("victims", "refuse_second", made(tmp_path, "one"))


def test_panics_of_polars_stay_out_of_this_process(tmp_path, capfd):
    path = tmp_path / "bad.parquet"
    pl.DataFrame({"label": ["a", "b", "a"], "x": [0.1, 0.2, 0.3]}).write_parquet(path)
    whole = path.read_bytes()
    for place in PANICS:
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        refused = pytest.raises(FirthshotError, match=r"bad\.parquet cannot be read as a table")
        with refused, naming_table(path):
            read_parquet(path)
    assert "panicked" not in capfd.readouterr().err


def test_many_parquet_files_are_tried_at_once(tmp_path):
    paths = [tmp_path / f"{k}.parquet" for k in range(3)]
    for path in paths:
        pl.DataFrame({"x": [1.0]}).write_parquet(path)
    assert parquet_fault(paths) is None
    paths[1].write_bytes(b"PAR1" + bytes(20) + b"PAR1")
    fault = parquet_fault(paths)
    assert fault is not None
    assert fault.path == paths[1]


def test_fit_tries_a_parquet_file_once(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"label": ["a", "b"], "x": [0.1, 0.2]}).write_parquet(path)
    started, run = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: started.append(a) or run(*a, **k))
    read_examples(str(path))
    assert len(started) == 1


@pytest.mark.parametrize("ending", [".pkl", ".pickle"])
def test_a_pickle_that_numbers_an_entry_of_its_memo_absurdly_is_refused(tmp_path, ending):
    path = tmp_path / f"bomb{ending}"
    path.write_bytes(b"\x80\x02}r" + struct.pack("<I", 2**32 - 1) + b".")  # 64 GB of memo
    for read in (read_data_pickle, lambda path: read_source(str(path))):
        with pytest.raises(FirthshotError, match=r"bomb.* memory"):
            read(path)


def test_a_pickle_that_copies_itself_endlessly_is_refused(tmp_path):
    nested: list = []
    for _ in range(60):
        nested = [nested, nested]
    (tmp_path / "laughs.pkl").write_bytes(pickle.dumps(nested))
    with pytest.raises(FirthshotError, match="laughs"):
        read_data_pickle(tmp_path / "laughs.pkl")


def header(shape, dtype="<f4"):
    out = io.BytesIO()
    told = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, told)
    return out.getvalue()


@pytest.mark.parametrize("shape", [(1 << 28, 2), (1 << 60, 1 << 60), (-1, 2)])
def test_an_array_that_declares_more_than_it_has_is_refused(tmp_path, shape):
    raw = header(shape) + bytes(64)
    (tmp_path / "X.npy").write_bytes(raw)
    with zipfile.ZipFile(tmp_path / "f.npz", "w") as archive:
        archive.writestr("X.npy", raw)
    for name in ("X.npy", "f.npz"):
        with pytest.raises(FirthshotError, match="for which it is too short"):
            read_examples(str(tmp_path / name), needs_label=False)


def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "ROOM", 1 << 16)
    path = tmp_path / "f.npz"
    np.savez_compressed(path, X=np.zeros((1 << 12, 1 << 10), np.float32))
    for needs_label in (True, False):
        with pytest.raises(FirthshotError, match="may unpack to"):
            read_examples(str(path), needs_label=needs_label)


def test_a_data_set_without_content_is_refused_by_its_shape(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("all_feats", (1 << 30, 64), "f4", chunks=(1024, 64))
        file.create_dataset("all_labels", (1 << 30,), "i8", chunks=(1024,))
    with pytest.raises(FirthshotError, match="may unpack to"):
        read_source(str(path))


def test_a_tensor_of_one_number_repeated_is_refused(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "f.pt"
    wide = torch.zeros(1).expand(1 << 20, 1 << 12)
    torch.save((wide, torch.zeros(1, dtype=torch.int64).expand(1 << 20)), path)
    with pytest.raises(FirthshotError, match="may unpack to"):
        read_source(str(path))


def test_the_limit_grows_with_the_file():
    refuse_bomb(room_for(100), 100)
    with pytest.raises(FirthshotError, match="write it anew, uncompressed or in parts"):
        refuse_bomb(room_for(100) + 1, 100)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_long_name_in_a_torch_file_is_refused_before_torch_searches_it(tmp_path, zipped):
    torch, path = pytest.importorskip("torch"), tmp_path / "weights.pt"
    torch.save({"x" * 9_000: torch.ones(2)}, path, _use_new_zipfile_serialization=zipped)
    assert next(iter(load_tensors(path).values())).tolist() == [1.0, 1.0]
    torch.save({"x" * 70_000: torch.ones(2)}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(pickle.UnpicklingError, match="too long"):
        load_tensors(path)
