"""Hooks of the site's build: files of the repository as pages, and result tables."""

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
WHOLE_FILE = re.compile(r'^--8<-- "([\w/]+\.md)"$', re.M)
RESULTS_MARK = "<!-- results -->"
INTERVAL_CELL = re.compile(r"(?<=\| )(\*\*)?([\d.]+) ± ([\d.]+)(\*\*)?(?= \|)")


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
    text = (
        path.read_text(encoding="utf8").replace("](../docs/", "](docs/").replace("](docs/", "](")
    )
    return re.sub(r"\]\((\w+)\.md", lambda found: f"]({found[1].lower()}.md", text)


def results():
    """Return the text, tables and figures of the results, with the intervals below the means."""
    tables = [
        below_heading(path.read_text(encoding="utf8")) for path in sorted(RESULTS.glob("*.md"))
    ]
    figures = [f"![{path.stem}](results/{path.name})" for path in sorted(RESULTS.glob("*.svg"))]
    return INTERVAL_CELL.sub(
        r"\1\2\4<br><small>±&nbsp;\3</small>", "\n\n".join([*tables, *figures])
    )


def below_heading(text):
    """Return text to stand below a heading of the page: without its title, and with headings one level down."""
    return re.sub(r"^#(?=#+ )", "##", re.sub(r"\A# .*\n+", "", text), flags=re.M)
