"""What others register, or offer by entry point, is found by name; what is ours stays ours."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from bopl import _registry
from bopl._registry import Registry, offered
from bopl.evaluation import MeanEstimator, evaluate, register_estimator
from bopl.log.format import FORMATS, LogFormat, register_format
from bopl.testing import random_log
from registries import REGISTRIES

PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from bopl.evaluation import IPS
from bopl.objective import IPS as Objective
from bopl.objective import Clipped

@dataclass(frozen=True)
class Softly(Clipped):
    name: ClassVar[str] = "softly"

@dataclass(frozen=True)
class Half(IPS):
    name: ClassVar[str] = "half_ips"
    is_default: ClassVar[bool] = False
    title: ClassVar[str] = "Half of IPS"

@dataclass(frozen=True)
class Mine(Objective):
    name: ClassVar[str] = "mine"
"""


@pytest.fixture
def installed(tmp_path):
    """A package beside the others, with entry points; its folder is returned."""
    (tmp_path / "plugin_of_a_test.py").write_text(PLUGIN, encoding="utf8")
    info = tmp_path / "plugin_of_a_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-of-a-test\nVersion: 1.0\n", encoding="utf8")
    entries = """
        [bopl.estimators]
        half_ips = plugin_of_a_test:Half
        ips = plugin_of_a_test:Half
        gone = plugin_of_a_test:Gone
        [bopl.objectives]
        mine = plugin_of_a_test:Mine
        [bopl.weights]
        softly = plugin_of_a_test:Softly
    """
    (info / "entry_points.txt").write_text(dedent(entries), encoding="utf8")
    return tmp_path


@pytest.fixture
def plugin(installed, monkeypatch):
    """The same, found by this process."""
    monkeypatch.syspath_prepend(installed)
    _registry._entry_points.cache_clear()
    yield
    _registry._entry_points.cache_clear()
    sys.modules.pop("plugin_of_a_test", None)


def test_what_a_package_offers_is_imported_when_it_is_asked_for(plugin):
    registry = Registry("bopl.estimators", {"ips": int})
    assert "half_ips" in registry
    assert list(registry) == ["ips", "gone", "half_ips"]
    assert "plugin_of_a_test" not in sys.modules
    assert registry["half_ips"].name == "half_ips"


def test_a_name_of_ours_stays_ours(plugin):
    registry = Registry("bopl.estimators", {"ips": int})
    assert registry["ips"] is int
    assert len(registry) == 3
    with pytest.raises(ValueError, match=r"'ips' is one of bopl's own estimators"):
        registry["ips"] = str


def test_an_object_in_the_place_of_ours_is_refused_too():
    with pytest.raises(ValueError, match=r"'csv' is one of bopl's own formats; give yours another name"):
        register_format(LogFormat("csv", "Mine", (".csv",), read_table=print))
    FORMATS["csv"] = FORMATS["csv"]  # the same again changes nothing


def test_an_estimator_without_a_name_is_refused_in_a_sentence():
    nameless = type("Nameless", (MeanEstimator,), {"moments": lambda self, terms: terms.reward[:, None]})
    with pytest.raises(TypeError, match="Nameless needs a name, by which it is known"):
        register_estimator(nameless)
    with pytest.raises(TypeError, match="Nameless needs a name, which tables and reports show"):
        evaluate(random_log(0), {"new": np.ones(60)}, estimators=[nameless()])


def test_what_cannot_be_imported_is_named_with_its_package(plugin):
    registry = Registry("bopl.estimators", {})
    with pytest.raises(ImportError, match=r"plugin-of-a-test offers 'gone' to bopl\.estimators"):
        registry["gone"]
    with pytest.warns(UserWarning, match="It is left out"):
        assert [name for name, _ in registry.usable()] == ["half_ips", "ips"]


def test_an_unknown_name_is_a_key_error():
    with pytest.raises(KeyError):
        Registry("bopl.estimators", {})["nobody"]


