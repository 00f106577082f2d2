"""From a spec to its methods: heads, solvers and penalties with all settings resolved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from firthshot.experiments.cell import Calibration, Method
from firthshot.experiments.spec import Spec

if TYPE_CHECKING:
    from firthshot.banks import Bank

COSINE_DECAY = 1e-3  # the published weight decay of the cosine head


def spec_methods(spec: Spec, shots: int, source: Bank | None = None) -> Iterator[Method]:
    """Yield every method of a spec for a number of shots, the reference heads last.

    ``source`` is the bank whose base classes Distribution Calibration asks.
    """
    from firthshot.objective import PENALTIES

    for head in spec.heads:
        for family in spec.penalties:
            for prior in spec.priors if PENALTIES[family].takes_prior else ("uniform",):
                for calibration in _calibrations(spec, source):
                    method = _method(spec, head, family, prior, shots)
                    yield msgspec.structs.replace(method, calibration=calibration)
    if spec.references:
        yield from references(spec)


def _calibrations(spec: Spec, source: Bank | None) -> list[Calibration | None]:
    """Return Distribution Calibration with every number of artificial rows, or nothing."""
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
    return [_reference("centroid", {}), _reference("least-squares", {"ridge": spec.ridge})]


def _method(spec: Spec, head: str, family: str, prior: str, shots: int) -> Method:
    l2, l2_kind = _l2(spec, head, family)
    return Method(
        head=head,
        head_options=head_options(spec, head),
        solver=spec.solver,
        solver_options=solver_options(spec, head, shots),
        family=family,
        prior=prior,
        coefficients=spec.grid(family),
        l2=l2,
        l2_kind=l2_kind,
        # The theory is about KL(U‖p): another prior has no such coefficient.
        theory=spec.theory and family == "firth" and prior == "uniform",
    )


def _reference(head: str, options: dict[str, Any]) -> Method:
    return Method(
        head, options, "closed-form", {}, "none", "uniform", (0.0,), 0.0, "mean-square", False
    )


def head_options(spec: Spec, head: str) -> dict[str, Any]:
    """Return the settings of a head: the spec's, or the defaults of a head of one's own."""
    from firthshot.engine import registered_heads

    fields: dict[str, dict[str, Any]] = {
        "linear": {"start": spec.start},
        "cosine": {"scale": spec.scale},
        "mlp": {"hidden": spec.hidden},
    }
    if head in fields:
        return fields[head]
    own: Any = registered_heads()[head]()
    return asdict(own)  # its defaults, which make part of a cell's identity


def _l2(spec: Spec, head: str, family: str) -> tuple[float, str]:
    """Return the L2 beside the family and its kind: the spec's, else as published."""
    published = head == "cosine" and family != "l2"
    l2 = spec.l2 if spec.l2 is not None else (COSINE_DECAY if published else 0.0)
    return l2, spec.l2_kind or ("weight-decay" if published else "mean-square")


def solver_options(spec: Spec, head: str, shots: int) -> dict[str, Any]:
    """Return the settings of the solver: the spec's over those published for the head."""
    from firthshot.engine import Converged, paper_sgd, registered_heads

    if spec.solver == "shared-lbfgs":
        return {}
    if spec.solver == "converged":
        return _merge(asdict(Converged()), spec.converged)
    published = asdict(paper_sgd(registered_heads()[head](), shots))
    published.pop("score_after")
    return _merge(published, spec.sgd)


def _merge(defaults: dict[str, Any], settings: msgspec.Struct) -> dict[str, Any]:
    """Return the defaults with what the spec sets."""
    given = {name: getattr(settings, name) for name in settings.__struct_fields__}
    return {**defaults, **{name: value for name, value in given.items() if value is not None}}
