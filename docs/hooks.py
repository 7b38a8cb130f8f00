"""Hooks of the site's build: files of the repository as pages, and result tables once there are any."""

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
WHOLE_FILE = re.compile(r'^--8<-- "([\w/]+\.md)"$', re.M)
RESULTS_MARK = "<!-- results -->"
NOTHING_YET = """!!! note "No full run yet"

    This page shows the tables of `results/` once a full run has been made and committed. Until then:
    `bopl reproduce --quick` takes minutes and prints both tables beside the paper's.
"""


def on_files(files, config, **_):
    """Publish the figure of the results, if there is one."""
    for path in sorted(RESULTS.glob("*.svg")):
        files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, **_):
    """Put in the files and the tables that a page asks for."""
    markdown = WHOLE_FILE.sub(lambda found: as_page(ROOT / found[1]), markdown)
    return markdown.replace(RESULTS_MARK, results()) if RESULTS_MARK in markdown else markdown


def as_page(path):
    """Return a file of the repository with links that lead to pages of the site."""
    text = path.read_text(encoding="utf8").replace("](docs/", "](")
    return re.sub(r"\]\((\w+)\.md", lambda found: f"]({found[1].lower()}.md", text)


def results():
    """Return the tables and figures of the results, or a word about where they will come from."""
    tables = [
        below_heading(path.read_text(encoding="utf8")) for path in sorted(RESULTS.glob("*.md"))
    ]
    figures = [f"![{path.stem}](results/{path.name})" for path in sorted(RESULTS.glob("*.svg"))]
    return "\n\n".join([*tables, *figures]) or NOTHING_YET


def below_heading(text):
    """Return text to stand below a heading of the page: without its title, and with headings one level down."""
    return re.sub(r"^#(?=#+ )", "##", re.sub(r"\A# .*\n+", "", text), flags=re.M)
