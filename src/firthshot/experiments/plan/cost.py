"""What a trial costs by its shape: for blocks of a few seconds, and for estimates of time.

Heads count the steps of their training (`Head.seconds`); scoring and calling come on top. The
constants were measured once on an AVX2 core; they decide the size of blocks, so that a plan is the
same on every machine. `estimate` measures how far this machine is from them.
"""

from __future__ import annotations

from firthshot.engine import TrialShape
from firthshot.experiments.plan.cell import TrialCondition
from firthshot.experiments.spec.method import Method

CELL_SECONDS = 5.0
_SCORE = 8e-9  # seconds per query, class and coefficient
_TRIAL = 1e-3  # seconds of every trial: sampling, gathering, calling
_NICE = tuple(int(m * 10**e) for e in range(5) for m in (1, 2, 5))


def trial_seconds(method: Method, shape: TrialShape) -> float:
    """Return the seconds that one trial takes on one core of the machine of the constants."""
    scoring = shape.Q * shape.K * shape.L * _SCORE + shape.Q * shape.d * 1e-9
    return _TRIAL + scoring + _training(method, shape)


def _calibrated(method: Method, shape: TrialShape, artificial: int) -> float:
    """Return the seconds of drawing artificial rows and training on them."""
    products = artificial * shape.K * shape.d
    passes = 100 if method.solver == "shared-lbfgs" else 12
    return products * (shape.d * 1.3e-11 + 4e-9 + passes * shape.K * shape.L * 7e-11)


def _training(method: Method, shape: TrialShape) -> float:
    if method.calibration and method.calibration.artificial:
        return _calibrated(method, shape, method.calibration.artificial)
    gram = shape.N * shape.N * shape.d * 1e-10
    return gram + method.engine_head().seconds(shape, method.solver_options.get("epochs"))


def block_size(method: Method, shape: TrialShape, trials: int) -> int:
    """Return how many trials make a cell of about `CELL_SECONDS`, in round numbers."""
    room = max(1.0, CELL_SECONDS / trial_seconds(method, shape))
    return min(trials, max(size for size in _NICE if size <= room))


def condition_shape(condition: TrialCondition, method: Method, sizes: dict[str, int]) -> TrialShape:
    """Return the shape of a trial; ``sizes`` has the bank's d and mean rows per class."""
    counts = condition.counts
    K = condition.actual_ways
    if isinstance(counts, int):
        N = counts * K
    else:
        N = counts[1] * K if counts[0] == "dirichlet" else sum(counts)
    rest = max(1, sizes["rows"] - N // K)
    per_class = rest if isinstance(condition.queries, str) else condition.queries
    return TrialShape(N, per_class * K, sizes["d"], K, len(method.coefficients) + method.theory)
