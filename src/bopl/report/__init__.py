"""One self-contained HTML page per run, made from a summary dictionary."""

from bopl.report.page import render_page, write_page
from bopl.report.summary import SCHEMA, summarise

__all__ = ["SCHEMA", "render_page", "summarise", "write_page"]
