"""Ten million rows: the page holds aggregates; how long it takes is printed (no clock decides)."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

from experiments.test_summary_large import make
from firthshot.report.gather import gather
from firthshot.report.page.render import render
from firthshot.report.tables import make_tables


@pytest.mark.slow
def test_ten_million_rows(tmp_path: Path) -> None:
    written = make(tmp_path)
    (tmp_path / "spec.toml").write_text('name = "large"\n')
    (tmp_path / "banks.json").write_text("{}")
    start, cpu = time.perf_counter(), time.process_time()
    gathered = gather([tmp_path])
    summarised = time.process_time() - cpu
    page = render(gathered, (), make_tables(gathered))
    took, cpu = time.perf_counter() - start, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"\n{written:,} rows: summary and page in {took:.1f} s ({summarised:.1f} and "
        f"{cpu - summarised:.1f} s of processor time), {len(page) / 1e6:.2f} MB, "
        f"at most {memory:,.0f} MB of memory"
    )
    assert written > 10_000_000
    assert gathered.differences["count"].sum() == 2 * 72 * 8000
    assert len(page.encode()) < 2e6
