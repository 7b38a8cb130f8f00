"""What the pages show is what happens: every Python block runs, and prints what stands below it."""

import importlib
import re
import sys
from pathlib import Path

import pytest

import bopl

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
run_pages = importlib.import_module("run_pages")

PAGES = [path for path in run_pages.pages() if any(b.is_run for b in run_pages.read_blocks(path.read_text("utf8")))]


# Who wins a race on a small log can depend on the last bit of a processor's sums: rows of a leaderboard, and who won.
NAMES = "|".join(map(re.escape, ["blend", *(one.name for one in bopl.race.candidates())]))
RACED = re.compile(rf"(^ *({NAMES}) .* (won|raced|in the blend|dropped after \d+ rounds) *\n)+", re.M)
WINNER = re.compile(rf"\b({NAMES})( \+ ({NAMES}))* won:")


def words(text):
    """Return printed text without its numbers and the widths of its tables, which change from machine to machine."""
    text = WINNER.sub("somebody won:", RACED.sub("a leaderboard\n", text))
    return re.sub(r"[\s│┃┏┓┗┛└┘┌┐├┤┡┩╇╈┳┻┴┬─━+-]+", " ", re.sub(r"\d[\d,.e]*", "#", text)).strip()


# Pages that let candidates race take long. README.md races all the same: it has the code of the index.
RACING = ("index", "start", "commands", "tutorial", "choosing", "coming-from", "objectives")


def by_page(path):
    return pytest.param(path, id=str(path.relative_to(ROOT)), marks=[pytest.mark.slow] if path.stem in RACING else [])


@pytest.mark.parametrize("path", [by_page(path) for path in PAGES])
def test_blocks_of_a_page_run_and_print_what_is_shown(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", run_pages.COLUMNS)
    run_pages.prepare(tmp_path)
    last = ""
    for block, printed in run_pages.run_blocks(run_pages.read_blocks(path.read_text("utf8")), path.name):
        if printed is not None:
            last = printed
        if block.info == run_pages.OUTPUT or (block.kind == "console" and block.is_run):
            assert words(block.text) == words(last)


def test_no_python_escapes_by_another_name():
    for path in run_pages.pages():
        for block in run_pages.read_blocks(path.read_text("utf8")):
            assert block.kind not in ("py", "python3", "Python"), f"{path.name}: write python, so that it is run"


FOLDERS = "baseline boosting cluster evaluation learner log objective policy report search serving simulation"


@pytest.mark.parametrize("module", ["", *FOLDERS.split()])
def test_every_public_name_is_in_the_reference(module):
    home = importlib.import_module(f"bopl.{module}".rstrip("."))
    text = "".join(path.read_text("utf8") for path in (ROOT / "docs" / "api").glob("*.md"))
    documented = set(re.findall(r"^::: (\S+)", text, re.M))
    shown = {name.split(".")[-1] for name in documented}
    modules = set(bopl._MODULES)
    assert set(home.__all__) - modules - shown == set()
