"""The files around the package agree with it and with each other."""

import re
import tomllib
from pathlib import Path

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
