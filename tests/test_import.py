import importlib
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bopl

HEAVY = ["torch", "xgboost", "sklearn", "scipy", "numba", "pyarrow", "pandas", "numpy"]


def test_import_pulls_in_nothing_heavy():
    code = "import bopl, sys, json; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert not set(HEAVY) & set(loaded)


def test_using_a_policy_does_not_import_torch_or_xgboost():
    code = "import bopl, sys; bopl.BoostedPolicy; bopl.XGBTree; assert not {'torch', 'xgboost'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_plain_evaluation_needs_no_scikit_learn():
    code = (
        "import bopl, sys, numpy as np; a = np.arange(200) % 2; "
        "log = bopl.BanditLog(np.ones((200, 1)), a, a * 1.0, np.full(200, 0.5)); "
        "bopl.evaluate(log, np.tile([0.2, 0.8], (200, 1))); assert not {'sklearn', 'pandas'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", bopl.__all__)
def test_every_public_name_is_there(name):
    assert getattr(bopl, name) is not None
    assert name in dir(bopl)


def test_names_of_the_reference_are_there_after_importing_the_package_alone():
    pages = (Path(__file__).parents[1] / "docs" / "api").glob("*.md")
    named = sorted(
        {name for page in pages for name in re.findall(r"^::: (bopl\.\w+\.\w+)$", page.read_text("utf8"), re.M)}
    )
    assert "bopl.race.candidates" in named
    code = "import bopl\nfor name in {!r}:\n    eval(name)"  # in any order, each room by itself
    for order in (named, named[::-1]):
        subprocess.run([sys.executable, "-c", code.format(order)], check=True)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'BoostedPolcy'"):
        _ = bopl.BoostedPolcy


LAZY = ["boosting", "evaluation", "learner", "learner.hist_tree", "log", "objective", "policy", "report", "reward"]


@pytest.mark.parametrize("package", LAZY)
def test_names_of_lazy_packages_are_there_and_hide_no_module(package):
    module = importlib.import_module(f"bopl.{package}")
    modules = {one.name for one in pkgutil.iter_modules(module.__path__)}
    assert not set(module.__all__) & modules  # once imported, such a module would stand in the place of the name
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = module.nonsense
