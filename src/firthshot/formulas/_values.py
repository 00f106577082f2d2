"""The values of a checked expression, without Python's ``eval``.

An expression is walked node by node: names are columns of the table, operators and functions
are those listed here. There is no other way to a value, so builtins, modules, attributes and
the caller's variables are out of reach whatever a formula says.
"""

from __future__ import annotations

import ast
import operator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.formulas._expressions import called, contrasts_of, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ARITHMETIC: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
COMPARISONS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
LOGIC: dict[type[ast.AST], Callable[..., Any]] = {
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Invert: operator.invert,
}
ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "sqrt": np.sqrt, "cbrt": np.cbrt, "square": np.square, "abs": np.abs, "sign": np.sign,
    "floor": np.floor, "ceil": np.ceil,
    "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "arcsin": np.arcsin, "arccos": np.arccos, "arctan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
}  # fmt: skip
_CUBIC = ("df", "knots", "lower_bound", "upper_bound", "constraints", "extrapolation")
# what each may be given after its column; formulaic's own _state and the like are not among it
BASES: dict[str, tuple[str, ...]] = {
    "poly": ("degree", "raw"),
    "bs": ("df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound",
           "extrapolation"),
    "cr": _CUBIC,
    "cs": _CUBIC,
    "cc": _CUBIC,
    "center": (),
    "scale": ("center", "scale", "ddof"),
    "standardize": ("center", "rescale", "ddof"),
}  # fmt: skip
FACTORS = ("contrasts", "levels", "spans_intercept")
PLAIN = ("I", "offset")
CONTRASTS: dict[str, tuple[str, ...]] = {
    "Treatment": ("reference",),
    "Sum": (),
    "Helmert": ("reverse", "scale"),
    "Diff": ("backward",),
    "Poly": ("scores",),
    "contr.treatment": ("base",),
    "contr.SAS": (),
    "contr.sum": (),
    "contr.helmert": ("reverse", "scale"),
    "contr.diff": ("backward",),
    "contr.poly": ("scores",),
}


def parameters() -> dict[str, tuple[str, ...]]:
    """Return every function with the names of what it takes after its column."""
    plain = dict.fromkeys((*ELEMENTWISE, *PLAIN), ())
    of_numpy = {f"np.{name}": () for name in ELEMENTWISE}
    return plain | of_numpy | BASES | dict.fromkeys(("C", "factor"), FACTORS)


def constant(node: ast.AST) -> float:
    """Return the value of arithmetic without columns, in floating point: it cannot explode."""
    try:
        with np.errstate(all="ignore"):
            return float(_value(node, {}, {}))
    except TypeError:
        return np.nan


@cache
def listed_materializer() -> str:
    """Return formulaic's name for what evaluates only what is listed."""
    from formulaic.materializers import PandasMaterializer
    from interface_meta import override

    class Listed(PandasMaterializer):  # type: ignore[misc]
        REGISTER_NAME = "firthshot"
        REGISTER_INPUTS = ()
        REGISTER_PRECEDENCE = -1

        @override  # formulaic without such a method would raise here, not evaluate by itself
        def _lookup(self, name: str) -> tuple[Any, set[Any]]:
            return self.data[name], set()

        @override
        def _evaluate(self, expr: str, metadata: Any, spec: Any) -> tuple[Any, set[Any]]:  # noqa: ARG002
            read = parse(expr)
            names = {n.id for n in ast.walk(read.tree) if isinstance(n, ast.Name)}
            columns = {n: self.data[read.name(n)] for n in names if read.name(n) in self.data}
            return _value(read.tree, columns, spec.transform_state), set()

    return Listed.REGISTER_NAME


def _value(node: ast.AST, columns: Mapping[str, Any], state: dict[str, Any]) -> Any:
    """Evaluate a node; ``state`` keeps knots and means of the fit for new rows."""
    if isinstance(node, ast.Constant):
        return np.float64(node.value) if isinstance(node.value, (int, float)) else node.value
    if isinstance(node, ast.Name):
        return columns[node.id]
    if isinstance(node, ast.UnaryOp):
        return _apply(node.op, _value(node.operand, columns, state))
    if isinstance(node, ast.BinOp):
        return _apply(node.op, *(_value(side, columns, state) for side in (node.left, node.right)))
    if isinstance(node, ast.Compare):
        sides = (node.left, node.comparators[0])
        return COMPARISONS[type(node.ops[0])](*(_value(side, columns, state) for side in sides))
    if isinstance(node, ast.Call):
        return _call(node, _value(node.args[0], columns, state), state)
    raise TypeError(type(node).__name__)


def _apply(sign: ast.AST, *values: Any) -> Any:
    if type(sign) in LOGIC:
        if any(getattr(value, "dtype", np.dtype(float)).kind != "b" for value in values):
            raise TypeError("& and | join comparisons")
        return LOGIC[type(sign)](*values)
    return ARITHMETIC[type(sign)](*map(_numbers, values))


def _numbers(values: Any) -> Any:
    """Return values in floating point; text must not be multiplied."""
    if getattr(values, "dtype", np.dtype(object)).kind not in "biuf":
        raise TypeError("no numbers")
    return values.astype(float)


def _call(call: ast.Call, first: Any, state: dict[str, Any]) -> Any:
    from formulaic.transforms import TRANSFORMS

    name = str(called(call.func)).removeprefix("np.")
    if name in PLAIN:
        return first
    if name in ELEMENTWISE:
        return ELEMENTWISE[name](_numbers(first))
    if name in BASES:
        memory = state.setdefault(ast.unparse(call), {})
        return TRANSFORMS[name](_numbers(first), **_arguments(call, BASES[name]), _state=memory)
    if name in ("C", "factor"):
        return TRANSFORMS["C"](first, **_arguments(call, FACTORS))
    raise TypeError(name)


def _arguments(call: ast.Call, names: tuple[str, ...], first: int = 1) -> dict[str, Any]:
    """Return the arguments after the column by name."""
    given = dict(zip(names, call.args[first:], strict=False))
    given |= {str(word.arg): word.value for word in call.keywords}
    chosen = contrasts_of(call)
    return {
        name: _contrasts(node) if node is chosen else ast.literal_eval(node)
        for name, node in given.items()
    }


def _contrasts(node: ast.AST) -> Any:
    from formulaic.transforms import TRANSFORMS

    function = node.func if isinstance(node, ast.Call) else node
    name = str(called(function))
    arguments = _arguments(node, CONTRASTS[name], 0) if isinstance(node, ast.Call) else {}
    if name.startswith("contr."):
        return getattr(TRANSFORMS["contr"], name.removeprefix("contr."))(**arguments)
    return TRANSFORMS[name](**arguments)
