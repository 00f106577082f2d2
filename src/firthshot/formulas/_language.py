"""What a formula may say, and what it is worth, without Python's ``eval``.

An expression is read node by node into functions of a table's columns: names are columns,
operators and functions are those listed here, and all else is refused. There is no other way to a
value, so builtins, modules, attributes and the caller's variables are out of reach whatever a
formula says. Names in `backticks` may be any text.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn

import numpy as np

from firthshot.errors import FirthshotError, listed

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
ELEMENTWISE = (
    "log", "log2", "log10", "log1p", "exp", "exp2", "expm1", "sqrt", "cbrt", "square", "abs",
    "sign", "floor", "ceil", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh",
    "tanh",
)  # fmt: skip
PLAIN = ("I", "offset")
# what each may be given after its column; formulaic's own _state and the like are not among it
_CUBIC = ("df", "knots", "lower_bound", "upper_bound", "constraints", "extrapolation")
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
FACTORS = dict.fromkeys(("C", "factor"), ("contrasts", "levels", "spans_intercept"))
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
FUNCTIONS = {
    **dict.fromkeys((*ELEMENTWISE, *PLAIN, *(f"np.{name}" for name in ELEMENTWISE)), ()),
    **BASES,
    **FACTORS,
}
KNOWN_FUNCTIONS = listed(["C", "factor", "I", "offset", "poly", "bs", "cr", "cs", "cc", "center",
                          "scale", "standardize", *ELEMENTWISE], most=99)  # fmt: skip
_ALLOWED = f"use columns, numbers, + - * / ** and the functions {KNOWN_FUNCTIONS}."
_SPLINES = (
    "write cr(x, df=3, constraints='center') for a natural (restricted) cubic spline, or "
    "bs(x, df=4) for a B-spline; knots=[…] sets the knots."
)
_INSTEAD = dict.fromkeys(("ns", "rcs", "s"), _SPLINES)  # of R's splines, rms and mgcv
MOST_NESTED = 100  # deeper trees would meet Python's own limit somewhere on the way
LARGEST_POWER = 100
_LARGEST = {"df": 100, "degree": 100}  # of columns that a spline or a polynomial makes
_WORDS: dict[type[ast.AST], str] = {
    ast.Attribute: "the attribute",
    ast.Subscript: "the subscript",
    ast.Lambda: "the function definition",
    ast.JoinedStr: "the formatted text",
    ast.NamedExpr: "the assignment",
    ast.Constant: "the constant",
    ast.Starred: "the unpacked argument",
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
                    "the comprehension"),
}  # fmt: skip
_STRING_OR_QUOTED = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`([^`]+)`""")

# a value, of the columns by name and of the knots and means that the fit keeps for new rows
Value = Callable[[Mapping[str, Any], dict[str, Any]], Any]


