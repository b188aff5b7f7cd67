"""The conclusions of a sweep as a page and as Markdown."""

from __future__ import annotations

from ragsweep.core.escaping import markdown_text
from ragsweep.core.results import DROPPED
from ragsweep.report.front import front_lines
from ragsweep.report.page import PageSource, PastSweep, build_document, write_page
from ragsweep.report.page_texts import PageTexts
from ragsweep.report.race import race_lines
from ragsweep.report.sweep_table import sweep_table
from ragsweep.report.tables import headline, markdown
from ragsweep.report.terminal import fixes
from ragsweep.report.verdict import gap_line
from ragsweep.sweep.concluding.sweep_summary import SweepSummary

PAGE = "report.html"


def sweep_page(summary: SweepSummary, title: str, reference: str = "", texts: PageTexts | None = None) -> bytes:
    """Write the sweep as one self-contained HTML file."""
    notes = [*race_lines(summary.results), *front_lines(summary.front, summary.objectives, len(summary.results)),
             *summary.finalists.lines(), *gap_line(summary.gap)]  # fmt: skip
    source = PageSource(
        title, summary.results, summary.failures, summary.verdict, summary.decision, _blocks(summary), notes,
        [*summary.next_steps(reference)], summary.study.sampler if summary.study else "", texts or PageTexts(),
        _history(summary), summary.baselines,
    )  # fmt: skip
    return write_page(build_document(source))


def describe(summary: SweepSummary) -> str:
    """Format the result as Markdown: conclusions first, then the table."""
    shown = [result for result in summary.results if result.state != DROPPED]
    table = sweep_table([*shown, *summary.baselines], headline(shown), summary.verdict, summary.chosen, width=10_000)
    header = [name.removeprefix(">") or " " for name in table.header]
    parts = [f"**{word}.** {markdown_text(' '.join(sentences))}\n" for word, sentences in _blocks(summary).items()]
    return "\n".join([*parts, markdown([dict(zip(header, row, strict=True)) for row in table.rows])])


def _blocks(summary: SweepSummary) -> dict[str, list[str]]:
    """Return the conclusions: a heading, and its sentences."""
    decided = {"Choice": summary.decision.choice(), "Evidence": summary.decision.evidence()} if summary.decision else {}
    blocks = {**decided, "Limits": summary.limits(), "Fix": fixes(summary.results)}
    texts = {word: list(dict.fromkeys(sentences)) for word, sentences in blocks.items()}
    return {word: sentences for word, sentences in texts.items() if sentences}


def _history(summary: SweepSummary) -> list[PastSweep]:
    facts = summary.results[0].dataset if summary.results and summary.objectives else None
    return summary.past_sweeps(facts, summary.objectives[0]) if facts else []
