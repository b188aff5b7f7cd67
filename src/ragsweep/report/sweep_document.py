"""The documents of a sweep: its table and its conclusions."""

import math
from collections.abc import Iterator

from ragsweep.core.results import objectives
from ragsweep.report.answers import distractor_statements
from ragsweep.report.choice import choice_statements
from ragsweep.report.document import Block, Document, Section, Statement, Statements, Table, lines, notes, paragraphs
from ragsweep.report.evidence import evidence_statements
from ragsweep.report.evidence_losses import degraded_statements
from ragsweep.report.holdout import holdout_use
from ragsweep.report.result_blocks import details, failure_lines, heading, remedies
from ragsweep.report.sweep_report import SweepReport
from ragsweep.report.sweep_table import slice_table, sweep_table, swept
from ragsweep.report.tables import headline
from ragsweep.report.verdict import limits
from ragsweep.stats.conclusion import SweepConclusion

INTERVALS = "in brackets: 95 % intervals; differences are paired by question"
"""The legend of the table's numbers."""
SHRUNK = "Expected gains below are shrunk towards 0"
"""The addition to the legend if the choice is stated with an expected gain."""


def conclusion_statements(report: SweepReport) -> Statements:
    """State the choice, the evidence, the limits, and remedies."""
    found = report.conclusion
    parts = (
        paragraphs("CHOICE", choice_statements(found)),
        paragraphs("EVIDENCE", evidence_statements(found)),
        paragraphs("LIMITS", _limits(found)),
        remedies(report.results),
    )
    return Statements([one for part in parts for one in part.items], "paragraphs")


def _limits(conclusion: SweepConclusion) -> Iterator[Statement]:
    if conclusion.compared:
        yield from limits(conclusion.compared)
    yield from degraded_statements(conclusion.audits.slices)
    yield from distractor_statements(conclusion.audits.distractors)
    yield from holdout_use(conclusion.holdout_views, conclusion.holdout_configs)


def sweep_document(report: SweepReport, width: int, by: str | None = None) -> Document:
    """Build the document that ends a sweep: the table, notes, conclusions and next steps.

    ``width`` is the width of the tables, in characters. ``by`` is a label; a second table has the deciding metric for
    each of its values.
    """
    blocks, shown = list[Block](), report.shown
    if shown:
        same = shown[0].name if len(shown) == 1 else "the same config"
        name = f"{given}: " if (given := shown[0].run.config.get("name")) else ""
        blocks = [heading(f"{name}{swept(shown) or same}", shown[0].run.dataset), *_tables(report, width, by)]
        blocks += details(shown, headline(shown))
    blocks += [failure_lines(report.failures), notes(report.notes), conclusion_statements(report)]
    return Document(report.title, [Section([*blocks, Statements(report.commands, "commands")])])


def _tables(report: SweepReport, width: int, by: str | None) -> Iterator[Block]:
    rows, found = [*report.shown, *report.baselines], report.conclusion
    table = sweep_table(rows, headline(report.shown), found.comparison, found.chosen, width)
    probabilities = [one.data.get("probability", math.nan) for one in choice_statements(found)]
    has_gain = not all(map(math.isnan, probabilities))
    yield Table(table.header, table.rows, f"{INTERVALS}. {SHRUNK}" if has_gain else INTERVALS, fitted=True)
    yield lines(Statement("", text) for text in table.omissions(report.reference))
    if by:
        metric = found.compared.metric if found.compared else objectives(rows[0].run.config)[0]
        slices = slice_table(rows, by, metric, [row[0] for row in table.rows], width)
        yield notes(Statement("", f"{metric} by {by}:"))
        yield Table(slices.header, slices.rows, fitted=True)


def description_document(report: SweepReport) -> Document:
    """Build the document for MLflow and for comments: conclusions first, then the table."""
    shown, found = report.shown, report.conclusion
    table = sweep_table([*shown, *report.baselines], headline(shown), found.comparison, found.chosen, width=10_000)
    return Document(report.title, [Section([conclusion_statements(report), Table(table.header, table.rows)])])
