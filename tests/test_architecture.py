"""Rooms import from the rooms above them in the table of CONTRIBUTING.md, and from no others."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "firthshot"
TABLE = re.findall(r"^\| (`.+?) \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
# Rooms that share a line may import from one another. A drawer with a line of its own is named by
# its path: the longest name that fits a file is its place.
LINE = {
    tuple(name.split("/")): number
    for number, cell in enumerate(TABLE)
    for name in re.findall(r"`([\w/]+?)(?:/|\.py)`", cell)
}
DOORS = {"__init__", "__main__"}  # the package's own: they lead into every room


def parts_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts


def place_of(parts):
    """Return the longest name of the table with which a dotted name begins."""
    lengths = range(len(parts), 0, -1)
    return next((parts[:n] for n in lengths if parts[:n] in LINE), parts[:1])


def imported(path):
    """Yield the line and the dotted name of everything of ours that a file imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "firthshot")


def test_every_room_is_in_the_table_and_no_other():
    rooms = {parts_of(path)[:1] for path in PACKAGE.rglob("*.py")} - {(door,) for door in DOORS}
    assert rooms == {name[:1] for name in LINE}


@pytest.mark.parametrize("name", LINE, ids="/".join)
def test_every_name_of_the_table_is_there(name):
    path = PACKAGE.joinpath(*name)
    assert path.is_dir() or path.with_suffix(".py").is_file()


@pytest.mark.parametrize("place", LINE, ids="/".join)
def test_a_place_imports_from_above_only(place):
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        if place_of(parts_of(path)) != place:
            continue
        for number, name in imported(path):
            source = place_of(tuple(name.split("."))[1:])
            if name != "firthshot.__version__" and LINE.get(source, len(TABLE)) > LINE[place]:
                wrong.append(f"{path.relative_to(ROOT)}:{number} imports {name}")
    assert wrong == []


def test_no_room_imports_a_private_name_of_another():
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        for number, name in imported(path):
            room, *inside = [*name.split(".")[1:], ""]
            private = any(part.startswith("_") and not part.startswith("__") for part in inside)
            if private and room != parts_of(path)[0]:
                wrong.append(f"{path.relative_to(ROOT)}:{number} imports {name}")
    assert wrong == []


# They write commands for a reader to repeat.
COMMANDS = {"provenance.py"}
OPTION = re.compile(r"(?<![\w(-])--[a-z][a-z-]+")


def test_only_commands_speak_of_their_options():
    """The library names arguments of Python; `with_options` adds the option of a command."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.value!r}"
        for path in PACKAGE.rglob("*.py")
        if parts_of(path)[0] != "cli" and path.name not in COMMANDS
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and OPTION.search(node.value)
    ]
    assert wrong == []


def definitions(kind):
    """Yield the place and the tree of every class or function of the package."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, kind):
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node


def test_no_two_classes_have_one_name():
    places = {}
    for place, node in definitions(ast.ClassDef):
        places.setdefault(node.name, []).append(place)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_functions_take_at_most_ten_arguments():
    """Commands have an argument for each option, constructors one for each parameter.

    The arguments of a generated register tile become registers.
    """
    many = [
        f"{place} {node.name}"
        for place, node in definitions(ast.FunctionDef)
        if len(node.args.args) + len(node.args.kwonlyargs) > 10
        and node.name not in ("__init__", "tile")
        and not place.startswith("cli/")
    ]
    assert many == []
