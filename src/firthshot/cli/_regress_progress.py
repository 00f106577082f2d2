"""Tell on stderr how far tests and intervals are, when they take long."""

from __future__ import annotations

import time

from firthshot.cli._screen import echo

FIRST_SECONDS = 2.0
EVERY_SECONDS = 10.0
_HINT = "; --wald needs no such search"


class Patience:
    """Print a line after two seconds, then one every ten; the first names the way round."""

    def __init__(self) -> None:
        self._next = time.monotonic() + FIRST_SECONDS
        self._hint = _HINT

    def tell(self, what: str, done: int, total: int) -> None:
        """Say "12 of 39 coefficients tested", if it is time."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY_SECONDS
        echo(f"{done} of {total} {what}{self._hint}.", err=True)
        self._hint = ""
