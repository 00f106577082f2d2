"""Families of penalties: what a coefficient λ puts into the gradient that the kernels compute.

To add a penalty whose gradient by the logits has the form below, enter a function in `FAMILIES`;
no kernel changes.

    dLoss/dz_c = probability p_c − prior u_c − label [c = y] + confidence p_c (log p_c − Σ p log p)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Terms:
    """The factors of the gradient, each a number or one per coefficient; plain cross-entropy as is.

    ``l2`` is what the coefficient adds to the L2 of the penalty, in its parametrisation.
    """

    probability: Array | float = 1.0
    prior: Array | float = 0.0
    label: Array | float = 1.0
    confidence: Array | float = 0.0
    l2: Array | float = 0.0


FAMILIES: dict[str, Callable[[Array], Terms]] = {
    "none": lambda _: Terms(),
    # λ KL(u‖p): the gradient of −Σ u log p is p − u.
    "firth": lambda lam: Terms(probability=1 + lam, prior=lam),
    # λ KL(p‖U)
    "confidence": lambda lam: Terms(confidence=lam),
    # The label gives a share ε = λ of its weight to u.
    "label-smoothing": lambda lam: Terms(prior=lam, label=1 - lam),
    "l2": lambda lam: Terms(l2=lam),
}
