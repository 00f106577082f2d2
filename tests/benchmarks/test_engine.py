"""The bench runs end to end on tiny cases; what it measures is looked at, never judged."""

import pytest

from benchmarks import engine, engine_timing
from benchmarks.engine_cases import Case, all_cases
from benchmarks.engine_scaling import run, scaling_cases, scaling_markdown
from firthshot.engine import Cosine, Linear, Mlp
from firthshot.errors import FirthshotError

pytest.importorskip("torch")

TINY = engine_timing.Effort(seconds=0.01, repeats=2, baseline_seconds=0.01, probe_seconds=0.01)
PROMISED = {
    "case", "head", "ways", "shots", "d", "coefficients",
    "classifiers_per_s", "gflops", "peak_share", "ratio",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    cases = [Case(head, 4, 1, 16, passes=2) for head in (Linear(), Cosine(), Mlp())]
    monkeypatch.setattr(engine, "quick_cases", lambda: cases)
    monkeypatch.setattr(engine, "QUICK", TINY)
    monkeypatch.setattr(engine_timing, "STACKS", (2, 4))
    monkeypatch.setattr(engine, "sgemm_peak", lambda threads: 100.0)
    monkeypatch.setattr(engine, "profile_linear", dict)


def test_every_head_gives_the_promised_record():
    lines = []
    report = engine.run(quick=True, threads=1, say=lines.append)
    assert [record["head"] for record in report.records] == ["linear", "cosine", "mlp"]
    for record in report.records:
        assert set(record) >= PROMISED
        assert record["baseline_stacked"] in (2, 4)
        assert record["ratio"] > 0
        assert record["peak_share"] == pytest.approx(record["gflops"] / 100)
    assert set(report.extra["geomeans"]) == {"linear d16", "cosine", "mlp"}
    assert report.extra["full_run_check"]["case"] == "linear 4w 1s d16"
    assert sum("classifiers/s" in line for line in lines) == 3


def test_the_full_bench_holds_every_case_of_the_protocol():
    sizes = [(case.head.name, case.ways, case.shots, case.d) for case in all_cases()]
    for d in (512, 2048):
        for shots in (1, 5, 10, 15, 20, 25):
            assert ("linear", 16, shots, d) in sizes
    for ways, shots in ((20, 1), (20, 5), (20, 10), (100, 5)):
        assert ("cosine", ways, shots, 640) in sizes
    assert {("mlp", 16, 5, 512), ("mlp", 16, 25, 512)} <= set(sizes)
    assert len(sizes) == 18


def test_a_stack_that_does_not_fit_is_not_tried(monkeypatch):
    monkeypatch.setattr(
        engine_timing, "_STACK_BYTES", engine_timing.stack_bytes(Case(Linear(), 4, 1, 16), 2)
    )
    assert engine_timing.fastest_way(Case(Linear(), 4, 1, 16, passes=2), 1, 0.01) == (2, 1)


def test_a_case_that_is_not_there_is_one_sentence():
    with pytest.raises(FirthshotError, match="No case"):
        engine.run(quick=True, only="quadratic")


def test_a_case_that_cannot_be_trained_is_not_timed(monkeypatch):
    case = Case(Linear(), 4, 1, 16, passes=2)
    episodes = case.episodes(2)
    broken = case.bank.features * float("nan")

    class Broken:
        features = broken

    monkeypatch.setattr(Case, "bank", Broken)
    with pytest.raises(FirthshotError, match="cannot be timed"):
        engine_timing.trainer(case, episodes, 1)()


def test_the_scaling_table_doubles_one_size_at_a_time(monkeypatch):
    base = Case(Linear(), 4, 1, 16, passes=2)
    cases = scaling_cases(base)
    names = ("shots", "shots", "ways", "ways", "coefficients", "coefficients", "d", "d")
    assert tuple(name for name, _ in cases) == ("–", *names)
    sizes = [(case.shots, case.ways, case.n_coefficients, case.d) for _, case in cases]
    assert sizes[1:5] == [(2, 4, 8, 16), (4, 4, 8, 16), (1, 8, 8, 16), (1, 16, 8, 16)]
    monkeypatch.setattr("benchmarks.engine_scaling.BASE", base)
    monkeypatch.setattr("benchmarks.engine_scaling.QUICK", TINY)
    monkeypatch.setattr("benchmarks.engine_scaling.scaling_cases", lambda: cases)
    monkeypatch.setattr("benchmarks.engine_scaling.sgemm_peak", lambda threads: 100.0)
    report = run(quick=True, threads=1, say=lambda line: None)
    assert len(scaling_markdown(report).splitlines()) == 2 + 9
    assert report.records[0]["relative_time"] == 1.0


def test_the_profile_adds_up():
    from benchmarks.engine_profile import profile_linear

    shares = profile_linear(shots=1, passes=20)
    assert min(shares.values()) >= 0
    assert set(shares) >= {"product and momentum (drift)", "softmax and layout moves"}
