"""A record says on which instructions the bits depend."""

import json

import llvmlite.binding
import pytest

from benchmarks.common import describe_machine, machine_line
from firthshot.experiments.run.record import (
    FILE,
    Session,
    begin_session,
    instruction_set,
    machine_name,
    machines,
    processor_name,
    read_sessions,
)


@pytest.mark.parametrize(
    ("features", "name"),
    [
        ({"sse2": True, "avx": True, "avx2": True, "avx512f": True}, "AVX-512"),
        ({"sse2": True, "avx": True, "avx2": True, "avx512f": False}, "AVX2"),
        ({"sse2": True, "avx": True}, "AVX"),
        ({"neon": True}, "NEON"),
        ({"sse2": True}, ""),
    ],
)
def test_the_widest_vectors_are_named(monkeypatch, features, name):
    monkeypatch.setattr(llvmlite.binding, "get_host_cpu_features", lambda: features)
    assert instruction_set() == name
    assert machine_name().startswith(f"{processor_name()}, {name}".rstrip(", "))


def test_a_processor_that_llvm_does_not_know_has_no_instruction_set(monkeypatch):
    def fail():
        raise RuntimeError("no such processor")

    monkeypatch.setattr(llvmlite.binding, "get_host_cpu_features", fail)
    assert instruction_set() == ""
    assert ", ," not in machine_name()


def test_runs_and_benches_record_the_same_machine(monkeypatch):
    monkeypatch.setattr(llvmlite.binding, "get_host_cpu_features", lambda: {"avx2": True})
    bench = describe_machine(1)
    assert f"{bench['cpu']}, {bench['simd']}, " in begin_session().machine
    assert machine_line(bench).startswith(f"{processor_name()}, AVX2, ")


def test_records_of_older_versions_are_read(tmp_path):
    older = "AMD EPYC, 2 cores, Linux x86_64"
    record = [{"firthshot": "0.1.0", "machine": older}, {"firthshot": "0.1.0"}]
    (tmp_path / FILE).write_text(json.dumps(record))
    sessions = read_sessions(tmp_path)
    assert machines(sessions) == older
    newer = Session(firthshot="0.1.0", machine="AMD EPYC, AVX2, 2 cores, Linux x86_64")
    assert machines([*sessions, newer, newer]) == f"{older}; {newer.machine}"
