"""What a formula may say: every part of an expression is listed, and all else is refused."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NoReturn

from firthshot.errors import FirthshotError, listed
from firthshot.formulas._expressions import Expression, called, contrasts_of, cut, parse
from firthshot.formulas._values import (
    ARITHMETIC,
    COMPARISONS,
    CONTRASTS,
    ELEMENTWISE,
    LOGIC,
    constant,
    parameters,
)

if TYPE_CHECKING:
    from collections.abc import Container

KNOWN_FUNCTIONS = listed(["C", "factor", "I", "offset", "poly", "bs", "cr", "cs", "cc", "center",
                          "scale", "standardize", *ELEMENTWISE], most=99)  # fmt: skip
_ALLOWED = f"use columns, numbers, + - * / ** and the functions {KNOWN_FUNCTIONS}."
_SPLINES = (
    "write cr(x, df=3, constraints='center') for a natural (restricted) cubic spline, or "
    "bs(x, df=4) for a B-spline; knots=[…] sets the knots."
)
_INSTEAD = dict.fromkeys(("ns", "rcs", "s"), _SPLINES)  # of R's splines, rms and mgcv
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
    ast.ListComp: "the comprehension",
    ast.SetComp: "the comprehension",
    ast.DictComp: "the comprehension",
    ast.GeneratorExp: "the comprehension",
}


def check_expression(text: str, columns: Container[str]) -> None:
    """Refuse an expression that holds anything but columns, arithmetic and listed functions.

    Parameters
    ----------
    text : str
        One factor of a formula.
    columns : container of str
        Columns of the table, to tell a name with a dot from an attribute.

    Raises
    ------
    FirthshotError
        Names the part that is refused, and what is allowed.
    """
    _Check(text, parse(text), columns).value(None)


class _Check:
    """One expression under examination."""

    def __init__(self, text: str, read: Expression, columns: Container[str]) -> None:
        self.text, self.read, self.columns = text, read, columns

    def refuse(
        self, node: ast.AST, why: str = "is not allowed in a formula", way_out: str = _ALLOWED
    ) -> NoReturn:
        part = self.read.text(node)
        if part in self.columns:
            raise FirthshotError(
                f"The term {cut(self.text)!r} has the column {part!r}: write it as `{part}`."
            )
        word = _WORDS.get(type(node), "the part")
        raise FirthshotError(
            f"The term {cut(self.text)!r} has {word} {cut(part)!r}, which {why}: {way_out}"
        )

    def value(self, node: ast.AST | None) -> None:
        """Allow columns, numbers, operators on them and calls; nothing else."""
        node = self.read.tree if node is None else node
        if isinstance(node, ast.Name) or _is_number(node):
            return
        if isinstance(node, ast.UnaryOp) and type(node.op) in ARITHMETIC | LOGIC:
            self.value(node.operand)
        elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC | LOGIC:
            self.value(node.left)
            self.value(node.right)
            self.power(node)
        elif isinstance(node, ast.Compare) and [type(o) in COMPARISONS for o in node.ops] == [True]:
            for side in (node.left, node.comparators[0]):
                if not _is_text(side):
                    self.value(side)
        elif isinstance(node, ast.Call):
            self.call(node)
        else:
            self.refuse(node)

    def power(self, node: ast.BinOp) -> None:
        if not isinstance(node.op, ast.Pow) or not _is_fixed(node.right):
            return
        if not abs(constant(node.right)) <= LARGEST_POWER:
            self.refuse(node, f"is a power above {LARGEST_POWER}", "write a smaller one.")

    def call(self, node: ast.Call) -> None:
        name = called(node.func)
        if name is None:
            self.refuse(node.func)
        functions = parameters()
        if name not in functions:
            way_out = _INSTEAD.get(name, f"there are {KNOWN_FUNCTIONS}.")
            raise FirthshotError(
                f"The term {cut(self.text)!r} calls {self.read.name(name)!r}, which is no function "
                f"here: {way_out}"
            )
        if not node.args:
            self.refuse(node, "names no column", "name the column first.")
        self.value(node.args[0])
        self.arguments(node, name, functions[name], node.args[1:])

    def arguments(
        self, call: ast.Call, name: str, allowed: tuple[str, ...], positional: list[ast.expr]
    ) -> None:
        """Allow each known argument once, as numbers, text, or contrasts of a factor."""
        given: list[tuple[Any, ast.expr]] = list(zip(allowed, positional, strict=False))
        given += [(word.arg, word.value) for word in call.keywords]
        words = [word for word, _ in given]
        takes = f"known arguments are {listed(allowed)}." if allowed else "it takes no such."
        if len(positional) > len(allowed) or len(set(words)) < len(words):
            self.refuse(call, f"gives {name} too many arguments", takes)
        for word, node in given:
            if word not in allowed:
                self.refuse(call, f"gives {name} the unknown argument {word!r}", takes)
            if node is contrasts_of(call):
                self.contrasts(node)
            else:
                self.literal(node)
            if _is_number(node) and not ast.literal_eval(node) <= _LARGEST.get(word, float("inf")):
                self.refuse(call, f"asks for {word} above {_LARGEST[word]}", "lower it.")

    def contrasts(self, node: ast.expr) -> None:
        name = called(node.func if isinstance(node, ast.Call) else node)
        if name not in CONTRASTS:
            known = listed(CONTRASTS, most=99)
            self.refuse(node, "is no contrast", f"there are {known}.")
        if isinstance(node, ast.Call):
            self.arguments(node, name, CONTRASTS[name], node.args)

    def literal(self, node: ast.expr) -> None:
        """Allow a number, a text, True, False, None, and a list of such."""
        parts = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]
        for part in parts:
            is_none = isinstance(part, ast.Constant) and part.value is None
            if not (_is_text(part) or _is_number(part) or is_none):
                self.refuse(part, "is no plain value", "give numbers, text or a list of such.")


def _is_number(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        node = node.operand
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, (int, float)) and abs(value) < 1e300


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_fixed(node: ast.AST) -> bool:
    return not any(isinstance(part, (ast.Name, ast.Call)) for part in ast.walk(node))
