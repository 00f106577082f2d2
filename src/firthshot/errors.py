"""The one family of errors that firthshot raises on purpose.

Every message is a single sentence that names the offending thing and the way out.
The command line prints it without a traceback and exits with code 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_LONGEST_REASON = 200
_LONGEST_WORD, _LONGEST_LINE = 300, 2000
_LONG_WORD = re.compile(rf"\S{{{_LONGEST_WORD + 1},}}")
# Control characters (C0, DEL, C1), what turns the direction of writing, separators of lines, a mark
# of byte order, and halves of characters, as which Python reads file names that are not UTF-8.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    r"""Return text in which characters that a terminal obeys instead of showing are escaped.

    The escapes are those of JSON, such as ``\u001b``: text without such characters stays as it is.
    """
    return _HIDDEN.sub(lambda found: _SHORT.get(found[0], f"\\u{ord(found[0]):04x}"), text)


def one_line(text: str) -> str:
    """Return a message that is safe to show: visible, without the middle of what is too long."""
    words = _LONG_WORD.sub(lambda found: _cut(found[0], _LONGEST_WORD), visible(text))
    return _cut(words, _LONGEST_LINE)


def _cut(text: str, length: int) -> str:
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[-half:]}"


class FirthshotError(ValueError):
    """Anything that a user can mend: bad input, bad file, impossible request.

    The message says what is wrong and the way out, in words of Python; control characters of names
    in it are escaped. ``arguments`` are those that the way out is about, such as ``"label"`` or
    ``"drop=age"``: a command adds its options of these names to the message.
    """

    def __init__(self, message: str = "", *arguments: str) -> None:
        super().__init__(one_line(message))
        self.arguments = arguments

    def reworded(self, message: str) -> FirthshotError:
        """Return an error with another message about the same arguments."""
        return FirthshotError(message, *self.arguments)


class BankError(FirthshotError):
    """A bank file or a file to import is missing, damaged, unsafe or ill-formed."""


class EpisodeError(FirthshotError):
    """An episode was asked for that the bank cannot hold."""


class Advice(str):
    """A sentence of advice, and the ``arguments`` that it is about, as a `FirthshotError` has."""

    arguments: tuple[str, ...]

    def __new__(cls, sentence: str, *arguments: str) -> Advice:
        """Keep the sentence with the names of arguments."""
        made = super().__new__(cls, sentence)
        made.arguments = arguments
        return made


class ScaleWarning(UserWarning):
    """Columns vary on such different scales that the widest decide alone."""


class MissingExtraError(FirthshotError):
    """An optional dependency is needed; the message names the extra to install."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional package: run {install_line(extra)}.")


def install_line(extra: str) -> str:
    """Return how to install an extra: the package is on no index, so that a clone is needed."""
    return f"pip install '.[{extra}]' in the clone of firthshot"


def reason(error: BaseException) -> str:
    """Return another library's error in one line without its full stop, for a sentence of ours.

    An error without words is named by its class; one of the system says its words alone.
    """
    said = getattr(error, "strerror", None) or str(error)
    return " ".join(said.split())[:_LONGEST_REASON].rstrip(".") or type(error).__name__


@contextmanager
def refusing(
    what: str,
    kinds: type[Exception] | tuple[type[Exception], ...] = Exception,
    raised: type[FirthshotError] = FirthshotError,
) -> Iterator[None]:
    """Turn errors of these kinds into "WHAT: REASON."; our own pass."""
    try:
        yield
    except FirthshotError:
        raise
    except kinds as error:
        raise raised(f"{what}: {reason(error)}.") from None


def listed(names: Iterable[object], most: int = 12) -> str:
    """Return names with commas between; a list that goes on ends in "…"."""
    texts = [str(name) for name in names]
    return ", ".join(texts[:most] + ["…"] * (len(texts) > most))


def check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not among the named choices."""
    if value not in choices:
        raise FirthshotError(f"{what} is {value!r}; choose one of {', '.join(map(repr, choices))}.")
