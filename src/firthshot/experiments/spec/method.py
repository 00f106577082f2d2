"""A method: head, solver and penalty, resolved to plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from firthshot.errors import FirthshotError
from firthshot.experiments.schema import CLOSED_FORM

if TYPE_CHECKING:
    from firthshot.engine import Head, Solver
    from firthshot.objective import Penalty


def head_kind(head: str) -> type[Head]:
    """Return the class of a head that is registered in this process."""
    from firthshot.engine import registered_heads

    kinds = registered_heads()
    if head not in kinds:
        raise FirthshotError(
            f"The head {head!r} is not registered in this process: workers need it too "
            "(docs/extending.md)."
        )
    return kinds[head]


class Calibration(msgspec.Struct, frozen=True):
    """Distribution Calibration: the source bank's name and content, and the settings."""

    source: str
    sha256: str
    artificial: int
    neighbours: int
    alpha: float


class Method(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is trained: head, solver and penalty, resolved to plain data.

    ``theory`` asks for the tuning-free coefficient beside the grid.
    """

    head: str
    head_options: dict[str, Any]
    solver: str
    solver_options: dict[str, Any]
    family: str
    prior: str
    coefficients: tuple[float, ...]
    l2: float
    l2_kind: str
    theory: bool
    calibration: Calibration | None = None

    def engine_head(self) -> Head:
        """Return the engine's head."""
        return head_kind(self.head)(**self.head_options)

    def engine_solver(self) -> Solver:
        """Return the engine's solver."""
        from firthshot.engine import Converged, Sgd

        # The reference heads' optimum is a formula, whatever the solver.
        kinds: dict[str, Any] = {kind.name: kind for kind in (Sgd, Converged)}
        kinds[CLOSED_FORM] = Converged
        if self.solver not in kinds:
            raise FirthshotError(
                f"The engine has no solver {self.solver!r}: use 'sgd' or 'converged'."
            )
        made: Solver = kinds[self.solver](**self.solver_options)
        return made

    def penalty(self, coefficients: tuple[float, ...]) -> Penalty:
        """Return the penalty with these coefficients."""
        from firthshot.objective import Penalty

        plain: Any = {"prior": self.prior, "l2": self.l2, "l2_kind": self.l2_kind}
        return Penalty(self.family, coefficients, **plain)
