"""Hooks of the site's build: result tables go where a page asks for them, once there are any."""

from pathlib import Path

from mkdocs.structure.files import File

RESULTS = Path(__file__).parents[1] / "results"
MARK = "<!-- results -->"
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
    """Put the tables of the results in the place of the mark."""
    if MARK not in markdown:
        return markdown
    tables = [path.read_text(encoding="utf8") for path in sorted(RESULTS.glob("*.md"))]
    figures = [f"![{path.stem}](results/{path.name})" for path in sorted(RESULTS.glob("*.svg"))]
    return markdown.replace(MARK, "\n\n".join([*tables, *figures]) or NOTHING_YET)
