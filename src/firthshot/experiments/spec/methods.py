"""From a spec to its methods: heads, solvers and penalties with all settings resolved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import msgspec

from firthshot.banks import Bank
from firthshot.engine import Converged, Head, Sgd, Solver, registered_heads
from firthshot.errors import FirthshotError
from firthshot.experiments.schema import CLOSED_FORM
from firthshot.experiments.spec.fields import ConvergedSettings, Spec
from firthshot.objective import PENALTIES, Penalty


def head_kind(head: str) -> type[Head]:
    """Return the class of a head that is registered in this process."""
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
        plain: Any = {"prior": self.prior, "l2": self.l2, "l2_kind": self.l2_kind}
        return Penalty(self.family, coefficients, **plain)


def spec_methods(spec: Spec, shots: int, source: Bank | None = None) -> Iterator[Method]:
    """Yield every method of a spec for a number of shots, the reference heads last.

    ``source`` is the bank whose base classes Distribution Calibration asks.
    """
    for head in spec.heads:
        for family in head_families(spec, head):
            for prior in spec.priors if PENALTIES[family].takes_prior else ("uniform",):
                for calibration in _calibrations(spec, source):
                    method = _method(spec, head, family, prior, shots)
                    yield msgspec.structs.replace(method, calibration=calibration)
    if spec.references:
        yield from references(spec)


def head_families(spec: Spec, head: str) -> tuple[str, ...]:
    """Return the penalties of a head: its own, the spec's, or none where it has no use for one."""
    kind = head_kind(head)
    return (kind.families or spec.penalties) if kind.penalised else ("none",)


def _calibrations(spec: Spec, source: Bank | None) -> list[Calibration | None]:
    asked = spec.calibration
    if asked is None or source is None:
        return [None]
    name, sha256 = source.name, source.meta.sha256
    return [
        Calibration(name, sha256, artificial, asked.neighbours, asked.alpha)
        for artificial in asked.artificial
    ]


def references(spec: Spec) -> list[Method]:
    """Return the reference heads, trained on the trials of every run."""
    return [
        Method(
            name, head_options(spec, name), CLOSED_FORM, {}, "none", "uniform", (0.0,), 0.0,
            "mean-square", False,
        )
        for name, kind in registered_heads().items()
        if kind.reference
    ]  # fmt: skip


def _method(spec: Spec, head: str, family: str, prior: str, shots: int) -> Method:
    l2, l2_kind = _l2(spec, head, family)
    kind = head_kind(head)
    return Method(
        head=head,
        head_options=head_options(spec, head),
        solver=kind.own_solver or spec.solver,
        solver_options=solver_options(spec, head, shots),
        family=family,
        prior=prior,
        coefficients=kind.grid if kind.grid and family != "none" else spec.grid(family),
        l2=l2,
        l2_kind=l2_kind,
        # The theory is about KL(U‖p): another prior has no such coefficient.
        theory=spec.theory and family == "firth" and prior == "uniform",
    )


def head_options(spec: Spec, head: str) -> dict[str, Any]:
    """Return the settings of a head: the spec's, else the defaults of its class."""
    kind: Any = head_kind(head)
    # Defaults too make part of a cell's identity.
    fields = (*kind.spec_fields, *kind.sgd_fields)
    return {**asdict(kind()), **{name: getattr(spec, name) for name in fields}}


def _l2(spec: Spec, head: str, family: str) -> tuple[float, str]:
    """Return the L2 beside the family and its kind: the spec's, else as published."""
    kind = head_kind(head)
    if not kind.penalised:
        return 0.0, "mean-square"
    own = family != "l2" or bool(kind.families)
    published = kind.published_l2 if own else (0.0, "mean-square")
    if kind.families:  # the spec's is for heads that take the spec's penalties
        return published
    return published[0] if spec.l2 is None else spec.l2, spec.l2_kind or published[1]


def solver_options(spec: Spec, head: str, shots: int) -> dict[str, Any]:
    """Return the settings of the solver: the spec's over those published for the head."""
    solver = head_kind(head).own_solver or spec.solver
    if solver in ("shared-lbfgs", CLOSED_FORM):
        return {}
    if solver == "converged":
        own = spec.converged if spec.solver == "converged" else ConvergedSettings()
        return _merge(asdict(Converged()), own)
    published = asdict(head_kind(head)().published_sgd(shots))
    published.pop("score_after")
    return _merge(published, spec.sgd)


def _merge(defaults: dict[str, Any], settings: msgspec.Struct) -> dict[str, Any]:
    given = {name: getattr(settings, name) for name in settings.__struct_fields__}
    return {**defaults, **{name: value for name, value in given.items() if value is not None}}
