"""A sweep as one HTML file that needs nothing else: words, charts, tables, and its questions one by one."""

from ragsweep.report.page.data import PageSource, build_document
from ragsweep.report.page.page import write_page
from ragsweep.report.page.questions import ChunkReader

__all__ = ["ChunkReader", "PageSource", "build_document", "write_page"]
