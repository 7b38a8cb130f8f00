"""Data flows one way: a folder imports from itself and from folders to its left."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "bopl"
PAPER = "bopl_paper"  # not in the wheel
# From left to right; a module may import what stands in an earlier group, or in its own folder.
LAYERS = [
    {"_typing", "_errors"},
    {
        "_settings",
        "_figure",
        "_html",
        "_machine",
        "_progress",
        "_registry",
        "_interrupt",
        "_lazy",
        "_limbs",
    },
    {"_kernel"},
    {"_native", "_trust", "_exact_kernel", "_files"},
    {"_archive", "_exact", "_policy_reader", "_table", "_weight"},
    {"log"},
    {"cluster"},
    {"theory"},
    {"objective"},
    {"learner"},
    {"reward"},
    {"boosting"},
    {"policy"},
    {"baseline"},
    {"race"},
    {"evaluation"},
    {"report"},
    {"simulation"},
    {"search"},
    {"workflow"},
    {"serving", "mlflow", "testing"},
    {"demo"},
    {"cli"},
    {"__main__"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def test_the_map_in_contributing_shows_every_room_in_the_order_of_the_layers():
    text = (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf8")
    drawn = text.split("```text\n")[1].split("```")[0]
    assert len(drawn.splitlines()) <= 40  # fits a screen
    cells = [re.split(r"\s{2,}", line.strip())[::2] for line in drawn.splitlines()]  # names, then what they are
    rooms = [room for line in cells for cell in line for room in cell.split(", ") if room in RANK]
    assert sorted(rooms) == sorted(room for room in RANK if not room.startswith("_"))
    assert [RANK[room] for room in rooms] == sorted(RANK[room] for room in rooms)


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "bopl":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bopl."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("bopl."))
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path} uses a relative import"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_imports_only_leftwards(path):
    room = room_of(path)
    if room == "__init__":
        return
    assert room in RANK, f"{room} has no place in the order of layers"
    for imported in imported_rooms(path):
        assert imported == room or RANK[imported] < RANK[room], f"{room} imports {imported}, which is to its right"


def imported_modules(node):
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def test_only_its_command_and_names_that_moved_there_know_of_the_papers_experiments():
    found = [
        (str(path.relative_to(PACKAGE)), type(outer).__name__)
        for path in sorted(PACKAGE.rglob("*.py"))
        for outer in ast.walk(ast.parse(path.read_text(encoding="utf8")))
        for node in ast.iter_child_nodes(outer)
        if any(name.split(".")[0] == PAPER for name in imported_modules(node))
    ]
    # Within functions, if it is installed.
    assert found == [("cli/reproduce.py", "If"), ("simulation/__init__.py", "If")]
