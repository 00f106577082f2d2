"""The operations of `_export` as the nodes of an ONNX graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.errors import FirthshotError, MissingExtraError
from firthshot.files import raise_clearly, write_whole

OPSET, IR_VERSION = 18, 9  # read by onnxruntime 1.17 and later
_INPUT, _LABEL, _PROBABILITIES = "features", "label", "probabilities"


def _onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("Writing an ONNX file", "onnx") from None
    return onnx


@dataclass(frozen=True)
class Value:
    """A value of a graph; its operators add nodes to the graph."""

    graph: Graph
    name: str

    def __add__(self, other: Any) -> Value:
        return self.graph.node("Add", self, other)

    def __sub__(self, other: Any) -> Value:
        return self.graph.node("Sub", self, other)

    def __mul__(self, other: Any) -> Value:
        return self.graph.node("Mul", self, other)

    def __truediv__(self, other: Any) -> Value:
        return self.graph.node("Div", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return self.graph.node("Div", self.graph.constant(other), self)

    def __matmul__(self, other: Any) -> Value:
        return self.graph.node("MatMul", self, other)


@dataclass
class Graph:
    """Nodes and constants, in the order in which they were asked for."""

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def input(self) -> Value:
        """Return the rows, in double precision."""
        return self.node("Cast", Value(self, _INPUT), to=_onnx().TensorProto.DOUBLE)

    def constant(self, values: Any) -> Value:
        """Return numbers as a constant; ints and strings keep their type."""
        array = np.asarray(values)
        if array.dtype.kind == "f":
            array = array.astype(np.float64)
        name = f"c{len(self.constants)}"
        self.constants.append(_onnx().numpy_helper.from_array(np.ascontiguousarray(array), name))
        return Value(self, name)

    def node(self, kind: str, *inputs: Any, **attributes: Any) -> Value:
        """Add a node; inputs that are numbers become constants."""
        values = [one if isinstance(one, Value) else self.constant(float(one)) for one in inputs]
        name = f"v{len(self.nodes)}"
        names = [value.name for value in values]
        self.nodes.append(_onnx().helper.make_node(kind, names, [name], **attributes))
        return Value(self, name)

    def columns(self, x: Value, which: Array) -> Value:
        """Return some of the columns."""
        return self.node("Gather", x, self.constant(np.asarray(which, np.int64)), axis=1)

    def joined(self, parts: list[Value]) -> Value:
        """Return values side by side."""
        return self.node("Concat", *parts, axis=1)

    def row_sum(self, x: Value) -> Value:
        """Return the sum of every row, (n, 1)."""
        return self.node("ReduceSum", x, self.constant(np.array([1])), keepdims=1)

    def row_min(self, x: Value) -> Value:
        """Return the least entry of every row, (n, 1)."""
        return self.node("ReduceMin", x, self.constant(np.array([1])), keepdims=1)

    def at_least(self, x: Value, least: float) -> Value:
        """Return the larger of each entry and a number."""
        return self.node("Max", x, least)

    def sqrt(self, x: Value) -> Value:
        """Return square roots."""
        return self.node("Sqrt", x)

    def exp(self, x: Value) -> Value:
        """Return exponentials."""
        return self.node("Exp", x)

    def log(self, x: Value) -> Value:
        """Return logarithms."""
        return self.node("Log", x)

    def softmax(self, x: Value) -> Value:
        """Return probabilities from logits, row by row."""
        return self.node("Softmax", x, axis=1)


def write_graph(graph: Graph, found: Value, classes: Array, n_features: int, path: Path) -> Path:
    """Write a graph that ends in probabilities, with the labels beside them."""
    onnx = _onnx()
    labels = _labels(classes)
    best = graph.node("ArgMax", found, axis=1, keepdims=0)
    graph.nodes.append(
        onnx.helper.make_node("Gather", [graph.constant(labels).name, best.name], [_LABEL])
    )
    single = onnx.TensorProto.FLOAT
    graph.nodes.append(onnx.helper.make_node("Cast", [found.name], [_PROBABILITIES], to=single))
    of_labels = onnx.helper.np_dtype_to_tensor_dtype(labels.dtype)
    describe = onnx.helper.make_tensor_value_info
    made = onnx.helper.make_graph(
        graph.nodes,
        "firthshot",
        [describe(_INPUT, single, ["rows", n_features])],
        [
            describe(_LABEL, of_labels, ["rows"]),
            describe(_PROBABILITIES, single, ["rows", len(classes)]),
        ],
        graph.constants,
    )
    opset = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(
        made, opset_imports=opset, ir_version=IR_VERSION, producer_name="firthshot"
    )
    onnx.checker.check_model(model)
    try:
        write_whole(path, model.SerializeToString())
    except OSError as error:
        raise_clearly(error, path.parent)
    return path


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
