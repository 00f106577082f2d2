"""Write what a fitted head computes as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.errors import FirthshotError, MissingExtraError
from firthshot.estimators._graph import ROWS, Graph, Value
from firthshot.files import raise_clearly, write_whole

OPSET, IR_VERSION = 18, 9  # read by onnxruntime 1.17 and later
_DOUBLE, _AXES, _LABELS = "rows", "axes", "labels"
# Kind of a node: ONNX's name and attributes. What reduces rows takes its axes as an input.
KINDS: dict[str, tuple[str, dict[str, int]]] = {
    "add": ("Add", {}),
    "sub": ("Sub", {}),
    "mul": ("Mul", {}),
    "div": ("Div", {}),
    "matmul": ("MatMul", {}),
    "columns": ("Gather", {"axis": 1}),
    "joined": ("Concat", {"axis": 1}),
    "row_sum": ("ReduceSum", {"keepdims": 1}),
    "row_min": ("ReduceMin", {"keepdims": 1}),
    "maximum": ("Max", {}),
    "sqrt": ("Sqrt", {}),
    "exp": ("Exp", {}),
    "log": ("Log", {}),
    "softmax": ("Softmax", {"axis": 1}),
}


def write_graph(found: Value, classes: Array, n_features: int, path: Path) -> Path:
    """Write a graph that ends in probabilities, with the labels beside them."""
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("Writing an ONNX file", "onnx") from None
    labels = _labels(classes)
    single, double = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
    node, describe = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    numbers = {f"c{i}": array for i, array in enumerate(found.graph.constants)}
    numbers |= {_AXES: np.array([1]), _LABELS: labels}
    made = onnx.helper.make_graph(
        [
            node("Cast", [ROWS], [_DOUBLE], to=double),
            *_nodes(found.graph, node),
            node("ArgMax", [found.name], ["best"], axis=1, keepdims=0),
            node("Gather", [_LABELS, "best"], ["label"]),
            node("Cast", [found.name], ["probabilities"], to=single),
        ],
        "firthshot",
        [describe(ROWS, single, ["n", n_features])],
        [
            describe("label", onnx.helper.np_dtype_to_tensor_dtype(labels.dtype), ["n"]),
            describe("probabilities", single, ["n", len(classes)]),
        ],
        [
            onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)
            for name, array in numbers.items()
        ],
    )
    opset = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(
        made, opset_imports=opset, ir_version=IR_VERSION, producer_name="firthshot"
    )
    onnx.checker.check_model(model)
    try:
        write_whole(path, model.SerializeToString())
    except OSError as error:
        raise_clearly(error, path if path.is_dir() else path.parent)
    return path


def _nodes(graph: Graph, node: Any) -> list[Any]:
    """Return the operations under ONNX's names."""
    found = []
    for number, (kind, inputs) in enumerate(graph.nodes):
        name, attributes = KINDS[kind]
        given = [_DOUBLE if one == ROWS else one for one in inputs]
        given += [_AXES] if "keepdims" in attributes else []
        found.append(node(name, given, [f"v{number}"], **attributes))
    return found


def _labels(classes: Array) -> Array:
    """Return the classes in a type that ONNX has."""
    kind = np.asarray(classes).dtype.kind
    if kind in "OUS":
        return np.array([str(label) for label in classes], object)
    if kind in "iu":
        return np.asarray(classes, np.int64)
    if kind in "bf":
        return np.asarray(classes)
    raise FirthshotError(f"Labels of type {np.asarray(classes).dtype} have no place in ONNX.")
