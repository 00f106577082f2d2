"""Compiled code is kept, and forgotten when any source behind it changes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import firthshot
from firthshot.kernels._cache import Patience

CALL = """
import numpy as np
from firthshot.kernels.streams import fill_uniform
out = np.empty(3)
fill_uniform(7, 0, 0, 0, 1.0, out)
print(out.tolist())
"""

CALLER = """
from firthshot.kernels import kernel
from firthshot.kernels.streams import uniform


@kernel
def call(word):
    return uniform(word)
"""


@pytest.fixture
def package(tmp_path):
    """Return the folder of a copy of the package's compiled rooms, without compiled code."""
    source, copy = Path(firthshot.__file__).parent, tmp_path / "src" / "firthshot"
    shutil.copytree(
        source / "kernels", copy / "kernels", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("__init__.py", "errors.py", "files.py", "lazy.py", "arrays.py"):
        shutil.copy(source / name, copy / name)
    return copy


def run(package, program=CALL, **environment):
    """Run a program with the copied package; return what it printed and what it warned of."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(package.parent), **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout, done.stderr


def compiled(package):
    return {path.name: path.stat().st_mtime_ns for path in package.rglob("*.nbc")}


def test_a_second_process_loads_what_the_first_compiled(package):
    first, before = run(package)[0], compiled(package)
    assert run(package)[0] == first
    assert any(name.startswith("streams.fill_uniform.") for name in before)
    assert compiled(package) == before


def test_a_long_compilation_is_said_once_and_never_of_kept_code(package):
    impatient = """
import logging
from firthshot.kernels import _cache
logging.basicConfig(level=logging.INFO, format="%(message)s")
_cache.PATIENCE = _cache.Patience(0.0)
"""
    assert run(package, impatient + CALL)[1].count("Compiling kernels") == 1
    assert "Compiling" not in run(package, impatient + CALL)[1]


def test_compilations_of_a_process_are_added_up(caplog, monkeypatch):
    clock = iter([0.0, 0.0, 0.5, 0.7, 0.9, 0.9, 5.0, 5.0, 6.0, 6.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    patience = Patience(1.5)
    with caplog.at_level("WARNING", logger="firthshot"):
        patience.begin()
        patience.begin()  # of a kernel that the first calls
        patience.end()
        patience.end()  # 0.9 s
        patience.begin()
        assert not caplog.messages
        patience.end()  # 1 s more
    assert len(caplog.messages) == 1


def test_an_edited_function_is_seen_by_those_that_call_it(package):
    (package / "kernels" / "caller.py").write_text(CALLER, "utf-8")
    program = "from firthshot.kernels.caller import call; print(call(0))"
    before = run(package, program)[0]
    assert run(package, program)[0] == before
    called = package / "kernels" / "streams.py"
    assert "+ 0.5) * 2.0**-32" in called.read_text("utf-8")
    called.write_text(called.read_text("utf-8").replace("+ 0.5)", "+ 0.25)"), "utf-8")
    assert float(run(package, program)[0]) == float(before) / 2


def test_a_torn_file_is_compiled_again(package):
    first = run(package)[0]
    for path in package.rglob("*.nbc"):
        path.write_bytes(path.read_bytes()[:-7])
    torn = compiled(package)
    assert run(package)[0] == first
    assert all(compiled(package)[name] > when for name, when in torn.items() if "fill" in name)


def test_processes_that_compile_at_once_agree(package):
    program = CALL.replace("np.empty(3)", "np.empty(3, np.float32 if {} else np.float64)")
    commands = [[sys.executable, "-c", program.format(number % 2)] for number in range(8)]
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for command in commands
    ]
    printed = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0] * 8
    # What they left behind is sound, for either signature.
    for number in range(2):
        again = run(package, program.format(number))[0]
        assert set(printed[number::2]) == {again}


def test_imported_modules_count_directly_or_not():
    from firthshot.kernels._cache import _reachable

    kernels = Path(firthshot.__file__).parent / "jeffreys" / "_kernels"
    found = _reachable(kernels / "compiled.py")
    assert {kernels / "evaluate.py", kernels / "memory.py"} <= found
    assert Path(firthshot.__file__).with_name("kernels") / "elementary.py" in found
