"""A file is whole or absent, whatever happens while it is written; where a user's files are."""

import subprocess
import sys
from pathlib import Path

import pytest

from firthshot.files import remove_abandoned, replacing, user_cache, user_data, write_whole


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "some.bin"
    write_whole(path, b"first")
    write_whole(path, memoryview(b"second"))
    assert path.read_bytes() == b"second"
    assert names(tmp_path) == ["some.bin"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_the_older_file(tmp_path, error):
    path = tmp_path / "some.bin"
    write_whole(path, b"older")

    def write_half():
        with replacing(path) as temporary:
            temporary.write_bytes(b"ha")
            assert path.read_bytes() == b"older"
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_bytes() == b"older"
    assert names(tmp_path) == ["some.bin"]


def test_the_content_is_on_the_disk_before_it_has_the_name(tmp_path, monkeypatch):
    path = tmp_path / "some.bin"
    there = []
    monkeypatch.setattr("os.fsync", lambda _handle: there.append(path.exists()))
    write_whole(path, b"content")
    assert there == [False, True]  # the file, then its folder


def test_a_folder_that_is_not_there_is_the_caller_s_to_explain(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "absent" / "some.bin", b"content")


HOLD = """
import sys, time
from pathlib import Path
from firthshot.files import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_bytes(b"half")
    print("ready", flush=True)
    time.sleep(600)
"""


def test_temporary_files_of_the_dead_are_removed_and_those_of_the_living_stay(tmp_path):
    held, mine = tmp_path / "figure.svg", tmp_path / ".notes.tmp"
    mine.write_text("mine")
    writer = subprocess.Popen([sys.executable, "-c", HOLD, str(held)], stdout=subprocess.PIPE)
    with writer:
        assert writer.stdout.readline() == b"ready\n"
        (left,) = tmp_path.glob(".figure.svg.*.tmp")
        remove_abandoned(tmp_path)
        assert left.exists()
        writer.kill()
    assert left.read_bytes() == b"half"
    remove_abandoned(tmp_path)
    assert names(tmp_path) == [mine.name]
    remove_abandoned(tmp_path / "absent")


@pytest.fixture
def home(monkeypatch):
    for name in ("FIRTHSHOT_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    return Path("/home/me")


@pytest.mark.parametrize(
    ("system", "cache", "data"),
    [
        ("linux", ".cache/firthshot", ".local/share/firthshot"),
        ("darwin", "Library/Caches/firthshot", "Library/Application Support/firthshot"),
        ("win32", "AppData/Local/firthshot/Cache", "AppData/Local/firthshot"),
    ],
)
def test_every_system_has_its_place_for_caches_and_data(home, monkeypatch, system, cache, data):
    monkeypatch.setattr("sys.platform", system)
    assert (user_cache(), user_data()) == (home / cache, home / data)


@pytest.mark.usefixtures("home")
def test_the_environment_names_other_folders(monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/fast")
    monkeypatch.setenv("XDG_DATA_HOME", "/large")
    assert (user_cache(), user_data()) == (Path("/fast/firthshot"), Path("/large/firthshot"))
    monkeypatch.setenv("FIRTHSHOT_CACHE", "/mine")
    assert user_cache() == Path("/mine")
