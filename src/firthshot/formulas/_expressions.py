"""Which columns an expression of a formula needs; names in `backticks` may be any text."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_NESTED = 100  # deeper trees would meet Python's own limit somewhere on the way
_MODULES = ("np", "contr")
_STRING_OR_QUOTED = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`([^`]+)`""")


@dataclass(frozen=True)
class Expression:
    """The syntax tree of an expression, and what the stand-ins for quoted names mean."""

    tree: ast.AST
    quoted: dict[str, str]

    def name(self, stand_in: str) -> str:
        """Return the column that a name in the tree stands for."""
        return self.quoted.get(stand_in, stand_in)

    def text(self, node: ast.AST) -> str:
        """Write a part of the tree as the formula has it."""
        text = ast.unparse(node)
        for stand_in, name in self.quoted.items():
            text = re.sub(rf"\b{stand_in}\b", lambda _, name=name: f"`{name}`", text)  # type: ignore[misc]
        return text


def parse(expression: str) -> Expression:
    """Return the tree of an expression.

    Raises
    ------
    FirthshotError
        If Python has no such expression, or it nests too deeply.
    """
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
    if _depth(tree) > MOST_NESTED:
        raise FirthshotError(
            f"The term {cut(expression)!r} nests more than {MOST_NESTED} operations: shorten it."
        )
    return Expression(tree, quoted)


def cut(text: str, most: int = 60) -> str:
    """Shorten a text that is quoted in a sentence."""
    return text if len(text) <= most else text[: most - 1] + "…"


def names_in(expressions: Iterable[str]) -> list[str]:
    """Return the variables of some expressions, in order, without the functions they call.

    formulaic's own list leaves out what stands only in ``bs(...)``, ``poly(...)`` and the like.
    """
    found: dict[str, None] = {}
    for expression in expressions:
        read = _parse_if_possible(expression)
        functions = {id(name) for node in ast.walk(read.tree) for name in _functions(node)}
        for node in ast.walk(read.tree):
            if isinstance(node, ast.Name) and id(node) not in functions:
                found[read.name(node.id)] = None
    return list(found)


def call_arguments(expression: str, function: str) -> list[str] | None:
    """Return the arguments of ``function(…, …)`` as text, or None for anything else."""
    read = _parse_if_possible(expression)
    call = read.tree
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    if call.func.id != function:
        return None
    return [read.text(argument) for argument in (*call.args, *call.keywords)]


def has_caret(expression: str) -> bool:
    """Tell whether an expression has the operator ^, which Python takes for "exclusive or"."""
    tree = _parse_if_possible(expression).tree
    return any(isinstance(node, ast.BitXor) for node in ast.walk(tree))


def called(node: ast.AST) -> str | None:
    """Return what a name means as a function, with its module: log, np.log, contr.sum."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return None


def contrasts_of(call: ast.Call) -> ast.expr | None:
    """Return what C(x, …) has for contrasts."""
    if called(call.func) not in ("C", "factor"):
        return None
    named = (word.value for word in call.keywords if word.arg == "contrasts")
    return call.args[1] if len(call.args) > 1 else next(named, None)


def _parse_if_possible(expression: str) -> Expression:
    """Return an empty tree for what is no expression; who evaluates it says so."""
    try:
        return parse(expression)
    except FirthshotError:
        return Expression(ast.Module([], []), {})


def _depth(tree: ast.AST) -> int:
    level, depth = [tree], 0
    while level and depth <= MOST_NESTED:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
    return depth


def _functions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the names in a node that are no variables: log of log(x), np of np.log(x), Sum."""
    if isinstance(node, ast.Call):
        yield node.func
        contrasts = contrasts_of(node)
        if contrasts is not None:
            yield contrasts
    elif isinstance(node, ast.Attribute) and called(node) is not None:
        assert isinstance(node.value, ast.Name)
        if node.value.id in _MODULES:
            yield node.value
