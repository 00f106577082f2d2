"""Which function trains which head, and what it costs in memory."""

from __future__ import annotations

from firthshot.engine._cosine import fit_cosine
from firthshot.engine._form import GradientForm
from firthshot.engine._linear import fit_linear
from firthshot.engine._trial import Fitted, Trial
from firthshot.engine.options import Cosine, Head, Linear, Mlp, Sgd, Solver
from firthshot.errors import FirthshotError


def fit_head(
    trial: Trial, head: Head, solver: Solver, form: GradientForm, keep_weights: bool
) -> dict[int, Fitted]:
    """Train ``head`` on one trial with all coefficients; return what to score by number of passes."""
    if isinstance(head, Linear) and isinstance(solver, Sgd):
        return fit_linear(trial, head, solver, form, keep_weights)
    if isinstance(head, Cosine) and isinstance(solver, Sgd):
        return fit_cosine(trial, head, solver, form, keep_weights)
    raise FirthshotError(f"The head {head.name!r} has no solver {solver.name!r}.")


def parameter_count(head: Head, trial: Trial) -> int:
    """Return the number of trained parameters, biases included."""
    d, c = int(trial.support.shape[1]), trial.n_classes
    if isinstance(head, Mlp):
        first, second = head.hidden
        return d * first + first + first * second + second + second * c + c
    return d * c + c


def working_bytes(
    head: Head, n: int, queries: int, d: int, ways: int, coefficients: int, itemsize: int
) -> int:
    """Estimate the bytes that one trial in flight needs."""
    gathered = (n + queries) * d + (n + queries) * (n + ways)
    width = head.hidden[0] if isinstance(head, Mlp) else ways
    state = 5 * n * width * coefficients + 2 * d * width
    scores = 3 * queries * ways * coefficients
    return itemsize * (gathered + state + scores)
