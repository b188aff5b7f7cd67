"""The conclusions of a sweep as a page and as Markdown."""

from __future__ import annotations

from dataclasses import replace

from ragsweep.report.page.data import page_document
from ragsweep.report.page_texts import PageTexts, PastSweep
from ragsweep.report.sweep_document import description_document
from ragsweep.report.writers.html import as_html
from ragsweep.report.writers.markdown import as_markdown
from ragsweep.sweep.concluding.sweep_summary import SweepSummary

PAGE = "report.html"


def sweep_page(summary: SweepSummary, title: str, reference: str = "", texts: PageTexts | None = None) -> bytes:
    """Write the sweep as one self-contained HTML file."""
    report = replace(summary.report(title, reference, texts), history=_history(summary))
    return as_html(page_document(report), report.texts.secrets)


def describe(summary: SweepSummary) -> str:
    """Format the result as Markdown: conclusions first, then the table."""
    return as_markdown(description_document(summary.report()))


def _history(summary: SweepSummary) -> list[PastSweep]:
    facts = summary.results[0].dataset if summary.results and summary.objectives else None
    return summary.past_sweeps(facts, summary.objectives[0]) if facts else []
