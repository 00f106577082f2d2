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
    """A value of a graph; what is done to it becomes nodes of the graph."""

    graph: Graph
    name: str

    def node(self, kind: str, *others: Any) -> Value:
        """Add an operation; numbers and arrays become constants. Sums and minima are by row."""
        return self.graph.node(kind, self, *others)

    def __add__(self, other: Any) -> Value:
        return self.node("add", other)

    def __sub__(self, other: Any) -> Value:
        return self.node("sub", other)

    def __mul__(self, other: Any) -> Value:
        return self.node("mul", other)

    def __truediv__(self, other: Any) -> Value:
        return self.node("div", other)

    def __rtruediv__(self, other: Any) -> Value:
        return self.graph.node("div", other, self)

    def __matmul__(self, other: Any) -> Value:
        return self.node("matmul", other)


@dataclass
class Graph:
    """Operations on rows (n, d) and the numbers they need, in the order they were asked for.

    Numbers are in double precision.
    """

    nodes: list[Node] = field(default_factory=list)
    constants: list[Array] = field(default_factory=list)

    def input(self) -> Value:
        """Return the rows, in double precision."""
        return Value(self, ROWS)

    def constant(self, values: Any) -> Value:
        """Return numbers of the head."""
        array = np.asarray(values)
        self.constants.append(array.astype(np.float64 if array.dtype.kind == "f" else np.int64))
        return Value(self, f"c{len(self.constants) - 1}")

    def node(self, kind: str, *inputs: Any) -> Value:
        """Add an operation; inputs that are numbers become constants."""
        values = [one if isinstance(one, Value) else self.constant(one) for one in inputs]
        self.nodes.append(Node(kind, tuple(value.name for value in values)))
        return Value(self, f"v{len(self.nodes) - 1}")
