"""The house stays tidy: modules that can be read in one go, records in place of long lists of parameters."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def house():
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(BENCHMARKS))
        yield __import__("house")
        del sys.modules["house"]


@pytest.fixture(scope="module")
def modules(house):
    packages = (house.PACKAGE, house.PAPER)
    return [house.read_module(path, package) for package in packages for path in sorted(package.rglob("*.py"))]


def test_no_module_is_too_long(house, modules):
    assert {one.name: one.n_lines for one in house.long_modules(modules)} == {}


def test_private_functions_take_records_where_they_would_take_many_parameters(house, modules):
    functions = [function for module in modules for function in module.functions]
    inner = [one for one in functions if not one.is_public and not one.is_kernel]
    assert len(inner) > 1000
    assert [one.place for one in inner if one.n_parameters > house.MAX_PARAMETERS] == []


def test_lines_are_counted_by_kind(house, tmp_path, monkeypatch):
    monkeypatch.setattr(house, "PACKAGE", tmp_path)
    path = tmp_path / "room.py"
    path.write_text(
        '"""About."""\n\n# Why.\n__all__ = ["f"]\n\n\ndef f(a, *, b=1):  # a comment\n    """Do."""\n    return a\n'
    )
    module = house.read_module(path)
    assert module.kinds == {"docstring": 2, "blank": 3, "comment": 1, "code": 3}
    (function,) = module.functions
    assert (function.place, function.n_lines, function.n_parameters, function.is_public) == ("room.f", 2, 2, True)
    assert module.exports == 1


def test_names_of_packages_that_import_later_are_counted(house, tmp_path, monkeypatch):
    monkeypatch.setattr(house, "PACKAGE", tmp_path)
    path = tmp_path / "__init__.py"
    path.write_text('__all__, __getattr__, __dir__ = lazy_modules(__name__, {"room": "Chair Table", "hall": "Door"})\n')
    assert house.read_module(path).exports == 3
