"""File formats: each is one file here, and one line in `registry`."""

from bopl.log.format.parts import LogParts
from bopl.log.format.registry import FORMATS, read_parts, read_table
from bopl.log.format.writing import check_extension, write_table

__all__ = ["FORMATS", "LogParts", "check_extension", "read_parts", "read_table", "write_table"]
