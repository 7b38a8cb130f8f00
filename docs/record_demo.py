"""Record what `bopl demo` (the end of `make demo`) prints as a picture of a terminal, docs/images/demo.svg.

Run it with `python docs/record_demo.py`. The text is what the command printed; nothing is typed by hand.
"""

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).parents[1]
WIDTH = 100


def record(command):
    """Return what a command prints to a terminal of that width, colours included."""
    environment = os.environ | {
        "FORCE_COLOR": "1",
        "COLUMNS": str(WIDTH),
        "TERM": "xterm-256color",
    }
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=True
        )
    return run.stdout


def as_svg(prompt, printed):
    """Return the picture; fonts are the reader's own, as nothing may be loaded from elsewhere."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text("$ ", style="bold green") + Text(prompt, style="bold"))
    console.print(Text.from_ansi(printed.rstrip()))
    svg = console.export_svg(title="bopl", theme=MONOKAI, unique_id="demo")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S).replace(
        "Fira Code", "ui-monospace, Menlo, Consolas"
    )


def main():
    printed = record([sys.executable, "-m", "bopl", "demo"])
    (ROOT / "docs" / "images" / "demo.svg").write_text(
        as_svg("bopl demo", printed), encoding="utf8"
    )


if __name__ == "__main__":
    main()
