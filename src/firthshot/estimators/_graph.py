"""What a fitted head computes, recorded once: an ONNX file and a torch module are made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from firthshot.arrays import Array

ROWS = "features"  # the name of the input


class Node(NamedTuple):
    """One operation: its kind and its inputs by name; it is named by its place among the nodes."""

    kind: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Value:
    """A value of a graph; its operators add nodes to the graph."""

    graph: Graph
    name: str

    def __add__(self, other: Any) -> Value:
        return self.graph.node("add", self, other)

    def __sub__(self, other: Any) -> Value:
        return self.graph.node("sub", self, other)

    def __mul__(self, other: Any) -> Value:
        return self.graph.node("mul", self, other)

    def __truediv__(self, other: Any) -> Value:
        return self.graph.node("div", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return self.graph.node("div", self.graph.constant(other), self)

    def __matmul__(self, other: Any) -> Value:
        return self.graph.node("matmul", self, other)


@dataclass
class Graph:
    """Operations on rows (n, d) and the numbers they need, in the order they were asked for.

    Sums and minima are by row and keep the axis. Numbers are in double precision.
    """

    nodes: list[Node] = field(default_factory=list)
    constants: list[Array] = field(default_factory=list)

    def input(self) -> Value:
        """Return the rows, in double precision."""
        return Value(self, ROWS)

    def constant(self, values: Any) -> Value:
        """Return numbers of the head."""
        array = np.asarray(values)
        self.constants.append(array.astype(np.float64) if array.dtype.kind == "f" else array)
        return Value(self, f"c{len(self.constants) - 1}")

    def node(self, kind: str, *inputs: Any) -> Value:
        """Add an operation; inputs that are numbers become constants."""
        values = [one if isinstance(one, Value) else self.constant(float(one)) for one in inputs]
        self.nodes.append(Node(kind, tuple(value.name for value in values)))
        return Value(self, f"v{len(self.nodes) - 1}")

    def columns(self, x: Value, which: Array) -> Value:
        """Return some of the columns."""
        return self.node("columns", x, self.constant(np.asarray(which, np.int64)))

    def joined(self, parts: list[Value]) -> Value:
        """Return values side by side."""
        return self.node("joined", *parts)

    def row_sum(self, x: Value) -> Value:
        """Return the sum of every row, (n, 1)."""
        return self.node("row_sum", x)

    def row_min(self, x: Value) -> Value:
        """Return the least entry of every row, (n, 1)."""
        return self.node("row_min", x)

    def at_least(self, x: Value, least: float) -> Value:
        """Return the larger of each entry and a number."""
        return self.node("maximum", x, least)

    def sqrt(self, x: Value) -> Value:
        """Return square roots."""
        return self.node("sqrt", x)

    def exp(self, x: Value) -> Value:
        """Return exponentials."""
        return self.node("exp", x)

    def log(self, x: Value) -> Value:
        """Return logarithms."""
        return self.node("log", x)

    def softmax(self, x: Value) -> Value:
        """Return probabilities from logits, row by row."""
        return self.node("softmax", x)
