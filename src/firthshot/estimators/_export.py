"""What fitted heads compute, written once: a torch module and an ONNX file are made of it.

Everything is computed in double precision, as in the estimators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from firthshot.arrays import Array
from firthshot.errors import FirthshotError
from firthshot.estimators._graph import Graph, Value

if TYPE_CHECKING:
    from firthshot.estimators._few_shot.gaussian import Gaussian
    from firthshot.estimators._few_shot.neighbours import Neighbours
    from firthshot.estimators._few_shot.rows import Coordinates


TINY = 1e-300


def recorded(model: Any) -> tuple[Value, Array, int]:
    """Return the probabilities of a fitted head in a graph, its classes, and d of the input."""
    from firthshot.estimators import DistributionCalibrationClassifier, FewShotClassifier

    if isinstance(model, DistributionCalibrationClassifier):
        raise FirthshotError(
            f"{type(model).__name__} cannot be exported: fit a FewShotClassifier, FirthClassifier, "
            "FirthCosineClassifier or FirthMLPClassifier."
        )
    check_is_fitted(model)
    probabilities = _blended if isinstance(model, FewShotClassifier) else _head_probabilities
    return probabilities(model, Graph().input()), model.classes_, model.n_features_in_


def _head_probabilities(model: Any, x: Value) -> Any:
    """Record what ``predict_proba`` of an explicit head computes of rows ``x``."""
    from firthshot.estimators import FirthCosineClassifier

    if model.column_scale_ is not None:
        x = (x - model.column_scale_.mean) / model.column_scale_.spread
    if isinstance(model, FirthCosineClassifier):
        x = x * (model.scale_ / ((x * x).node("row_sum").node("sqrt") + 1e-5))
    logits = _logits(model._fitted_parameters(), x) / model.temperature_
    if model._prior_shift is not None:
        logits = logits + model._prior_shift
    return logits.node("softmax")


def _logits(parameters: dict[str, Array], x: Value) -> Any:
    if "coef_" in parameters:
        coef, intercept = parameters["coef_"], parameters["intercept_"]
        if len(coef) == 1:  # two classes
            coef = np.concatenate([-coef / 2, coef / 2])
            intercept = np.concatenate([-intercept / 2, intercept / 2])
        return x @ coef.T + intercept
    for number in range(len(parameters) // 2):
        x = x.node("maximum", 0.0) if number else x
        x = x @ parameters[f"coef_{number}_"] + parameters[f"intercept_{number}_"]
    return x


def _blended(model: Any, x: Value) -> Any:
    """Record the mixture of the kinds of columns, as `blend.mixed` does."""
    from firthshot.estimators._few_shot.blend import left_to_nothing

    blend, n_rows, K = model._blend, float(model._sets.weights[0].sum()), len(model.classes_)
    used = x if model._columns is None else x.node("columns", model._columns)
    nothing = left_to_nothing(blend.weights, n_rows)
    found = x.graph.constant(np.full(K, nothing / K))
    for number, weight in enumerate(blend.weights):
        if weight > 0:
            rows = _placed(model._places[number], x, used)
            heads, sharpness = model._heads[number].values(), blend.sharpness[number]
            logits = x.graph.constant(np.zeros(K))
            for a, scaled in zip(sharpness, heads, strict=True):
                if scaled.margin > 0:
                    logits = _head_logits(scaled.head, rows) * float(a / scaled.margin) + logits
            share = (1 - nothing) * weight / blend.weights.sum()
            found = logits.node("softmax") * float(share) + found
    raised = found * model.class_prior_
    return raised / raised.node("row_sum")


def _placed(place: Coordinates, x: Value, used: Value) -> Any:
    """Return the coordinates of rows, as `Coordinates.apply` does."""
    if place.kind == "power":
        x, used = _tempered(x), _tempered(used)
    outside = (x * x).node("row_sum") - (used * used).node("row_sum")
    if place.kind in ("power", "unit"):
        squares = (x * x).node("row_sum").node("maximum", TINY)
        used, outside = used / squares.node("sqrt"), outside / squares
    elif place.kind == "scaled":
        used = used / place.spread
    seen = (used - place.mean) / place.size
    inside = seen if place.basis is None else seen @ place.basis
    if not place.outside:
        return inside
    rest = outside / place.size**2
    if place.basis is not None:
        rest = rest + (seen * seen).node("row_sum") - (inside * inside).node("row_sum")
    return inside.node("joined", rest.node("maximum", 0.0).node("sqrt"))


def _tempered(x: Value) -> Any:
    """Return |x|^(3/4) with the sign of x."""
    size = (x * x).node("sqrt").node("maximum", TINY)
    return x / size.node("sqrt").node("sqrt")


def _head_logits(head: Any, rows: Value) -> Any:
    from firthshot.estimators._few_shot.gaussian import Gaussian
    from firthshot.estimators._few_shot.heads import FirthHead

    if isinstance(head, FirthHead):
        return rows @ head.weights[:-1] + head.weights[-1]
    return _gaussian(head, rows) if isinstance(head, Gaussian) else _neighbours(head, rows)


def _gaussian(head: Gaussian, rows: Value) -> Any:
    """Return log densities, up to a number for each row."""
    is_sphere = head.whitening.shape[-1] == 1
    whitening = head.whitening * np.eye(head.centre.shape[1]) if is_sphere else head.whitening
    means = head.away @ whitening
    white = (rows - head.centre) @ whitening
    distance = (white * white).node("row_sum") - white @ (2 * means.T)
    toll = head.directions * np.log(head.widening)
    return (distance + (means**2).sum(1)) * (-0.5 / head.widening) - 0.5 * toll


def _neighbours(head: Neighbours, rows: Value) -> Any:
    """Return log densities, up to a number for each row."""
    squares = (rows * rows).node("row_sum") - rows @ (2 * head.known.T)
    squares = squares + (head.known**2).sum(1)
    near = ((squares - squares.node("row_min")) * (-0.5 / float(head.width[0, 0]))).node("exp")
    return (near @ head.averaging).node("maximum", TINY).node("log")
