"""A sweep as one self-contained HTML file: text, charts, tables, and its questions one by one."""

from ragsweep.report.page.data import PageSource, build_document
from ragsweep.report.page.history import RecordedSweep, build_history
from ragsweep.report.page.items import PastSweep
from ragsweep.report.page.page import write_page

__all__ = [
    "PageSource",
    "PastSweep",
    "RecordedSweep",
    "build_document",
    "build_history",
    "write_page",
]
