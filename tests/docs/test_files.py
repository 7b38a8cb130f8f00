"""The files around the package agree with it and with each other."""

import importlib
import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import bopl

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_lead_to_files(name):
    for target in LINK.findall((ROOT / name).read_text("utf8")):
        assert "://" in target or (ROOT / target).exists(), f"{name} links to {target}"


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf8"))
    assert project["version"] == citation["version"] == bopl.__version__
    assert project["license"] == citation["license"]


def test_nothing_in_the_pages_is_loaded_from_elsewhere():
    for path in [ROOT / "mkdocs.yml", *(ROOT / "docs").rglob("*.svg"), *(ROOT / "docs").rglob("*.css")]:
        text = path.read_text("utf8")
        assert not re.search(r"@import|url\(\s*[\"']?https?:|(?:href|src)=[\"']https?:", text), path


def test_results_stand_below_the_heading_of_their_page(monkeypatch):
    pytest.importorskip("mkdocs")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    hooks = importlib.import_module("hooks")
    assert hooks.below_heading("# Title\n\nText # 1\n\n## Part\n### Piece\n") == "Text # 1\n\n### Part\n#### Piece\n"
    assert hooks.below_heading("**Table**\n") == "**Table**\n"


def test_every_check_of_an_audit_is_explained():
    frame = pd.DataFrame({"x": [0.0, 1.0] * 20, "a": [0, 1, 1, 0] * 10, "r": [1.0, 0.0] * 20, "p": [0.5] * 40})
    log = bopl.BanditLog.from_frame(frame, action="a", reward="r", propensity="p")
    without = bopl.BanditLog.from_frame(frame.drop(columns="p"), action="a", reward="r", propensity=None)
    uniform = np.full((40, 2), 0.5)
    audits = (log.audit(), log.audit(uniform, logging_policy=uniform), without.audit())
    checks = {finding.check for audit in audits for finding in audit.findings}
    table = [line for line in (ROOT / "docs" / "reading.md").read_text("utf8").splitlines() if line.startswith("| `")]
    explained = {name for line in table for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert len(checks) > 18
    assert checks <= explained
