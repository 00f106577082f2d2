"""A few damaged files for every reader; ``python tests/mutations.py COUNT`` tries many."""

import random

import pytest

from mutations import READERS, mutate, try_reader, try_readers, usable
from sound_files import VICTIM

SLOW = ("parquet", "pickle", "hdf5")  # each of these files starts a process
FAST = [name for name in usable() if not name.endswith(SLOW)]


@pytest.mark.parametrize(
    ("names", "count"), [(FAST, 100), ([name for name in usable() if name not in FAST], 6)]
)
def test_damaged_files_end_in_documented_errors(names, count, tmp_path):
    for counts in try_readers(names, count, 0, tmp_path):
        assert counts.violations == []
        assert counts.sound + counts.refused == count
        assert counts.refused


def test_a_violation_is_found_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRTHSHOT_TEST_VICTIM", "1")
    monkeypatch.setitem(READERS, "victim", VICTIM)
    counts = try_reader("victim", 12, 0, tmp_path)
    assert counts.sound + len(counts.violations) == 12
    assert any("ended with" in words for words in counts.violations)
    assert any("KeyError" in words for words in counts.violations)
    assert len(list(tmp_path.glob("victim-0-*.txt"))) == len(counts.violations)


def test_mutations_are_the_same_for_the_same_seed():
    raw = b"id,label,x\n1,a,0.5\n2,b,0.7\n" * 20
    made = [mutate(raw, random.Random(seed)) for seed in range(50)]
    assert made == [mutate(raw, random.Random(seed)) for seed in range(50)]
    assert len(set(made)) > 45


def test_every_room_with_a_reader_is_there():
    assert {name.split()[0] for name in READERS} >= {
        *("bank", "model", "fit", "predict", "standard", "regress", "import", "texts"),
        *("cache", "weights", "picture"),
    }