class Expression:
    """One factor of a formula, read as the list above has it.

    Parameters
    ----------
    text : str
    columns : collection of str
        Columns of the table, to tell a name with a dot from an attribute.

    Raises
    ------
    FirthshotError
        Names the part that is refused, and what is allowed.
    """

    def __init__(self, text: str, columns: Collection[str] = ()) -> None:
        self.text, self._columns = text, columns
        self.names: dict[str, None] = {}  # the columns that it needs, in order
        self._tree, self._quoted = _parse(text)
        self.value = self._read(self._tree)

    def _refuse(
        self, node: ast.AST, why: str = "is not allowed in a formula", way_out: str = _ALLOWED
    ) -> NoReturn:
        part = _unparse(node, self._quoted)
        if part in self._columns:
            raise FirthshotError(
                f"The term {cut(self.text)!r} has the column {part!r}: write it as `{part}`."
            )
        word = _WORDS.get(type(node), "the part")
        raise FirthshotError(
            f"The term {cut(self.text)!r} has {word} {cut(part)!r}, which {why}: {way_out}"
        )

    def _read(self, node: ast.AST) -> Value:
        """Read a column, a number, operators on them or a call; nothing else."""
        if isinstance(node, ast.Name):
            column = self._quoted.get(node.id, node.id)
            self.names[column] = None
            return lambda columns, _: columns[column]
        if isinstance(node, ast.Constant) and _is_number(node):
            number = np.float64(node.value)  # type: ignore[arg-type]
            return lambda *_: number
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
            raise FirthshotError(
                f"The term {self.text!r} has a ^, which is no power inside a function: write **."
            )
        if isinstance(node, ast.UnaryOp) and type(node.op) in ARITHMETIC | LOGIC:
            return _applied(node.op, self._read(node.operand))
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC | LOGIC:
            sides = self._read(node.left), self._read(node.right)
            fixed = not any(isinstance(one, ast.Name | ast.Call) for one in ast.walk(node.right))
            if isinstance(node.op, ast.Pow) and fixed and not _at_most(sides[1], LARGEST_POWER):
                self._refuse(node, f"is a power above {LARGEST_POWER}", "write a smaller one.")
            return _applied(node.op, *sides)
        if isinstance(node, ast.Compare) and [type(o) in COMPARISONS for o in node.ops] == [True]:
            compare = COMPARISONS[type(node.ops[0])]
            left, right = (self._side(side) for side in (node.left, node.comparators[0]))
            return lambda *given: compare(left(*given), right(*given))
        if not isinstance(node, ast.Call):
            self._refuse(node)
        return self._call(node)

    def _side(self, node: ast.AST) -> Value:
        """Read a side of a comparison, which may be a text."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return lambda *_: node.value
        return self._read(node)

    def _call(self, node: ast.Call) -> Value:
        name = _called(node.func)
        if name is None:
            self._refuse(node.func)
        if name not in FUNCTIONS:
            way_out = _INSTEAD.get(name, f"there are {KNOWN_FUNCTIONS}.")
            raise FirthshotError(
                f"The term {cut(self.text)!r} calls {self._quoted.get(name, name)!r}, which is no "
                f"function here: {way_out}"
            )
        if not node.args:
            self._refuse(node, "names no column", "name the column first.")
        first = self._read(node.args[0])
        arguments = self._arguments(node, name, FUNCTIONS[name], node.args[1:])
        if name in PLAIN:
            return first
        if name in FACTORS:
            return lambda *given: _transform("C")(first(*given), **arguments)
        if name in BASES:
            memory = ast.unparse(node)
            return lambda columns, state: _transform(name)(
                _numbers(first(columns, state)), **arguments, _state=state.setdefault(memory, {})
            )
        function = getattr(np, name.removeprefix("np."))
        return lambda *given: function(_numbers(first(*given)))

    def _arguments(
        self, call: ast.Call, name: str, allowed: tuple[str, ...], positional: list[ast.expr]
    ) -> dict[str, Any]:
        """Return each known argument, given once, as numbers, text, or contrasts of a factor."""
        given: list[tuple[Any, ast.expr]] = list(zip(allowed, positional, strict=False))
        given += [(word.arg, word.value) for word in call.keywords]
        takes = f"known arguments are {listed(allowed)}." if allowed else "it takes no such."
        if len(positional) > len(allowed) or len(dict(given)) < len(given):
            self._refuse(call, f"gives {name} too many arguments", takes)
        found: dict[str, Any] = {}
        for word, node in given:
            if word not in allowed:
                self._refuse(call, f"gives {name} the unknown argument {word!r}", takes)
            found[word] = self._contrasts(node) if word == "contrasts" else self._literal(node)
            if _is_number(node) and not found[word] <= _LARGEST.get(word, float("inf")):
                self._refuse(call, f"asks for {word} above {_LARGEST[word]}", "lower it.")
        return found

    def _contrasts(self, node: ast.expr) -> Any:
        name = _called(node.func if isinstance(node, ast.Call) else node) or ""
        if name not in CONTRASTS:
            known = listed(CONTRASTS, most=99)
            self._refuse(node, "is no contrast", f"there are {known}.")
        arguments: dict[str, Any] = {}
        if isinstance(node, ast.Call):
            arguments = self._arguments(node, name, CONTRASTS[name], node.args)
        module, _, function = name.rpartition(".")
        return (getattr(_transform(module), function) if module else _transform(name))(**arguments)

    def _literal(self, node: ast.expr) -> Any:
        """Return a number, a text, True, False, None, or a list of such."""
        parts = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
        for part in parts:
            plain = isinstance(part, ast.Constant) and isinstance(part.value, str | None)
            if not plain and not _is_number(part):
                self._refuse(part, "is no plain value", "give numbers, text or a list of such.")
        return ast.literal_eval(node)


def cut(text: str, most: int = 60) -> str:
    """Shorten a text that is quoted in a sentence."""
    return text if len(text) <= most else text[: most - 1] + "…"


def names_of(expression: str) -> list[str]:
    """Return the columns of an expression, in order.

    Of Python that is no expression of ours, as ``allow_python`` lets it pass, every name counts
    that is not called.
    """
    try:
        return list(Expression(expression).names)
    except FirthshotError:
        tree, quoted = _parse(expression)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    found = [node.id for node in names if id(node) not in called and node.id != "np"]
    return list(dict.fromkeys(quoted.get(name, name) for name in found))


def call_arguments(expression: str, function: str) -> list[str] | None:
    """Return the arguments of ``function(…, …)`` as text, or None for anything else."""
    try:
        call, quoted = _parse(expression)
    except FirthshotError:
        return None  # who evaluates it says what is wrong
    if not isinstance(call, ast.Call) or _called(call.func) != function:
        return None
    return [_unparse(argument, quoted) for argument in (*call.args, *call.keywords)]


def _parse(expression: str) -> tuple[ast.AST, dict[str, str]]:
    """Return the syntax tree of an expression, and what the stand-ins for quoted names mean."""
    stand_in = "_quoted"
    while stand_in in expression:
        stand_in += "_"
    quoted: dict[str, str] = {}

    def replace(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        quoted[f"{stand_in}{len(quoted)}"] = match[1]
        return list(quoted)[-1]

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an escape that Python will drop one day
            tree = ast.parse(_STRING_OR_QUOTED.sub(replace, expression).strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise FirthshotError(
            f"The term {cut(expression)!r} is no expression that can be read: mend it."
        ) from None
    level: list[ast.AST] = [tree]
    for _ in range(MOST_NESTED):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise FirthshotError(
            f"The term {cut(expression)!r} nests more than {MOST_NESTED} operations: shorten it."
        )
    return tree, quoted


def _unparse(node: ast.AST, quoted: dict[str, str]) -> str:
    """Write a part of the tree as the formula has it."""
    text = ast.unparse(node)
    for stand_in, name in quoted.items():
        text = re.sub(rf"\b{stand_in}\b", lambda _, name=name: f"`{name}`", text)  # type: ignore[misc]
    return text


def _called(node: ast.AST) -> str | None:
    """Return what a name means as a function, with its module: log, np.log, contr.sum."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return None


