"""One self-contained HTML page per run, made from a summary dictionary.

Names are imported when first used.
"""

from typing import TYPE_CHECKING

from bopl._lazy import lazy_names

if TYPE_CHECKING:
    from bopl.report.report_page import render_page as render_page
    from bopl.report.report_page import write_page as write_page
    from bopl.report.summary import SCHEMA as SCHEMA
    from bopl.report.summary import summarise as summarise

__all__ = ["SCHEMA", "render_page", "summarise", "write_page"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "SCHEMA": "summary",
        "render_page": "report_page",
        "summarise": "summary",
        "write_page": "report_page",
    },
)
