"""Fitted heads as a torch module and as an ONNX file.

What a head computes is written once, below, and recorded as a `Graph` of which both are made.
Everything is computed in double precision, as here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from firthshot.errors import FirthshotError
from firthshot.estimators._graph import Graph, Value

if TYPE_CHECKING:
    import torch

    from firthshot.estimators._few_shot.gaussian import Gaussian
    from firthshot.estimators._few_shot.neighbours import Neighbours
    from firthshot.estimators._few_shot.rows import Coordinates

TINY = 1e-300


def to_torch(model: Any) -> torch.nn.Module:
    """Return a fitted head as a module: rows (n, d) in, probabilities (n, K) out.

    Its numbers are buffers in double precision, so that it moves with ``.to(device)`` and is saved
    with ``state_dict``; a cast of the network around it leaves them. The order of the classes is
    that of ``classes_``, the module's list ``classes``.
    """
    from firthshot.estimators._module import FittedModule

    return FittedModule(*_recorded(model), model.classes_, model.n_features_in_)


def to_onnx(model: Any, path: str | Path) -> Path:
    """Write a fitted head as an ONNX file and return its path.

    The input ``features`` is (n, d) in float32. The outputs are ``label`` (n,), of the labels
    themselves, and ``probabilities`` (n, K) in float32 in the order of ``classes_``. onnxruntime
    agrees with `predict_proba` to 1e-5.
    """
    from firthshot.estimators._onnx import write_graph

    return write_graph(*_recorded(model), model.classes_, model.n_features_in_, Path(path))


def _recorded(model: Any) -> tuple[Graph, Value]:
    """Return what a head computes, and its probabilities."""
    _require_exportable(model)
    graph = Graph()
    return graph, probabilities(model, graph.input(), graph)


def _require_exportable(model: Any) -> None:
    """Refuse what is not fitted, or has no form below."""
    from firthshot.estimators import FewShotClassifier, FirthClassifier, FirthMLPClassifier

    kinds = (FirthClassifier, FirthMLPClassifier, FewShotClassifier)
    if not isinstance(model, kinds):  # FirthCosineClassifier is a FirthClassifier
        raise FirthshotError(
            f"{type(model).__name__} cannot be exported: fit a FewShotClassifier, FirthClassifier, "
            "FirthCosineClassifier or FirthMLPClassifier."
        )
    check_is_fitted(model)


def probabilities(model: Any, x: Any, ops: Graph) -> Any:
    """Record what ``predict_proba`` computes of rows ``x``."""
    from firthshot.estimators import FewShotClassifier

    if isinstance(model, FewShotClassifier):
        return _blended(model, x, ops)
    logits = _logits(model, _seen(model, x, ops), ops) / model.temperature_
    if model._prior_shift is not None:
        logits = logits + ops.constant(model._prior_shift)
    return ops.softmax(logits)


def _seen(model: Any, x: Any, ops: Graph) -> Any:
    """Return rows as the head sees them: columns on one scale, unit length for the cosine head."""
    from firthshot.estimators import FirthCosineClassifier

    if model.column_scale_ is not None:
        scale = model.column_scale_
        x = (x - ops.constant(scale.mean)) / ops.constant(scale.spread)
    if isinstance(model, FirthCosineClassifier):
        x = x * (model.scale_ / (ops.sqrt(ops.row_sum(x * x)) + 1e-5))
    return x


def _logits(model: Any, x: Any, ops: Graph) -> Any:
    parameters = model._fitted_parameters()
    if "coef_" in parameters:
        coef, intercept = parameters["coef_"], parameters["intercept_"]
        if len(coef) == 1:  # two classes
            coef = np.concatenate([-coef / 2, coef / 2])
            intercept = np.concatenate([-intercept / 2, intercept / 2])
        return x @ ops.constant(coef.T) + ops.constant(intercept)
    for number in range(len(parameters) // 2):
        x = ops.at_least(x, 0.0) if number else x
        weights, bias = (parameters[f"{name}_{number}_"] for name in ("coef", "intercept"))
        x = x @ ops.constant(weights) + ops.constant(bias)
    return x


def _blended(model: Any, x: Any, ops: Graph) -> Any:
    """Return the mixture of the kinds of columns, as `blend.mixed` does."""
    from firthshot.estimators._few_shot.blend import left_to_nothing

    blend, n_rows = model._blend, float(model._sets.weights[0].sum())
    used = x if model._columns is None else ops.columns(x, model._columns)
    nothing = left_to_nothing(blend.weights, n_rows)
    found = ops.constant(np.full(len(model.classes_), nothing / len(model.classes_)))
    for number, weight in enumerate(blend.weights):
        if weight > 0:
            rows = _placed(model._places[number], x, used, ops)
            heads, sharpness = model._heads[number].values(), blend.sharpness[number]
            logits = ops.constant(np.zeros(len(model.classes_)))
            for a, scaled in zip(sharpness, heads, strict=True):
                if scaled.margin > 0:
                    found_logits = _head_logits(scaled.head, rows, ops)
                    logits = found_logits * float(a / scaled.margin) + logits
            share = (1 - nothing) * weight / blend.weights.sum()
            found = ops.softmax(logits) * float(share) + found
    raised = found * ops.constant(model.class_prior_)
    return raised / ops.row_sum(raised)


def _placed(place: Coordinates, x: Any, used: Any, ops: Graph) -> Any:
    """Return the coordinates of rows, as `Coordinates.apply` does."""
    outside = ops.row_sum(x * x) - ops.row_sum(used * used)
    if place.kind == "unit":
        squares = ops.at_least(ops.row_sum(x * x), TINY)
        used, outside = used / ops.sqrt(squares), outside / squares
    elif place.kind == "scaled":
        used = used / ops.constant(place.spread)
    seen = (used - ops.constant(place.mean)) / place.size
    inside = seen if place.basis is None else seen @ ops.constant(place.basis)
    if not place.outside:
        return inside
    rest = outside / place.size**2
    if place.basis is not None:
        rest = rest + ops.row_sum(seen * seen) - ops.row_sum(inside * inside)
    return ops.joined([inside, ops.sqrt(ops.at_least(rest, 0.0))])


def _head_logits(head: Any, rows: Any, ops: Graph) -> Any:
    from firthshot.estimators._few_shot.gaussian import Gaussian
    from firthshot.estimators._few_shot.heads import FirthHead

    if isinstance(head, FirthHead):
        return rows @ ops.constant(head.weights[:-1]) + ops.constant(head.weights[-1])
    is_gaussian = isinstance(head, Gaussian)
    return _gaussian(head, rows, ops) if is_gaussian else _neighbours(head, rows, ops)


def _gaussian(head: Gaussian, rows: Any, ops: Graph) -> Any:
    """Return log densities, up to a number for each row."""
    width = head.centre.shape[1]
    is_sphere = head.whitening.shape[-1] == 1
    whitening = head.whitening * np.eye(width) if is_sphere else head.whitening
    means = head.away @ whitening
    white = (rows - ops.constant(head.centre)) @ ops.constant(whitening)
    squares = (means**2).sum(1)
    distance = ops.row_sum(white * white) - white @ ops.constant(2 * means.T)
    widening = head.widening
    toll = head.directions * np.log(widening)
    scaled = (distance + ops.constant(squares)) * ops.constant(-0.5 / widening)
    return scaled - ops.constant(0.5 * toll)


def _neighbours(head: Neighbours, rows: Any, ops: Graph) -> Any:
    """Return log densities, up to a number for each row."""
    squares = ops.row_sum(rows * rows) - rows @ ops.constant(2 * head.known.T)
    squares = squares + ops.constant((head.known**2).sum(1))
    near = ops.exp((squares - ops.row_min(squares)) * (-0.5 / float(head.width[0, 0])))
    return ops.log(ops.at_least(near @ ops.constant(head.averaging), TINY))
