import errno
import json
import math

import pytest

from benchmarks.common import (
    OtherWork,
    Report,
    Timing,
    describe_machine,
    digits,
    geometric_mean,
    markdown_table,
    repeat_for,
    require_torch,
    sgemm_peak,
    write_json,
)
from firthshot.errors import FirthshotError, MissingExtraError


def test_a_report_is_written_with_the_promised_keys(tmp_path):
    records = [{"case": "a", "ratio": 2.0}, {"case": "b", "ratio": 8.0}, {"case": "c"}]
    write_json(tmp_path / "bench.json", Report(describe_machine(2), records, {"quick": True}))
    content = json.loads((tmp_path / "bench.json").read_text())
    assert {"machine", "records", "geomean_ratio", "quick"} == set(content)
    assert content["records"] == records
    assert content["geomean_ratio"] == pytest.approx(4.0)
    assert content["machine"]["threads"] == 2
    assert content["machine"]["cpu"]


def test_no_ratio_gives_no_mean():
    assert Report({}, [{"case": "a"}]).geomean_ratio is None


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(FirthshotError, match=r"Cannot write .*nowhere"):
        write_json(tmp_path / "nowhere" / "bench.json", Report({}, []))


def test_a_report_that_cannot_be_written_leaves_the_older_one(tmp_path, monkeypatch):
    path = tmp_path / "bench.json"
    path.write_text("older")

    def fail(_handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(FirthshotError, match="No space left"):
        write_json(path, Report({}, []))
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(path.name, "older")]


def test_timings_are_summed_up_by_median_and_spread():
    timing = Timing((1.0, 2.0, 4.0))
    assert (timing.median, timing.spread) == (2.0, 1.5)


def test_repeats_are_at_least_as_many_as_asked():
    calls = []
    assert len(repeat_for(lambda: calls.append(1), 0.0, at_least=4).seconds) == len(calls) == 4


def test_geometric_mean():
    assert geometric_mean([1, 10, 100]) == pytest.approx(10)


def test_peak_is_a_positive_number():
    assert 0 < sgemm_peak(1, size=64, repeats=2) < math.inf


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234.5, "1,230"), (12.34, "12.3"), (0.01234, "0.0123"), (0, "0"), (99.96, "100.0")],
)
def test_digits(value, text):
    assert digits(value) == text


def test_the_work_of_others_is_what_is_not_idle_and_not_ours(monkeypatch):
    readings = iter([(100.0, 50.0, 5.0), (110.0, 58.0, 8.0)])
    monkeypatch.setattr(OtherWork, "_read", staticmethod(lambda: next(readings)))
    assert OtherWork().share() == pytest.approx((8 - 3) / 10)


def test_the_work_of_others_is_unknown_without_a_record_of_it(monkeypatch):
    monkeypatch.setattr(OtherWork, "_read", staticmethod(lambda: None))
    assert OtherWork().share() is None


def test_the_machine_keeps_a_record_on_linux():
    reading = OtherWork._read()
    assert reading is None or reading[0] >= reading[1] >= 0


def test_markdown():
    lines = markdown_table(("a", "b"), [("x", "1")]).splitlines()
    assert lines == ["| a | b |", "|---|---:|", "| x | 1 |"]


def test_a_missing_torch_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"\.\[bench\]"):
        require_torch("The bench")
