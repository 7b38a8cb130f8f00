"""Your own log format: text with bars between the columns, recognised by its extension.

Run it with `python examples/custom_format.py`.
"""

from pathlib import Path

from pyarrow import csv

import bopl
from bopl.log.format import LogFormat, register_format


# --8<-- [start:format]
def read_bars(path, wanted):
    """Return the requested columns of one file as an arrow table."""
    table = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter="|"))
    return table.select(wanted.of(table.column_names))


register_format(LogFormat("bars", "Text with bars", (".bars",), read_table=read_bars))
# --8<-- [end:format]

if __name__ == "__main__":
    Path("log.bars").write_text("age|item|p|click\n31|tea|0.5|1\n45|milk|0.5|0\n28|tea|0.5|0\n", encoding="utf8")
    log = bopl.BanditLog.read("log.bars", action="item", propensity="p", reward="click")
    print(log)
