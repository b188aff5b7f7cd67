"""A sweep as a page: text, charts, tables, and its questions one by one."""

from ragsweep.report.page.data import page_document
from ragsweep.report.page.history import RecordedSweep, history_document

__all__ = ["RecordedSweep", "history_document", "page_document"]
