"""From a spec to a page without going back: what a command has made is handed on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from experiments.toy import toy_spec, write_bank
from firthshot.cli import app
from firthshot.experiments.spec import reading, to_toml
from firthshot.experiments.summary import tables


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what is called by its name."""
    counted: Counter[str] = Counter()

    def count(place: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(place, name)

        def counting(*arguments: Any, **named: Any) -> Any:
            counted[name] += 1
            return real(*arguments, **named)

        monkeypatch.setattr(place, name, counting)

    count(reading, "build_any")  # types and contradictions of a spec
    count(tables._Work, "finish")  # the tables of a summary
    return counted


def test_a_run_checks_its_spec_once_and_summarises_once(
    tmp_path: Path, calls: Counter[str]
) -> None:
    bank = write_bank(tmp_path / "toy.bank")
    file, out = tmp_path / "toy.toml", tmp_path / "run"
    file.write_text(to_toml(toy_spec(bank, trials=4, shots=[1])))
    calls.clear()
    found = CliRunner().invoke(app, ["run", str(file), "--out", str(out)], catch_exceptions=False)
    assert found.exit_code == 0
    assert (out / "report.html").is_file()
    assert calls == {"build_any": 1, "finish": 1}
