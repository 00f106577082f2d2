"""Damaged folders, full disks and changed banks: one sentence each, and nothing overwritten."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest

from experiments.toy import assert_same_run, bits, read_tables, toy_spec, write_bank
from firthshot.banks import load_bank, save_bank
from firthshot.errors import FirthshotError
from firthshot.experiments.run import workers
from firthshot.experiments.run.status import read_status
from firthshot.experiments.runner import run
from firthshot.experiments.spec.fields import Spec
from firthshot.experiments.spec.reading import load_spec
from firthshot.experiments.summary import summarise_many
from firthshot.report.gather import gather
from firthshot.report.runs import read_run
from listeners import Heard

HERE = Path(__file__).parent
MARKS = ("firthshot.cell", "firthshot.run")


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    return write_bank(tmp_path / "toy.bank")


@pytest.fixture
def spec(bank: Path) -> Spec:
    return toy_spec(bank, heads=["linear"])


@pytest.fixture
def finished(spec: Spec, tmp_path: Path) -> Path:
    run(spec, tmp_path / "run", workers=1, summary=False)
    return tmp_path / "run"


def snapshot(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def refused(spec: Spec, folder: Path, sentence: str) -> None:
    """Require one sentence, and a folder that is as it was."""
    before = snapshot(folder)
    with pytest.raises(FirthshotError, match=sentence) as caught:
        run(spec, folder, workers=1, summary=False)
    assert "\n" not in str(caught.value)
    assert snapshot(folder) == before


def a_part(folder: Path) -> Path:
    return sorted((folder / "parts").iterdir())[0]


@pytest.mark.parametrize("kind", ["parts", "bins", "trials"])
def test_a_table_cut_short_is_said_and_its_cell_computed_anew(
    spec: Spec, finished: Path, tmp_path: Path, kind: str
) -> None:
    shutil.copytree(finished, tmp_path / "sound")
    table = finished / kind / a_part(finished).name
    whole = table.read_bytes()
    for length in (0, 3, len(whole) // 2, len(whole) - 1):
        table.write_bytes(whole[:length])
        told = f"{table} is damaged: its cell is"
        status = read_status(finished)
        assert (status.damaged, status.finished) == (f"{told} not counted", status.cells - 1)
        with pytest.raises(FirthshotError, match="computed anew by firthshot run") as refusal:
            gather([finished])
        assert str(refusal.value).startswith(told)
        heard = Heard()
        outcome = run(spec, finished, workers=1, summary=False, listener=heard)
        assert heard.lines[0] == f"{told} computed anew; see {finished}/damaged."
        assert (finished / "damaged" / kind / table.name).read_bytes() == whole[:length]
        assert outcome.resumed == outcome.cells - 1
        assert_same_run(finished, tmp_path / "sound")
    assert not read_status(finished).damaged


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :]


@pytest.mark.parametrize("kind", ["parts", "bins", "trials"])
@pytest.mark.parametrize("sealed", [True, False], ids=["of today", "of an earlier version"])
def test_a_table_with_wrong_bytes_is_set_aside_and_its_cell_computed_anew(
    spec: Spec, finished: Path, tmp_path: Path, kind: str, sealed: bool
) -> None:
    shutil.copytree(finished, tmp_path / "sound")
    if not sealed:
        forget_checksums(finished)
        assert not read_status(finished).damaged
    table = finished / kind / a_part(finished).name
    bad = flipped(table.read_bytes(), 40) if sealed else b"PAR1" + bytes(90) + b"PAR1"
    table.write_bytes(bad)
    before = snapshot(finished)
    told = f"{table} is damaged: its cell is"
    status = read_status(finished)
    assert (status.damaged, status.finished) == (f"{told} not counted", status.cells - 1)
    for look in (gather, summarise_many):
        with pytest.raises(FirthshotError, match="computed anew by firthshot run"):
            look([finished])
    assert snapshot(finished) == before  # looking changes nothing
    heard = Heard()
    outcome = run(spec, finished, workers=1, summary=False, listener=heard)
    assert heard.lines[0] == f"{told} computed anew; see {finished}/damaged."
    assert (outcome.cells - outcome.resumed, outcome.failed) == (1, {})
    assert (finished / "damaged" / kind / table.name).read_bytes() == bad
    assert_same_run(finished, tmp_path / "sound")
    again = run(spec, finished, workers=1)
    assert again.resumed == again.cells


def forget_checksums(folder: Path) -> None:
    """Write every table again as versions without checksums did."""
    for table in folder.glob("*/*.parquet"):
        marks = pl.read_parquet_metadata(table)
        kept = {key: text for key, text in marks.items() if key in MARKS}
        pl.read_parquet(table).write_parquet(table, metadata=kept)


@pytest.mark.parametrize("kind", ["folder", "nowhere", "pipe"])
def test_what_is_called_a_part_and_is_no_file(spec: Spec, finished: Path, kind: str) -> None:
    odd = finished / "parts" / ("e" * 32 + ".parquet")
    make = {"folder": odd.mkdir, "nowhere": lambda: odd.symlink_to("gone"), "pipe": None}
    (make[kind] or (lambda: os.mkfifo(odd)))()
    for look in (read_status, lambda path: gather([path]), lambda path: run(spec, path)):
        with pytest.raises(FirthshotError, match=f"{odd} is not a part of a run: move it"):
            look(finished)


def test_several_damaged_tables_are_one_sentence(finished: Path) -> None:
    for part in sorted((finished / "parts").iterdir())[:3]:
        (finished / "trials" / part.name).write_bytes(b"PAR1")
    said = read_status(finished).damaged
    assert "is damaged, as are 2 more such files: their cells are not" in said


@pytest.mark.parametrize("name", ["notes.txt", "a.parquet", "f" * 32 + ".csv"])
def test_a_foreign_file(spec: Spec, finished: Path, name: str) -> None:
    (finished / "parts" / name).write_text("mine")
    refused(spec, finished, f"{name} is not a part of a run: move it")


def test_a_part_of_another_run(spec: Spec, finished: Path, tmp_path: Path) -> None:
    other = msgspec.structs.replace(spec, trials=3)
    run(other, tmp_path / "other", workers=1, summary=False)
    stranger = a_part(tmp_path / "other")
    (finished / "parts" / stranger.name).write_bytes(stranger.read_bytes())
    refused(spec, finished, "belongs to another run")


def test_a_part_under_another_name(spec: Spec, finished: Path) -> None:
    a_part(finished).rename(finished / "parts" / ("0" * 32 + ".parquet"))
    refused(spec, finished, "belongs to another run")


def test_a_part_without_its_other_tables(spec: Spec, finished: Path) -> None:
    (finished / "bins" / a_part(finished).name).unlink()
    refused(spec, finished, "lacks its table in bins/: delete it")


def test_a_changed_spec_is_refused_with_the_difference(spec: Spec, finished: Path) -> None:
    changed = msgspec.structs.replace(spec, trials=9, coefficients=(0.0, 2.0))
    refused(changed, finished, r"trials was 4, is 9")
    refused(changed, finished, r"coefficients was \[0.0, 0.1, 1.0\], is \[0.0, 2.0\]")


def test_more_trials_are_added_to_those_that_are_there(
    spec: Spec, finished: Path, tmp_path: Path
) -> None:
    before = snapshot(finished)
    for trials in (6, 8):
        more = msgspec.structs.replace(spec, trials=trials)
        outcome = run(more, finished, workers=1)
    assert 2 * outcome.cells == 3 * outcome.resumed  # two of three steps were there
    again = run(more, finished, workers=1)
    assert again.resumed == again.cells == outcome.cells
    parts = {name: content for name, content in before.items() if name.startswith("parts")}
    assert parts.items() <= snapshot(finished).items()
    assert load_spec(str(finished)).trials == 8
    run(more, tmp_path / "fresh", workers=1)
    assert_same_rows(finished, tmp_path / "fresh")
    assert read_run(finished).status.complete
    refused(spec, finished, r"holds a run of more trials \(trials was 8, is 4\)")


def test_another_first_trial_gives_other_trials_of_the_same_numbering(
    spec: Spec, finished: Path, tmp_path: Path
) -> None:
    second = msgspec.structs.replace(spec, first_trial=4)
    run(second, tmp_path / "second", workers=1, summary=False)
    both = [read_tables(folder)["parts"] for folder in (finished, tmp_path / "second")]
    assert [sorted(set(rows["trial"])) for rows in both] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    whole = msgspec.structs.replace(spec, trials=8)
    run(whole, tmp_path / "whole", workers=1, summary=False)
    wanted = read_tables(tmp_path / "whole")["parts"]
    joined, order = pl.concat(both), list(wanted.columns)
    assert joined.sort(order).equals(wanted.sort(order))
    together = summarise_many([finished, tmp_path / "second"]).chosen
    at_once = summarise_many([tmp_path / "whole"]).chosen
    assert together["trials"].to_list() == at_once["trials"].to_list()
    assert max(together["trials"]) > 4  # more than either has
    refused(second, finished, "first_trial was not set, is 4")


def test_growth_that_was_interrupted_goes_on(spec: Spec, finished: Path, tmp_path: Path) -> None:
    (finished / "steps.json").write_text("[4, 6]")  # killed before the spec was written
    outcome = run(spec, finished, workers=1, summary=False)
    assert outcome.resumed == outcome.cells
    more = msgspec.structs.replace(spec, trials=5)
    run(more, finished, workers=1)
    a_part(finished).unlink()
    assert len(read_run(finished).missing) == 1
    run(load_spec(str(finished)), finished, workers=1)
    run(more, tmp_path / "fresh", workers=1)
    assert_same_rows(finished, tmp_path / "fresh")


def assert_same_rows(left: Path, right: Path) -> None:
    """Require the same bits whatever the cells; pooled bins are sums over cells."""
    for name in ("parts", "trials"):
        ours, theirs = (read_tables(folder)[name] for folder in (left, right))
        order = [column for column in ours.columns if column != "classes"]
        ours, theirs = ours.sort(order), theirs.sort(order)
        for column in ours.columns:
            assert bits(ours[column]) == bits(theirs[column]), (name, column)
    ours, theirs = (summarise_many([folder]).chosen for folder in (left, right))
    assert ours.drop("ece_pooled", "base_ece_pooled").equals(
        theirs.drop("ece_pooled", "base_ece_pooled")
    )


def test_words_about_a_run_may_change(spec: Spec, finished: Path) -> None:
    before = snapshot(finished)
    outcome = run(msgspec.structs.replace(spec, remark="new"), finished, workers=1, summary=False)
    assert outcome.resumed == outcome.cells
    assert snapshot(finished) == before


def test_a_bank_that_changed(spec: Spec, finished: Path, bank: Path) -> None:
    old = load_bank(bank)
    features = old.features.copy()
    features[0, 0] += 1
    save_bank(bank, features, old.labels, old.meta)
    refused(spec, finished, r"Bank 'toy' has changed since the run in .* began \(sha256 was")


def test_a_bank_with_flipped_bits(spec: Spec, finished: Path, bank: Path) -> None:
    content = bytearray(bank.read_bytes())
    content[-100] ^= 1
    bank.write_bytes(content)
    refused(spec, finished, "does not match its sha256")


def test_parts_without_a_spec(spec: Spec, finished: Path) -> None:
    (finished / "spec.toml").unlink()
    refused(spec, finished, "has parts but no spec.toml")


def test_a_second_run_waits(spec: Spec, finished: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    with (finished / ".lock").open() as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        refused(spec, finished, "Another run is writing to")


def test_the_folder_is_a_file(spec: Spec, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FirthshotError, match="is not a folder: choose another place"):
        run(spec, tmp_path / "file", workers=1, summary=False)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.name == "nt", reason="permissions")
def test_a_read_only_folder(spec: Spec, finished: Path) -> None:
    a_part(finished).unlink()
    folders = [finished, *(path for path in finished.iterdir() if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        code = "import sys; sys.path.insert(0, sys.argv[3]); from read_only import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, str(spec.banks[0]), str(finished), str(HERE)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "cannot be written to (Permission denied): choose another place" in done.stdout
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_a_full_disk_stops_the_run_and_keeps_what_is_finished(
    spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on the size of files makes the kernel refuse to write, as a full disk does."""
    import signal

    from firthshot.experiments.run import store

    target, stored = tmp_path / "run", []
    plain = store.write_whole

    def filling_up(path: Path, content: bytes) -> None:
        if path.parent.name == "parts":
            stored.append(path)
        limit = 64 if len(stored) == 3 else resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        plain(path, content)

    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    monkeypatch.setattr(store, "write_whole", filling_up)
    try:
        with pytest.raises(FirthshotError, match="There is no room left for"):
            run(spec, target, workers=1, summary=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        signal.signal(signal.SIGXFSZ, before)
    monkeypatch.undo()
    assert len(list((target / "parts").iterdir())) == 2  # whole ones, and no temporary file
    outcome = run(spec, target, workers=1, summary=False)
    assert outcome.resumed == 2
    run(spec, tmp_path / "whole", workers=1, summary=False)
    assert_same_run(target, tmp_path / "whole")


def test_a_failing_cell_is_recorded_and_retried(
    spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = workers.compute

    def failing(cell, bank, **more):
        if cell.condition.shots == 2 and cell.condition.split == "val":
            raise RuntimeError("the kernel met\n a ghost")
        return plain(cell, bank, **more)

    monkeypatch.setattr(workers, "compute", failing)
    outcome = run(spec, tmp_path / "run", workers=2, summary=False)
    assert list(outcome.failed.values()) == ["RuntimeError: the kernel met a ghost"]
    records = [json.loads(path.read_text()) for path in (tmp_path / "run/failures").iterdir()]
    assert "2-shot" in records[0]["cell"]
    assert "a ghost" in records[0]["details"]
    assert len(list((tmp_path / "run/parts").iterdir())) == outcome.cells - 1
    monkeypatch.undo()
    again = run(spec, tmp_path / "run", workers=2, summary=False)
    assert again.resumed == outcome.cells - 1
    assert not again.failed
    assert not list((tmp_path / "run/failures").iterdir())


def test_bad_rows_are_told_in_the_rows(tmp_path: Path) -> None:
    path = write_bank(tmp_path / "toy.bank")
    old = load_bank(path)
    features = old.features.copy()
    features[old.rows("novel")[0]] = np.nan
    save_bank(path, features, old.labels, old.meta)
    run(toy_spec(path, heads=["linear"], queries="rest"), tmp_path / "run", summary=False)
    rows = read_tables(tmp_path / "run")["parts"]
    status = set(rows["status"])
    assert {"ok", "invalid"} <= status <= {"ok", "invalid", "unstable"}


def test_polars_imported_before_numpy(bank: Path, tmp_path: Path) -> None:
    """polars loads NumPy at its first use, which must not happen in two threads at once."""
    done = subprocess.run(
        [sys.executable, str(HERE / "polars_first.py"), str(bank), str(tmp_path / "run")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "{}"), done.stderr
