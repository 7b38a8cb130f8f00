"""File formats: each is one file here, and one line in `registry`."""

from bopl.log.format.columnar import Wanted
from bopl.log.format.files import check_extension, write_table
from bopl.log.format.log_format import FORMATS, LogFormat, read_parts, read_table, register_format
from bopl.log.format.log_parts import LogParts

__all__ = [
    "FORMATS",
    "LogFormat",
    "LogParts",
    "Wanted",
    "check_extension",
    "read_parts",
    "read_table",
    "register_format",
    "write_table",
]
