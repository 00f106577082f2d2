"""Refuse parameters of an estimator that mean nothing, before any work is done."""

from __future__ import annotations

from typing import Any

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.estimators._support import is_number

# What a coefficient may be beside a number.
COEFFICIENT_WORDS = {"lam": ("shots", "theory", "loo"), "l2": ("scale", "loo")}


def check_coefficient(name: str, value: Any, *, called: str | None = None) -> None:
    """Refuse a coefficient that is neither a number that can be used nor one of its words.

    Parameters
    ----------
    name : {"lam", "l2"}
    value : Any
    called : str, optional
        What the user calls it, such as ``--lam``.
    """
    words = COEFFICIENT_WORDS[name]
    if isinstance(value, str) and value in words:
        return
    if not is_number(value) or not 0.0 <= value < np.inf:
        allowed = " or ".join(f"'{word}'" for word in words)
        raise FirthshotError(
            f"{called or name} is {value!r}; give a number that is not negative, or {allowed}."
        )


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise FirthshotError(f"{name} is {value!r}; give True or False.")


def check_solver(tol: Any, max_iter: Any) -> None:
    """Refuse a tolerance or a number of iterations that no solver can stop at."""
    if not is_number(tol) or not 0.0 < tol < np.inf:
        raise FirthshotError(f"tol is {tol!r}; give a number above zero, such as 1e-6.")
    if not is_number(max_iter) or not max_iter >= 1 or max_iter != int(max_iter):
        raise FirthshotError(f"max_iter is {max_iter!r}; give a whole number, 1 or more.")
