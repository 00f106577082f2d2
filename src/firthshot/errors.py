"""The one family of errors that firthshot raises on purpose.

Every message is a single sentence that names the offending thing and the way out.
The command line prints it without a traceback and exits with code 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST_REASON = 200


class FirthshotError(ValueError):
    """Anything that a user can mend: bad input, bad file, impossible request."""


class BankError(FirthshotError):
    """A bank file or a file to import is missing, damaged, unsafe or ill-formed."""


class EpisodeError(FirthshotError):
    """An episode was asked for that the bank cannot hold."""


class ScaleWarning(UserWarning):
    """Columns vary on such different scales that the widest decide alone."""


class MissingExtraError(FirthshotError):
    """An optional dependency is needed; the message names the extra to install."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional package: pip install 'firthshot[{extra}]'.")


def reason(error: BaseException) -> str:
    """Return another library's error in one line without its full stop, for a sentence of ours.

    An error without words is named by its class.
    """
    words = " ".join(str(error).split())[:_LONGEST_REASON].rstrip(".")
    return words or type(error).__name__


def listed(names: Iterable[object], most: int = 12) -> str:
    """Return names with commas between; a list that goes on ends in "…"."""
    texts = [str(name) for name in names]
    return ", ".join(texts[:most] + ["…"] * (len(texts) > most))
