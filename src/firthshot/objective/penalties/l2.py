"""L2 in its three parametrisations, which the literature calls by one name.

All three are ½ c_W ‖W‖² + ½ c_b ‖b‖² with gradients c_W W and c_b b. They differ in c_W and c_b
alone, so that a solver may fold the two numbers into its update.
"""

from __future__ import annotations

from typing import NamedTuple

from firthshot.errors import FirthshotError
from firthshot.objective.penalties._family import PenaltyFamily

L2 = PenaltyFamily("l2", l2=1.0, title="L2")
L2_PARAMETRISATIONS = ("mean-square", "ridge", "weight-decay")


class L2Curvature(NamedTuple):
    """The two second derivatives: ``weights`` for every weight, ``bias`` for every bias."""

    weights: float
    bias: float


def l2_curvature(parametrisation: str, *, n_parameters: int, n_samples: int) -> L2Curvature:
    """Return c_W and c_b of a parametrisation of L2, for coefficient one.

    Parameters
    ----------
    parametrisation : str
        ``"mean-square"``: Σ θ² / P over all P parameters, biases included (the paper's logistic
        heads), c = 2/P. ``"ridge"``: ½‖W‖²/n without the bias (scikit-learn with C = 1/λ, against
        the mean loss), c_W = 1/n. ``"weight-decay"``: ½‖θ‖² with the biases (the `weight_decay`
        of SGD), c = 1.
    n_parameters : int
        Number of all trained parameters, of all layers, biases included.
    n_samples : int
        Number of training samples.
    """
    if parametrisation not in L2_PARAMETRISATIONS:
        known = ", ".join(L2_PARAMETRISATIONS)
        raise FirthshotError(f"L2 {parametrisation!r} is unknown; choose from {known}.")
    if n_parameters < 1 or n_samples < 1:
        raise FirthshotError("L2 needs one parameter and one sample or more.")
    if parametrisation == "mean-square":
        return L2Curvature(2.0 / n_parameters, 2.0 / n_parameters)
    if parametrisation == "ridge":
        return L2Curvature(1.0 / n_samples, 0.0)
    return L2Curvature(1.0, 1.0)
