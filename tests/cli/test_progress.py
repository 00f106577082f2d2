"""One bar and one kind of line for every piece of work."""

import io

import pytest

from firthshot.cli import _progress
from firthshot.cli._progress import ScreenProgress
from firthshot.cli._screen import screen


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that stands still until it is set."""
    now = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    return now


def a_screen(**options):
    return screen(file=io.StringIO(), width=90, **options)


def printed(progress):
    return progress.console.file.getvalue().splitlines()


def test_lines_come_now_and_then_and_at_the_end(clock):
    progress = ScreenProgress(a_screen())
    progress.start(10, "cells", done=2, unit="classifiers", units=800)
    for at in range(1, 9):
        clock[0] += 4
        progress.advance(units=100, words="1 failed" if at > 5 else "")
    assert printed(progress) == [
        "2 of 10 cells were finished before.",
        "5 of 10 cells, 25 classifiers/s.",
        "8 of 10 cells, 1 failed, 25 classifiers/s, 8 s left.",
        "10 of 10 cells, 1 failed, 25 classifiers/s.",
    ]


def test_the_time_left_follows_the_units_that_are_left(clock):
    meter = ScreenProgress(a_screen()).meter
    meter.start(8, "cells", 0, "classifiers", 4 * 10 + 4 * 1000)
    for _ in range(4):
        clock[0] += 1
        meter.advance(1, 10, "")
    assert meter.left == 400.0


def test_a_second_round_of_the_same_work_is_added():
    progress = ScreenProgress(a_screen())
    for _ in range(2):
        progress.start(3, "cells")
        progress.advance(3)
    assert [line.split(",")[0] for line in printed(progress)] == ["3 of 3 cells", "6 of 6 cells"]


def test_quick_work_is_not_shown_and_the_first_line_has_the_hint(clock):
    progress = ScreenProgress(a_screen(), patience=2.0, hint="--wald is quicker")
    progress.start(2, "tests")
    progress.advance()
    assert printed(progress) == []
    clock[0] += 3
    progress.advance()
    assert printed(progress) == ["2 of 2 tests, 0.7/s; --wald is quicker."]


def test_quiet_work_says_only_what_went_wrong():
    progress = ScreenProgress(a_screen(), quiet=True)
    progress.start(2, "cells", done=1)
    progress.say("a remark")
    progress.warn("Failed: a cell")
    progress.advance()
    assert printed(progress) == ["Failed: a cell"]


def test_a_terminal_has_a_bar_that_goes_away():
    with ScreenProgress(a_screen(force_terminal=True)) as progress:
        progress.start(2, "[things]")
        progress.advance()
    shown = progress.console.file.getvalue()
    assert "50 %" in shown
    assert "1 of 2 [things]" in shown
    assert shown.endswith("\x1b[2K")


def test_what_is_being_done_is_said_once_it_takes_long():
    progress = ScreenProgress(a_screen(), patience=0.05)
    progress.doing("Reading pets.csv")
    progress.doing("Loading the encoder")
    progress._timer.join()
    assert printed(progress) == ["Loading the encoder …"]
    progress.doing("Fitting")
    progress.advance()
    progress._timer.join()
    assert "Fitting …" not in printed(progress)  # it was over in time


def test_a_silent_start_does_not_begin_its_patience_anew(clock):
    progress = ScreenProgress(a_screen(), patience=60.0)
    clock[0] += 61
    progress.doing("Loading the encoder")
    progress._timer.join()
    progress.doing("Fitting")
    progress.finish()
    assert printed(progress) == ["Loading the encoder …"]


def test_a_terminal_shows_what_is_being_done_and_takes_it_away():
    with ScreenProgress(a_screen(force_terminal=True), patience=0.01) as progress:
        progress.doing("Loading the encoder")
        progress._timer.join()
    shown = progress.console.file.getvalue()
    assert "Loading the encoder …" in shown
    assert "%" not in shown
    assert shown.endswith("\x1b[2K")


def test_quiet_work_is_never_named():
    progress = ScreenProgress(a_screen(), patience=0.0, quiet=True)
    progress.doing("Loading the encoder")
    progress._timer.join()
    assert printed(progress) == []