def test_what_was_registered_is_forgotten_after_a_while():
    registry = Registry("bopl.nothing", {"ours": "math:pi"})
    with registry.temporary():
        registry["theirs"] = 3.0
        assert dict(registry) == {"ours": pytest.approx(3.14159, abs=1e-5), "theirs": 3.0}
    assert list(registry) == ["ours"]


def test_nothing_is_offered_where_nothing_is_installed():
    assert offered("bopl.estimators") == {}


def test_every_group_is_named_after_what_it_holds():
    assert {one.group for one in REGISTRIES} == {
        f"bopl.{noun}"
        for noun in (
            "estimators", "intervals", "learners", "predictors", "formats", "objectives", "weights", "policies",
        )
    }  # fmt: skip


def test_the_command_lists_and_uses_what_is_installed(installed, tmp_path):
    """In a process of its own, as a user would have it."""
    code = dedent(
        f"""
        import sys
        sys.path.insert(0, {str(installed)!r})
        import numpy as np, bopl
        from typer.testing import CliRunner
        from bopl.cli.main import app
        from bopl.testing import random_log
        shown = CliRunner().invoke(app, ["train", "--help"], env={{"COLUMNS": "200"}}).output
        assert all(name in shown for name in ("half_ips", "mine", "softly")), shown
        words = {{"_BOPL_COMPLETE": "complete_bash", "COMP_WORDS": "bopl train --objective m", "COMP_CWORD": "3"}}
        assert CliRunner().invoke(app, [], prog_name="bopl", env=words).output.split() == ["mine"]
        assert bopl.objective.parse_weight("softly:0.2").tau == 0.2
        log = random_log(0, n_samples=200)
        row = bopl.evaluate(log, {{"same": log.propensity}}, estimators=["half_ips"]).row()
        assert row["uplift"] == 0.0
        policy = bopl.BoostedPolicy("mine", n_rounds=2, random_state=0).fit(log)
        policy.save("mine.bopl")
        assert type(bopl.load("mine.bopl").objective).__name__ in ("str", "Mine")
        """
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_policy_with_an_installed_learner_is_loaded_without_importing_its_package(tmp_path):
    """Learner, predictors and policies are those of the examples, offered by entry points alone."""
    examples = Path(__file__).parents[1] / "examples"
    code = [(examples / f"custom_{part}.py").read_text("utf8") for part in ("learner", "policy")]
    kept = [line for one in code for line in one.partition("if __name__")[0].splitlines() if "register_" not in line]
    head = (
        "from bopl.learner import BoundLearner, Codec, FittedStep, Predictor\nfrom bopl.policy import LearnedPolicy\n"
    )
    text = head + "\n".join(kept) + "\nCODEC = Codec(pack, unpack)\n"
    (tmp_path / "others.py").write_text(text, encoding="utf8")
    info = tmp_path / "others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n", encoding="utf8")
    entries = """
        [bopl.learners]
        RidgeByAction = others:RidgeByAction
        [bopl.predictors]
        linear_by_action = others:CODEC
        [bopl.policies]
        RidgePolicy = others:RidgePolicy
    """
    (info / "entry_points.txt").write_text(dedent(entries), encoding="utf8")
    head = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport bopl\nfrom bopl.testing import random_log\n"
    fit = """
        import others
        log = random_log(0, n_samples=200)
        bopl.BoostedPolicy("surrogate", others.RidgeByAction(5.0), n_rounds=2, random_state=0).fit(log).save("a.bopl")
        others.RidgePolicy(penalty=5.0).fit(log).save("b.bopl")
    """
    load = """
        assert "others" not in sys.modules
        assert bopl.load("a.bopl").learner.penalty == bopl.load("b.bopl").penalty == 5.0
    """
    for part in (fit, load):
        command = [sys.executable, "-c", head + dedent(part)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
