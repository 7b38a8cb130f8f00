"""Run the Python blocks of the pages, and write what they print into the output blocks below them.

Run it with `python docs/run_pages.py` (all pages) or with the names of some. The tests run the same blocks and compare.

A block is run unless the line before it is ``<!-- not run: why -->``; blocks of a page share their names, as in one
session. A block ```` ```text title="output" ```` below shows what was printed.
"""

import contextlib
import io
import os
import re
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
# ```info, text, ```; indented where a block stands in a tab.
FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>```+)(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=ticks) *$",
    re.M | re.S,
)
NOT_RUN = re.compile(r"<!-- not run: [^>]+-->\s*$")
OUTPUT = 'text title="output"'


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: what it is said to be, its text without indentation, and where the text stands."""

    info: str
    text: str
    indent: str
    start: int
    end: int
    is_marked: bool

    @property
    def is_run(self):
        """Whether it is Python to be run: snippets come from the examples, which have tests of their own."""
        is_snippet = self.text.lstrip().startswith("--8<--")
        return self.info.split(" ")[0] == "python" and not self.is_marked and not is_snippet


def pages():
    """Return all pages with blocks: the README and the documentation."""
    return [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md"))]


def read_blocks(markdown):
    """Return the fenced blocks of a page, in order."""
    return [
        Block(
            found["info"].strip(),
            re.sub(f"^{found['indent']}", "", found["body"], flags=re.M),
            found["indent"],
            found.start("body"),
            found.end("body"),
            NOT_RUN.search(markdown[: found.start()]) is not None,
        )
        for found in FENCE.finditer(markdown)
    ]


def run_blocks(blocks, name):
    """Run a page's Python blocks in the current folder; yield each block with what it printed, or None if not run."""
    names = {"__name__": "__main__"}
    for number, block in enumerate(blocks):
        if not block.is_run:
            yield block, None
            continue
        printed = io.StringIO()
        code = compile(block.text, f"{name}, block {number + 1}", "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        yield block, printed.getvalue()


def prepare(folder):
    """Put the files that pages speak of into a folder: the log of a shop, whole and in two parts."""
    sys.path.insert(0, str(ROOT / "examples"))
    import pyarrow.parquet as pq
    from make_clicks import make_clicks

    table = make_clicks()
    half = table.num_rows // 2
    pq.write_table(table, folder / "clicks.parquet")
    pq.write_table(table.slice(0, half), folder / "clicks-1.parquet")
    pq.write_table(table.slice(half), folder / "clicks-2.parquet")


def with_outputs(markdown, name):
    """Return a page with its output blocks filled anew."""
    text, moved, last = markdown, 0, ""
    for block, printed in run_blocks(read_blocks(markdown), name):
        if printed is not None:
            last = printed
        elif block.info == OUTPUT:
            lines = "".join(
                f"{block.indent}{line.rstrip()}".rstrip() + "\n"
                for line in last.rstrip().splitlines()
            )
            text = text[: block.start + moved] + lines + text[block.end + moved :]
            moved += len(lines) - (block.end - block.start)
    return text


def main(names):
    warnings.simplefilter("error")
    for path in pages():
        if names and path.stem not in names:
            continue
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            prepare(Path(folder))
            path.write_text(
                with_outputs(path.read_text(encoding="utf8"), path.name), encoding="utf8"
            )
        print(f"{path.relative_to(ROOT)} run")


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "100")
    main(sys.argv[1:])