def _is_number(node: ast.AST) -> bool:
    signed = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd)
    node = node.operand if signed else node  # type: ignore[attr-defined]
    value = node.value if isinstance(node, ast.Constant) else None
    if signed and isinstance(value, bool):
        return False
    return isinstance(value, int | float) and abs(value) < 1e300


def _at_most(value: Value, limit: float) -> bool:
    """Tell whether arithmetic without columns, in floating point, is a number within bounds."""
    try:
        with np.errstate(all="ignore"):
            return bool(abs(float(value({}, {}))) <= limit)
    except TypeError:
        return False


def _applied(sign: ast.AST, *values: Value) -> Value:
    def logic(*given: Any) -> Any:
        found = [value(*given) for value in values]
        if any(getattr(one, "dtype", np.dtype(float)).kind != "b" for one in found):
            raise TypeError("& and | join comparisons")
        return LOGIC[type(sign)](*found)

    def arithmetic(*given: Any) -> Any:
        return ARITHMETIC[type(sign)](*(_numbers(value(*given)) for value in values))

    return logic if type(sign) in LOGIC else arithmetic


def _numbers(values: Any) -> Any:
    """Return values in floating point; text must not be multiplied."""
    if getattr(values, "dtype", np.dtype(object)).kind not in "biuf":
        raise TypeError("no numbers")
    return values.astype(float)


def _transform(name: str) -> Any:
    from formulaic.transforms import TRANSFORMS

    return TRANSFORMS[name]
