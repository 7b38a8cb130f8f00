"""Run the blocks of the pages, and write what they print where the pages show it.

Run it with `python docs/run_pages.py` (all pages) or with the names of some. The tests run the same blocks and compare.

A block of Python is run unless the line before it is ``<!-- not run: why -->``; blocks of a page share their names and
their folder, as in one session. A block ```` ```text title="output" ```` below shows what was printed. In a block of kind
``console`` the lines ``$ bopl …`` are run, and what they print stands between them.
"""

import contextlib
import io
import os
import re
import shlex
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
COLUMNS = "96"


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
    def kind(self):
        """What the block is said to be, in one word."""
        return self.info.split(" ")[0]

    @property
    def is_run(self):
        """Whether it is run. Snippets are not Python to ruff, nor to us: the examples have tests of their own."""
        return self.kind in ("python", "console") and not self.is_marked


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
    """Run a page's blocks in the current folder; yield each with what it printed, or None if it is not run."""
    names = {"__name__": "__main__"}
    for number, block in enumerate(blocks):
        if not block.is_run:
            yield block, None
        elif block.kind == "console":
            yield block, run_console(block.text)
        else:
            printed = io.StringIO()
            code = compile(block.text, f"{name}, block {number + 1}", "exec")
            with contextlib.redirect_stdout(printed):
                exec(code, names)
            yield block, printed.getvalue()


def run_console(text):
    """Return the commands of a block with what each of them prints below it."""
    shown, code = "", 0
    for command in re.findall(r"^\$ .*?(?<!\\)$", text, flags=re.M | re.S):
        words = shlex.split(command.replace("\\\n", " "))[1:]
        if words == ["echo", "$?"]:
            printed = f"{code}\n"
        elif words[0] == "ls":
            printed = "  ".join(sorted(os.listdir(words[1]))) + "\n"
        else:
            assert words[0] == "bopl", f"only bopl, ls and echo $? are known; got {command}"
            printed, code = run_command(words[1:])
        shown += f"{command}\n{printed}"
    return shown


def run_command(arguments):
    """Return what the command prints, and its exit code."""
    from bopl.cli import main as bopl_main

    printed, code = io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            bopl_main(arguments)
        except SystemExit as stop:
            code = stop.code or 0
    return re.sub(
        r"^bopl: .* \(\d+:\d\d so far\)\n", "", printed.getvalue(), flags=re.M
    ), code  # no progress of slow machines


def prepare(folder):
    """Put the files that pages speak of into a folder: the log of a shop, whole and in two parts, and a later one."""
    sys.path.insert(0, str(ROOT / "examples"))
    import pyarrow.parquet as pq
    from make_clicks import make_clicks

    table = make_clicks()
    half = table.num_rows // 2
    pq.write_table(table, folder / "clicks.parquet")
    pq.write_table(table.slice(0, half), folder / "clicks-1.parquet")
    pq.write_table(table.slice(half), folder / "clicks-2.parquet")
    pq.write_table(make_clicks(8000, random_state=1), folder / "later.parquet")
    (folder / "train.vw").write_text("".join(map(vowpal_line, table.slice(0, 4000).to_pylist())))


def vowpal_line(row):
    """Return a decision in Vowpal Wabbit's text: the item's number, its cost, its probability, and the features."""
    from make_clicks import ITEMS

    item = ITEMS.tolist().index(row["item"]) + 1
    features = f"age:{row['age']:g} " if row["age"] == row["age"] else ""
    return (
        f"{item}:{-row['click']}:{row['p']:.6f} | {features}hour:{row['hour']} {row['device']}\n"
    )


def with_outputs(markdown, name):
    """Return a page with its output blocks, and what its commands print, filled anew."""
    text, moved, last = markdown, 0, ""
    for block, printed in run_blocks(read_blocks(markdown), name):
        if printed is not None:
            last = printed
        if block.kind == "console" or block.info == OUTPUT:
            kept = last if block.is_run or block.info == OUTPUT else block.text
            lines = [
                f"{block.indent}{line.rstrip()}".rstrip() for line in kept.rstrip().splitlines()
            ]
            filled = "".join(f"{line}\n" for line in lines)
            text = text[: block.start + moved] + filled + text[block.end + moved :]
            moved += len(filled) - (block.end - block.start)
    return text


def main(names):
    os.environ["COLUMNS"] = COLUMNS
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
    main(sys.argv[1:])
