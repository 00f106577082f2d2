"""Readers that a child process does not survive."""

import os
import resource
from pathlib import Path


def crash(path: Path) -> None:
    os.abort()


def swell(path: Path) -> None:
    assert len(bytearray(3 << 30)) > len(path.name)


def spin(path: Path) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1, -1))
    while path:
        pass


def sleep(path: Path) -> None:
    import time

    time.sleep(600)


def refuse_second(path: Path) -> None:
    if path.name == "second":
        raise ValueError("it is the second.\nReally")
