"""Compiled kernels: many processes may begin with none, and nobody needs a place to keep them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import firthshot
from experiments.toy import write_bank

PACKAGE = Path(firthshot.__file__).parent
NOWHERE = "/proc/none"  # not even root can make it
needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
SENTENCE = "Compiled kernels cannot be kept"
KERNEL = """
import numpy as np
from firthshot.kernels.streams import uniform
print(uniform(np.uint64(1)), flush=True)
"""
WORK = """
import hashlib, sys
from pathlib import Path
import numpy as np
from experiments.toy import bits, read_tables, toy_spec
from firthshot import FirthClassifier
from firthshot.experiments import run
bank, folder = Path(sys.argv[1]), Path(sys.argv[2])
X, y = np.random.default_rng(0).normal(size=(30, 5)), np.arange(30) % 3
print(FirthClassifier().fit(X, y).predict_proba(X).tobytes().hex())
assert not run(toy_spec(bank), folder, workers=2, summary=False).failed
for name, table in read_tables(folder).items():
    for column in table.columns:
        print(name, column, hashlib.sha256(repr(bits(table[column])).encode()).hexdigest())
"""


def run_python(
    code: str, *arguments: Path, package: Path = PACKAGE, **variables: str
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(package.parent), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **variables},
        check=False,
    )


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """Return a copy of the package beside which nothing can be kept, whoever the user is."""
    package = tmp_path / "sealed" / "firthshot"
    bare = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, package, copy_function=os.symlink, ignore=bare)
    for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
        (folder / "__pycache__").write_text("a file, where numba needs a folder")
    return package


def without_places(code: str, *arguments: Path, package: Path) -> str:
    """Run without any place for kernels; return what was said beside the results."""
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), NOWHERE)
    nowhere["FIRTHSHOT_CACHE"] = ""
    done = run_python(code, *arguments, package=package, **nowhere)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(SENTENCE) == len(done.stderr.splitlines()) == 1
    return done.stdout


@needs_proc
def test_who_cannot_keep_kernels_is_told_once_and_works(sealed: Path) -> None:
    assert without_places(KERNEL, package=sealed).split() == [str(1.5 * 2.0**-32)]


@needs_proc
def test_kernels_go_to_the_users_cache_where_the_package_cannot_hold_them(
    sealed: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    done = run_python(KERNEL, package=sealed, FIRTHSHOT_CACHE=str(cache), NUMBA_CACHE_DIR="")
    assert (done.returncode, done.stderr) == (0, "")
    assert list((cache / "kernels").rglob("*.nbc"))


@needs_proc
@pytest.mark.slow  # compiles the kernels of a fit and of a sweep
def test_a_fit_and_a_sweep_without_a_place_have_the_same_bits(sealed: Path, tmp_path: Path) -> None:
    bank = write_bank(tmp_path / "toy.bank")
    kept = run_python(WORK, bank, tmp_path / "kept")
    assert kept.returncode == 0, kept.stderr
    assert without_places(WORK, bank, tmp_path / "unkept", package=sealed) == kept.stdout


@pytest.mark.slow  # eight processes compile the same kernels at once
def test_eight_processes_that_start_with_an_empty_cache(tmp_path: Path) -> None:
    bank = write_bank(tmp_path / "toy.bank")
    cache = tmp_path / "empty"

    def work(number: int) -> subprocess.CompletedProcess[str]:
        return run_python(WORK, bank, tmp_path / f"run-{number}", NUMBA_CACHE_DIR=str(cache))

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(work, range(8)))
    assert [(each.returncode, each.stderr) for each in done] == [(0, "")] * 8
    assert len({each.stdout for each in done}) == 1
    again = work(8)  # what they left behind is sound
    assert (again.returncode, again.stdout) == (0, done[0].stdout)
