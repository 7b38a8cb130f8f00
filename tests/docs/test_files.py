"""The files around the package agree with it and with each other."""

import importlib
import inspect
import re
import time
import tomllib
from itertools import pairwise
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
    releases = re.findall(r"^## (\d\S+) – (\S+)$", (ROOT / "CHANGELOG.md").read_text("utf8"), re.M)
    assert releases[0] == (bopl.__version__, str(citation["date-released"]))


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


def undescribed(docstring):
    """Return the parameters of a docstring that have a name and no description."""
    _, _, section = (docstring or "").partition("Parameters\n----------\n")
    lines = [*re.split(r"\n\n?[A-Z]\w+\n-{3,}", section)[0].splitlines(), ""]
    return [line for line, below in pairwise(lines) if re.match(r"\S.*[^,]$", line) and below[:4] != "    "]


def documented_objects():
    """Yield the names in the pages of the API, with those of the public methods of classes."""
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        for name in re.findall(r"^::: (\S+)", page.read_text("utf8"), re.M):
            module, _, attribute = name.rpartition(".")
            thing = getattr(importlib.import_module(module), attribute)
            yield name, thing
            ours = [kind for kind in getattr(thing, "__mro__", ()) if kind.__module__.startswith("bopl.")]
            methods = {one: method for kind in reversed(ours) for one, method in vars(kind).items()}
            yield from ((f"{name}.{one}", method) for one, method in methods.items() if one[0] != "_")


def test_every_parameter_of_the_api_is_described():
    pytest.importorskip("distributed")
    missing = {
        f"{name}: {line}"
        for name, thing in documented_objects()
        for line in undescribed(inspect.getdoc(thing) if callable(thing) or isinstance(thing, classmethod) else None)
    }
    assert missing == set()


def test_a_parameter_without_a_description_is_found():
    text = "Do.\n\nParameters\n----------\na : int\n    Good.\nb : int\n\nReturns\n-------\nint\n"
    assert undescribed(text) == ["b : int"]


SEARCH = """(() => {
  const input = document.querySelector("input.md-search__input");
  document.querySelector("#__search").checked = true;
  document.querySelector("#__search").dispatchEvent(new Event("change"));
  input.focus();
  input.value = "confounder";
  input.dispatchEvent(new Event("input", { bubbles: true }));
})()"""
FOUND = "[...document.querySelectorAll('.md-search-result__link')].map(link => new URL(link.href).pathname)"


@pytest.fixture(scope="module")
def site_of_two_pages(tmp_path_factory):
    """The folder of a site with the settings of ours."""
    folder = tmp_path_factory.mktemp("docs")
    config = pytest.importorskip("mkdocs.config")
    build = importlib.import_module("mkdocs.commands.build").build
    ours = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf8"))
    pages, site = folder / "pages", folder / "site"
    for name, text in {"index.md": "# Home\n\nNothing.", "sub/other.md": "# Other\n\nA confounder hides."}.items():
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        (pages / name).write_text(text)
    for name in ours["extra"]["polyfills"]:
        (pages / name).parent.mkdir(exist_ok=True)
        (pages / name).write_bytes((ROOT / "docs" / name).read_bytes())
    kept = {name: ours[name] for name in ("site_name", "theme", "use_directory_urls", "extra")}
    kept |= {"plugins": [one for one in ours["plugins"] if isinstance(one, str)], "docs_dir": "pages"}
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(kept))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NO_MKDOCS_2_WARNING", "1")
        build(config.load_config(str(folder / "mkdocs.yml")))
    return site


@pytest.mark.parametrize("page", ["index.html", "sub/other.html"])
def test_the_search_finds_pages_of_a_site_opened_from_its_folder(browser, site_of_two_pages, page):
    site = site_of_two_pages
    browser.open(site / page)
    browser.evaluate(SEARCH)
    for _ in range(300):  # the index is read and built meanwhile
        if browser.evaluate(FOUND):
            break
        time.sleep(0.02)
    assert browser.evaluate(FOUND) == [str(site / "sub" / "other.html")]
    assert [one for one in browser.complaints() if not one.startswith("request to data:")] == []
