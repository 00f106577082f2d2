"""A fitted head as a torch module: its numbers are buffers, its rows tensors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from firthshot.arrays import Array
from firthshot.errors import FirthshotError
from firthshot.estimators._graph import ROWS, Value

OPERATIONS: dict[str, Callable[..., Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "matmul": torch.matmul,
    "columns": lambda x, which: x[:, which],
    "joined": lambda *parts: torch.cat(parts, 1),
    "row_sum": lambda x: x.sum(1, keepdim=True),
    "row_min": lambda x: x.amin(1, keepdim=True),
    "maximum": torch.maximum,
    "sqrt": torch.sqrt,
    "exp": torch.exp,
    "log": torch.log,
    "softmax": lambda x: x.softmax(1),
}


class FittedModule(nn.Module):  # type: ignore[misc]
    """Probabilities of rows (n, d) by a fitted head, shape (n, K) in the type of the rows.

    Its numbers stay in double precision when a network around it is cast to another type.

    Parameters
    ----------
    found : Value
        The probabilities, in the graph of what the head computes.
    classes : array of shape (K,)
        Labels, kept as the list ``classes`` and in the state dict.
    n_features : int
        d.
    """

    def __init__(self, found: Value, classes: Array, n_features: int) -> None:
        super().__init__()
        self.nodes, self.found = list(found.graph.nodes), found.name
        self.classes: list[Any] = classes.tolist()
        self.n_features = n_features
        for number, array in enumerate(found.graph.constants):
            self.register_buffer(f"c{number}", torch.tensor(array))

    def forward(self, rows: Tensor) -> Tensor:
        """Return probabilities."""
        if not torch.jit.is_tracing() and (rows.ndim != 2 or rows.shape[1] != self.n_features):
            raise FirthshotError(
                f"rows have shape {tuple(rows.shape)}; the head takes (n, {self.n_features})."
            )
        values = dict(self.named_buffers()) | {ROWS: rows.double()}
        for number, (kind, inputs) in enumerate(self.nodes):
            values[f"v{number}"] = OPERATIONS[kind](*[values[name] for name in inputs])
        dtype = rows.dtype if rows.is_floating_point() else torch.get_default_dtype()
        return values[self.found].to(dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FittedModule:
        """Move the numbers to another device; their type stays."""
        return super()._apply(lambda one: one.to(fn(one).device), recurse)  # type: ignore[no-any-return]

    def get_extra_state(self) -> Tensor:
        """Return the classes as JSON in bytes, which formats of tensors alone can store too."""
        return torch.tensor(list(json.dumps(self.classes, default=str).encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the classes of a state dict."""
        self.classes = json.loads(bytes(state.tolist()))

    def __prepare_scriptable__(self) -> NoReturn:
        """Say why ``torch.jit.script`` does not take the module."""
        raise FirthshotError(
            "torch.jit.script cannot compile a fitted head: use torch.compile, torch.export, "
            "torch.jit.trace or to_onnx."
        )

    def extra_repr(self) -> str:
        """Describe the sizes."""
        return f"n_features={self.n_features}, classes={len(self.classes)}"
