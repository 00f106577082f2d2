"""Which function trains which head, and what it costs in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firthshot.engine._closed_form import fit_centroid, fit_least_squares
from firthshot.engine._converged import fit_converged
from firthshot.engine._cosine import fit_cosine
from firthshot.engine._linear import fit_linear
from firthshot.engine._mlp import fit_mlp
from firthshot.engine._trial import Fitted, Trial
from firthshot.engine.options import (
    Centroid,
    Converged,
    Cosine,
    Head,
    LeastSquares,
    Linear,
    Mlp,
    Sgd,
    Solver,
)
from firthshot.errors import FirthshotError
from firthshot.objective import PenaltyTables

Fit = Callable[[Trial, Any, Any, PenaltyTables, bool], dict[int, Fitted]]

_FIT: dict[tuple[type[Head], type[Solver]], Fit] = {
    (Linear, Sgd): fit_linear,
    (Linear, Converged): fit_converged,
    (Cosine, Sgd): fit_cosine,
    (Mlp, Sgd): fit_mlp,
    # Closed forms: whichever solver the run's other heads use.
    (Centroid, Sgd): fit_centroid,
    (Centroid, Converged): fit_centroid,
    (LeastSquares, Sgd): fit_least_squares,
    (LeastSquares, Converged): fit_least_squares,
}


def register_head(head: type[Head], solver: type[Solver], fit: Fit) -> None:
    """Let `train` take a head: ``fit`` trains all coefficients of one trial (`fit_function`)."""
    _FIT[head, solver] = fit


def registered_heads() -> dict[str, type[Head]]:
    """Return every head that `train` takes, by name; of two with one name the later."""
    return {head.name: head for head, _ in _FIT}


def fit_function(head: Head, solver: Solver) -> Fit:
    """Return the function that trains a head: (trial, head, solver, form, keep_weights) → fitted.

    It trains all coefficients of one trial and returns what to score by number of passes.
    """
    for what, value, kinds in (("head", head, Head), ("solver", solver, Solver)):
        if not isinstance(value, kinds):
            raise FirthshotError(
                f"{what} = {value!r} is none; see firthshot.engine for those there are."
            )
    if not any(known is type(head) for known, _ in _FIT):
        raise FirthshotError(f"The head {head.name!r} is not registered: see register_head.")
    if (type(head), type(solver)) not in _FIT:
        solvers = " and ".join(f"'{s.name}'" for h, s in _FIT if h is type(head))
        raise FirthshotError(
            f"The head {head.name!r} has no solver {solver.name!r}; it has {solvers}."
        )
    return _FIT[type(head), type(solver)]


def working_bytes(
    head: Head, n: int, queries: int, d: int, ways: int, coefficients: int, itemsize: int
) -> int:
    """Estimate the bytes that one trial in flight needs."""
    gathered = (n + queries) * d + (n + queries) * (n + ways)
    width = head.widest_layer(ways)
    state = 5 * n * width * coefficients + 2 * d * width
    scores = 3 * queries * (ways * coefficients + (width if width > ways else 0))
    return itemsize * (gathered + state + scores)
