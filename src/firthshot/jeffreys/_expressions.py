"""Which columns an expression of a formula needs; names in `backticks` may be any text."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_MODULES = ("np", "contr")
_QUOTED = re.compile(r"`([^`]+)`")


def names_in(expressions: Iterable[str]) -> list[str]:
    """Return the variables of some expressions, in order, without the functions they call.

    formulaic's own list leaves out what stands only in ``bs(...)``, ``poly(...)`` and the like.
    """
    found: dict[str, None] = {}
    for expression in expressions:
        tree, quoted = _parse(expression)
        called = {id(_function(node)) for node in ast.walk(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and id(node) not in called:
                found[quoted.get(node.id, node.id)] = None
    return list(found)


def call_arguments(expression: str, function: str) -> list[str] | None:
    """Return the arguments of ``function(…, …)`` as text, or None for anything else."""
    tree, quoted = _parse(expression)
    call = tree.body if isinstance(tree, ast.Expression) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    if call.func.id != function:
        return None
    texts = [ast.unparse(argument) for argument in call.args]
    return [re.sub(r"\b_quoted\d+\b", lambda m: f"`{quoted[m[0]]}`", text) for text in texts]


def has_caret(expression: str) -> bool:
    """Tell whether an expression has the operator ^, which Python takes for "exclusive or"."""
    return any(isinstance(node, ast.BitXor) for node in ast.walk(_parse(expression)[0]))


def _parse(expression: str) -> tuple[ast.AST, dict[str, str]]:
    """Return the syntax tree and what the stand-ins for quoted names mean."""
    quoted: dict[str, str] = {}

    def stand_in(match: re.Match[str]) -> str:
        name = f"_quoted{len(quoted)}"
        quoted[name] = match[1]
        return name

    try:
        return ast.parse(_QUOTED.sub(stand_in, expression).strip(), mode="eval"), quoted
    except SyntaxError:
        return ast.Module([], []), quoted


def _function(node: ast.AST) -> ast.AST | None:
    """Return the name in a node that is no variable: log of log(x), np of np.log(x)."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value if node.value.id in _MODULES else None
    return None
