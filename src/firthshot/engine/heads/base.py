"""What a head says of itself, and the heads that are registered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

from firthshot.engine.options import Converged, Sgd, Solver
from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from firthshot.engine._trial import Fitted, Trial
    from firthshot.objective import L2Kind, PenaltyTables

# Measured once on an AVX2 core. They decide how many trials make a cell of a run, so that a plan is
# the same on every machine; twice the value halves the cells and changes no result.
PRODUCT_SECONDS = 6e-11  # per multiply-add of the Gram product
TERM_SECONDS = 4e-9  # per softmax term


class TrialShape(NamedTuple):
    """The sizes of one trial: N support rows, Q queries, d features, K classes, L coefficients."""

    N: int
    Q: int
    d: int
    K: int
    L: int


class Head(ABC):
    """What is trained on the support rows: options, how it is trained, and what others ask of it.

    A head is a frozen dataclass that derives from this one, has a ``name`` and a `fit`, and is
    registered by `register_head`. All else has a default.

    Attributes
    ----------
    name : str
        What specs and tables call it.
    words : str
        What sentences and figures call it; the name where it is not set.
    solvers : tuple of Solver types
        Those that `fit` takes. A closed form takes any.
    penalised : bool
        Whether a penalty changes it. One without is trained once, with the penalty ``none``.
    families, grid : tuple
        The penalties that it takes, whatever a spec's are, and their coefficients; empty where it
        takes the spec's.
    own_solver : str
        The solver that trains it, whatever a spec's is: ``converged``, or ``closed-form``.
    transductive : bool
        Whether it sees all queries at once. Reports keep such heads apart.
    needs_base : bool
        Whether it asks the base classes of the bank: its option ``base`` is then their `BaseFacts`.
    reference : bool
        Whether it is trained beside the others in every run, for comparison.
    exact_theory : bool
        Whether λ = K/2 is exact Firth for it where the support rows are independent.
    published_l2 : (float, str)
        The L2 coefficient of the published training, and its kind.
    spec_fields, sgd_fields : tuple of str
        Options that are fields of a spec under the same name; those that SGD alone reads.
    estimator : str
        The class of `firthshot` that trains it on one support set like scikit-learn, if any.
    """

    name: ClassVar[str]
    words: ClassVar[str] = ""
    solvers: ClassVar[tuple[type[Solver], ...]] = (Sgd, Converged)
    penalised: ClassVar[bool] = True
    families: ClassVar[tuple[str, ...]] = ()
    grid: ClassVar[tuple[float, ...]] = ()
    own_solver: ClassVar[str] = ""
    transductive: ClassVar[bool] = False
    needs_base: ClassVar[bool] = False
    reference: ClassVar[bool] = False
    exact_theory: ClassVar[bool] = False
    published_l2: ClassVar[tuple[float, L2Kind]] = (0.0, "mean-square")
    spec_fields: ClassVar[tuple[str, ...]] = ()
    sgd_fields: ClassVar[tuple[str, ...]] = ()
    estimator: ClassVar[str] = ""

    @abstractmethod
    def fit(
        self, trial: Trial, solver: Solver, form: PenaltyTables, keep_weights: bool
    ) -> dict[int, Fitted]:
        """Train all coefficients of a trial; return what to score, by number of passes.

        Compiled code is imported here, so that naming a head costs no time.
        """

    def published_sgd(self, shots: int | None = None) -> Sgd:
        """Return the published settings of SGD, which may depend on the shots."""
        del shots
        return Sgd()

    def parameter_count(self, d: int, n_classes: int) -> int:
        """Return the number of trained parameters: weights and biases, or directions and norms."""
        return d * n_classes + n_classes

    def widest_layer(self, n_classes: int) -> int:
        """Return the widest layer that is trained: it decides the memory of a trial."""
        return n_classes

    def working_bytes(self, shape: TrialShape, itemsize: int) -> int:
        """Estimate the bytes that one trial in flight needs."""
        n, queries, d, ways, coefficients = shape
        gathered = (n + queries) * d + (n + queries) * (n + ways)
        width = self.widest_layer(ways)
        state = 7 * n * width * coefficients + 2 * d * width
        scores = 3 * queries * (ways * coefficients + (width if width > ways else 0))
        return itemsize * (gathered + state + scores)

    def seconds(self, shape: TrialShape, passes: int | None) -> float:
        """Estimate the seconds of training one trial; ``passes`` is None for solvers but SGD."""
        N, _, d, K, L = shape
        if passes is None:
            return N * N * N * 1e-10
        return passes * N * K * L * (TERM_SECONDS + min(N, d) * PRODUCT_SECONDS)


_HEADS: dict[str, type[Head]] = {}
HeadT = TypeVar("HeadT", bound=Head)


def register_head(head: type[HeadT]) -> type[HeadT]:
    """Let `train` and specs take a head, as a decorator of its class; the later of one name."""
    _HEADS[head.name] = head
    return head


def registered_heads() -> dict[str, type[Head]]:
    """Return every registered head by name."""
    return dict(_HEADS)


def check_trainable(head: Head, solver: Solver) -> None:
    """Refuse a head that is not registered, or that the solver does not train."""
    for what, value, kinds in (("head", head, Head), ("solver", solver, Solver)):
        if not isinstance(value, kinds):
            raise FirthshotError(
                f"{what} = {value!r} is none; see firthshot.engine for those there are."
            )
    if _HEADS.get(head.name) is not type(head):
        raise FirthshotError(f"The head {head.name!r} is not registered: see register_head.")
    if not isinstance(solver, head.solvers):
        solvers = " and ".join(f"'{kind.name}'" for kind in head.solvers)
        raise FirthshotError(
            f"The head {head.name!r} has no solver {solver.name!r}; it has {solvers}."
        )


def paper_sgd(head: Head, shots: int | None = None) -> Sgd:
    """Return the published settings of a head (the cosine head's passes depend on the shots)."""
    return head.published_sgd(shots)
