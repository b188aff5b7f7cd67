"""Blocks shared by documents of one config and of many: heading, answers and targets, failures, remedies."""

from collections.abc import Iterator, Sequence

from ragsweep.core.results import PARTIAL, DatasetFacts, Failure, Result, shown_metrics
from ragsweep.report.answers import answer_lines
from ragsweep.report.document import Block, Document, Section, Statement, Statements, Table, lines, notes, paragraphs
from ragsweep.report.naming import rounded
from ragsweep.report.numbers import cell
from ragsweep.report.sweep_table import label_table
from ragsweep.report.tables import evidence_note, partial_note, reranking_note
from ragsweep.report.targets import target_lines
from ragsweep.stats.latencies import busy_sentence


def heading(what: str, dataset: DatasetFacts) -> Statements:
    """State what was evaluated, on which questions, and the notes on them."""
    data = {"questions": dataset.questions, "with_evidence": dataset.with_evidence}
    questions = Statement("", f"{dataset.name}: {evidence_note(dataset)}", data)
    texts = [Statement("", what), questions, *(Statement("", note) for note in dataset.notes)]
    return Statements(texts, "heading")


def details(results: Sequence[Result], headline: Sequence[str]) -> list[Statements]:
    """Describe answers, the effect of context, and targets; for a single config, also the effect of reranking."""
    reranking = []
    if len(results) == 1 and (facts := results[0].summaries.reranking):
        reranking = [Statement("rerank", reranking_note(results[0], headline), facts)]
    return [lines(reranking), notes(answer_lines(results), target_lines(results))]


def failure_lines(failures: Sequence[Failure]) -> Statements:
    """List the failed configs with their reasons."""
    return lines(Statement("failed", f"{rounded(failure.name)} · {failure.error}") for failure in failures)


def remedies(results: Sequence[Result]) -> Statements:
    """Describe problems of the results or their data, with their remedies."""
    return paragraphs("FIX", (Statement("", text) for text in _fixes(results)))


def _fixes(results: Sequence[Result]) -> Iterator[str]:
    """Yield problems of a sweep or its data, with their remedies."""
    for result in results:
        if result.run.state == PARTIAL:
            yield f"{rounded(result.name)} is PARTIAL: {partial_note(result)}."
    for warning in dict.fromkeys(warning for result in results for warning in result.run.warnings):
        yield f"{warning[:1].upper()}{warning[1:]}."
    shown = dict.fromkeys(
        name for one in results for name in shown_metrics(one.run.config) if name.startswith("latency_")
    )
    if shown and (busy := busy_sentence(results, next(iter(shown)))):
        yield f"{busy}; rerun=true measures it again."


def result_document(result: Result, headline: Sequence[str]) -> Document:
    """Build the document of a single config: each headline metric with its interval, and by slice if configured."""
    metrics = Table(
        [f">{name}" for name in headline], [[cell(result.summaries.metrics.get(name)) for name in headline]]
    )
    blocks: list[Block] = [heading(rounded(result.name), result.run.dataset), metrics]
    if label := result.run.config.get("by"):
        slices = label_table(result, label, headline)
        blocks.append(Table(slices.header, slices.rows))
    return Document(result.name, [Section([*blocks, *details([result], headline), remedies([result])])])
