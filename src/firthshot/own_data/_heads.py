"""The heads that `fit` can take, by name, with the parameters that the user gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.own_data._remarks import columns_differ

if TYPE_CHECKING:
    from firthshot.own_data._examples import Examples

AUTO = "auto"
HEADS = {
    AUTO: "FewShotClassifier",
    "linear": "FirthClassifier",
    "cosine": "FirthCosineClassifier",
    "mlp": "FirthMLPClassifier",
}
EXPLICIT_ONLY = ("calibrate", "standardize")


def make_head(head: str, given: dict[str, Any], examples: Examples | None = None) -> Any:
    """Return the unfitted estimator of a name.

    Parameters
    ----------
    head : str
        One of HEADS.
    given : dict
        Parameters of the estimator. ``class_weight``, "balanced" or "none", is one of every head.
    examples : Examples, optional
        The rows to fit, whose columns and class sizes settle what was not given.
    """
    from firthshot import estimators

    if head not in HEADS:
        raise FirthshotError(f"Head {head!r} is unknown: choose from {', '.join(HEADS)}.", "head")
    weight = given.get("class_weight")
    if weight not in (None, "balanced", "none"):
        raise FirthshotError(f"class_weight is {weight!r}: choose 'balanced' or 'none'.")
    kind = getattr(estimators, HEADS[head])
    parameters = {name: value for name, value in given.items() if name != "class_weight"}
    parameters |= _auto(given) if head == AUTO else _explicit(given, examples)
    unknown = set(parameters) - set(kind().get_params())
    if unknown:
        raise FirthshotError(
            f"Head {head!r} has no parameter {', '.join(sorted(unknown))}: leave it out, or name "
            "another head.",
            "head",
        )
    return kind(**parameters)


def _auto(given: dict[str, Any]) -> dict[str, Any]:
    for name in EXPLICIT_ONLY:
        if name in given:
            raise FirthshotError(
                f"{name} belongs to the heads linear, cosine and mlp: name one of them.", "head"
            )
    return {"class_prior": "training"} if given.get("class_weight") == "none" else {}


def _explicit(given: dict[str, Any], examples: Examples | None) -> dict[str, Any]:
    if examples is None:
        return {}
    uneven = bool(np.ptp(np.bincount(examples.coded_labels()[1])))
    balanced = given.get("class_weight") != "none" and uneven
    return {
        "calibrate": given.get("calibrate", True),
        "standardize": given.get("standardize", columns_differ(examples)),
        "class_weight": "balanced" if balanced else None,
    }


def counts_alike(estimator: Any) -> bool:
    """Tell whether classes count alike, however many rows they have."""
    parameters = estimator.get_params()
    prior = parameters["class_prior"]
    if prior is None:
        return bool(parameters["class_weight"] == "balanced")
    return isinstance(prior, str) and prior == "uniform"
