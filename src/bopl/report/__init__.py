"""One self-contained HTML page per run, made from a summary dictionary.

Names are imported when first used.
"""

from typing import TYPE_CHECKING

from bopl._lazy import lazy_modules

if TYPE_CHECKING:
    from bopl.report.report_page import render_page as render_page
    from bopl.report.report_page import write_page as write_page
    from bopl.report.summary import SCHEMA as SCHEMA
    from bopl.report.summary import summarise as summarise

__all__, __getattr__, __dir__ = lazy_modules(
    __name__, {"report_page": "render_page write_page", "summary": "SCHEMA summarise"}
)
