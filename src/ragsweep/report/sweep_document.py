"""The documents of a sweep and of a single config, with the blocks that they share."""

import re
from collections.abc import Collection, Iterator, Sequence

from ragsweep.core.errors import ConfigError
from ragsweep.core.plurals import counted, part_shown
from ragsweep.core.results import PARTIAL, DatasetFacts, Failure, Result, Summaries, objectives, shown_metrics
from ragsweep.core.trust import find_class
from ragsweep.parts.targets import NOT_JUDGED, PASS, count_ideals, count_met
from ragsweep.report.answers import answer_lines, distractor_statements
from ragsweep.report.choice import choice_statements
from ragsweep.report.document import Block, Document, Section, Statement, Statements, Table, lines, notes, paragraphs
from ragsweep.report.evidence import evidence_statements
from ragsweep.report.evidence_losses import degraded_statements
from ragsweep.report.holdout import holdout_use
from ragsweep.report.naming import first_names, rounded
from ragsweep.report.numbers import cell
from ragsweep.report.sweep_report import SweepReport
from ragsweep.report.sweep_table import SweepTable, label_table, slice_table, sweep_table, swept
from ragsweep.report.tables import applicable, evidence_note, headline, partial_note, reranking_note, target_numbers
from ragsweep.report.verdict import limits
from ragsweep.stats.comparison import SweepComparison
from ragsweep.stats.conclusion import SweepConclusion
from ragsweep.stats.latencies import busy_sentence

INTERVALS = "in brackets: 95 % intervals"
"""The legend for the numbers in the table."""
TOGETHER = "; those of differences (paired by question) hold for all configs together"
"""The addition to the legend of a table with intervals of differences."""
TUNED = "The table shows results on the questions of the search; the conclusion is based on other questions"
"""The addition to the legend of a search's table if its finalists were evaluated on the holdout."""


def conclusion_statements(report: SweepReport) -> Statements:
    """Return paragraphs on the choice, the evidence, the limits of the comparison, and remedies."""
    found = report.conclusion
    parts = (
        paragraphs("CHOICE", choice_statements(found)),
        paragraphs("EVIDENCE", evidence_statements(found)),
        paragraphs("LIMITS", limit_statements(found)),
        remedies(report.results, report.finalists),
    )
    return Statements([one for part in parts for one in part.items], "paragraphs")


def limit_statements(conclusion: SweepConclusion) -> Iterator[Statement]:
    """Yield sentences on missing configs, limits of the comparison, findings of audits, and the use of the holdout."""
    if conclusion.missing and conclusion.comparison:
        have, them = ("has", "it") if conclusion.missing == 1 else ("have", "them")
        what = f"{counted(conclusion.missing, 'config')} of the sweep {have} no result yet"
        text = f"{what}; repeat the sweep's command to run {them}."
        yield Statement("", text, {"missing": conclusion.missing})
    own, deciding = conclusion.compared, conclusion.deciding
    if found := deciding if isinstance(deciding, SweepComparison) else own:
        yield from limits(found, None if found is own else own)
    yield from degraded_statements(conclusion.audits.slices)
    yield from distractor_statements(conclusion.audits.distractors)
    yield from holdout_use(conclusion.holdout_views, conclusion.holdout_configs)


def sweep_document(report: SweepReport, width: int, by: str | None = None) -> Document:
    """Build the document printed at the end of a sweep: the table, notes, conclusions and next steps.

    ``width`` is the width of the tables, in characters. If ``by`` is a label, a second table has the deciding metric
    for each value of the label.
    """
    blocks, shown = list[Block](), report.shown
    if shown:
        same = shown[0].name if len(shown) == 1 else "the same config"
        name = f"{given}: " if (given := shown[0].run.config.get("name")) else ""
        datasets = [one.run.dataset for one in shown]
        blocks = [heading(f"{name}{swept(report.results) or same}", *datasets), *_tables(report, width, by)]
        blocks += details(shown, headline(shown))
    blocks += [failure_lines(report.failures), notes(report.notes), conclusion_statements(report)]
    return Document(report.title, [Section([*blocks, Statements(report.commands, "commands")])])


def _tables(report: SweepReport, width: int, by: str | None) -> Iterator[Block]:
    rows, found = [*report.shown, *report.baselines], report.conclusion
    table = sweep_table(rows, headline(report.shown), found.comparison, found.chosen, width)
    together = TOGETHER if has_difference_intervals(table, found.compared) else ""
    legend = [INTERVALS + together] if table.has_intervals else []
    legend += [TUNED] if found.finals else []
    yield Table(table.header, table.rows, ". ".join(legend), fitted=True)
    yield lines(Statement("", text) for text in table.omissions(report.reference))
    names = [*objectives(rows[0].run.config), *headline(report.shown)]  # objective may be null
    if by and names:
        metric = found.compared.metric if found.compared else names[0]
        yield notes(Statement("", f"{metric} by {by}:"))
        yield slice_table(table.shown, by, metric, width)


def has_difference_intervals(table: SweepTable, compared: SweepComparison | None) -> bool:
    """Return whether a sweep's table has intervals of differences; with few independent questions, it has none."""
    return compared is not None and any("[" in row[-2] for row in table.rows)


def description_document(report: SweepReport) -> Document:
    """Build the document for MLflow and for pull-request comments: conclusions first, then the table of configs."""
    shown, found, blocks = report.shown, report.conclusion, list[Block]([conclusion_statements(report)])
    if shown:
        table = sweep_table([*shown, *report.baselines], headline(shown), found.comparison, found.chosen, width=10_000)
        note = part_shown(len(table.rows), len(table.rows) + table.hidden) + (f" {TUNED}." if found.finals else "")
        blocks.append(Table(table.header, table.rows, note.strip()))
    return Document(report.title, [Section(blocks)])


def heading(what: str, *datasets: DatasetFacts) -> Statements:
    """Return the heading of a document: the phrase ``what``, the questions, and the notes that all datasets have."""
    first, names = datasets[0], dict.fromkeys(one.name for one in datasets)
    data = {"questions": first.questions, "with_evidence": first.with_evidence}
    questions = Statement("", f"{', '.join(names)}: {evidence_note(*datasets)}", data)
    shared = [note for note in first.notes if all(note in one.notes for one in datasets)]
    return Statements([Statement("", what), questions, *(Statement("", note) for note in shared)], "heading")


def details(results: Sequence[Result], headline: Sequence[str]) -> list[Statements]:
    """Return a block on the reranking of a single config (empty for several), and a block on answers and targets."""
    reranking = []
    if len(results) == 1 and (facts := results[0].summaries.reranking):
        reranking = [Statement("rerank", reranking_note(results[0], headline), facts)]
    return [lines(reranking), notes(answer_lines(results), target_lines(results))]


def failure_lines(failures: Sequence[Failure]) -> Statements:
    """Return one line per failed config, with its error."""
    return lines(Statement("failed", f"{rounded(failure.name)} · {failure.error}") for failure in failures)


def remedies(results: Sequence[Result], finalists: Sequence[Result] = ()) -> Statements:
    """Return paragraphs on problems of the results or the data, each with its remedy; no paragraph without problems.

    ``finalists`` are the results of a search on the holdout; only PARTIAL ones are named.
    """
    partial = [one for one in (*results, *finalists) if one.run.state == PARTIAL]
    texts = [f"{rounded(one.name)} is PARTIAL: {partial_note(one)}." for one in partial]
    warnings: dict[str, list[Result]] = {}
    for one in results:
        for warning in dict.fromkeys(one.run.warnings):
            warnings.setdefault(warning, []).append(one)
    texts += [_sentence(_without_tried(warning, results), having, len(results)) for warning, having in warnings.items()]
    shown = [name for one in results for name in shown_metrics(one.run.config) if name.startswith("latency_")]
    if shown and (busy := busy_sentence(results, shown[0])):
        texts.append(f"{busy}; rerun=true measures it again.")
    return paragraphs("FIX", (Statement("", text) for text in texts))


def _without_tried(warning: str, results: Sequence[Result]) -> str:
    """Return a warning without its advice to try a value if one of the results has this value."""
    tried = re.fullmatch(r"(.*; )try (\S+)=(\S+) instead of \S+", warning)
    if tried and any(one.run.parameters.get(tried[2]) == tried[3] for one in results):
        return f"{tried[1]}{tried[2]}={tried[3]} is among the compared configs"
    return warning


def _sentence(warning: str, having: Sequence[Result], of: int) -> str:
    """Return a warning as a sentence, which begins with the affected configs unless all ``of`` configs are affected."""
    if len(having) == of:
        return f"{warning[:1].upper()}{warning[1:]}."
    return f"{first_names([rounded(one.name) for one in having], MOST_NAMED)}: {warning}."


def result_document(result: Result, headline: Sequence[str]) -> Document:
    """Build the document of a single config: the headline metrics that are `applicable`, details and remedies.

    If the config sets ``by`` to a label, these metrics are also given by slice.
    """
    names = applicable(headline, [result])
    metrics = Table([f">{name}" for name in names], [[cell(result.summaries.metrics.get(name)) for name in names]])
    blocks: list[Block] = [heading(rounded(result.name), result.run.dataset), metrics]
    if label := result.run.config.get("by"):
        blocks.append(label_table(result, label, names))
    return Document(result.name, [Section([*blocks, *details([result], headline), remedies([result])])])


CONVENTIONS = "thresholds are conventions: set your own (targets.METRIC.threshold=...), or targets=none"
MOST_LINES = 4
MOST_NAMED = 3


def target_lines(results: Sequence[Result]) -> Iterator[Statement]:
    """Yield statements on the number of targets that configs meet, and on missed targets; nothing without targets.

    For a single config, each missed or uncertain target has its own statement, with numbers and advice.
    """
    results = [result for result in results if count_met(result.summaries.targets)[1]]
    if not results:
        return
    if len(results) == 1:
        yield Statement("targets", f"{_met(results[0].summaries)} · {CONVENTIONS}", _counts(results[0].summaries))
        for target in results[0].summaries.targets:
            if target.verdict not in (PASS, NOT_JUDGED) or not target.sure:
                unsure = "" if target.sure else ", but its interval lies on both sides of the target"
                action = f": {target.action}" if target.action else ""
                value, threshold, ideal = target_numbers(results[0], target)
                numbers = f"{value}, target {threshold}{f', ideal {ideal}' if ideal else ''}"
                text = f"{target.verdict:<4} {target.metric} {numbers} ({target.band}{unsure}){action}"
                yield Statement("", text, vars(target))
        return
    same: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        missed = [target.metric for target in result.summaries.targets if target.verdict not in (PASS, NOT_JUDGED)]
        same.setdefault((_met(result.summaries), *missed), []).append(result)
    ordered = sorted(same.items(), key=lambda item: -count_met(item[1][0].summaries.targets)[0])
    yield Statement("targets", CONVENTIONS)
    for (met, *missed), group in ordered[:MOST_LINES]:
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        configs = f"all {len(group)} configs" if len(group) == len(results) else f"{rounded(group[0].name)}{more}"
        text = f"{configs}: {met}" + (f"; missed: {first_names(missed, MOST_NAMED)}" if missed else "")
        yield Statement("", text, {"configs": len(group), "missed": missed, **_counts(group[0].summaries)})
    if hidden := sum(len(group) for _, group in ordered[MOST_LINES:]):
        text = f"and {counted(hidden, 'more config')} with at most as many targets met; see results.json"
        yield Statement("", text, {"hidden": hidden})


def _counts(summaries: Summaries) -> dict[str, int]:
    names = ("met", "targets", "ideals_reached", "ideals")
    return dict(zip(names, (*count_met(summaries.targets), *count_ideals(summaries.targets)), strict=True))


def _met(summaries: Summaries) -> str:
    form = "{met} of {targets} met" + (", {ideals_reached} of {ideals} ideals" if _counts(summaries)["ideals"] else "")
    return form.format(**_counts(summaries))


def define(results: Sequence[Result], names: Collection[str]) -> dict[str, str]:
    """Map each metric in ``names`` to the first paragraph of its class's docstring.

    A metric is omitted if no config has it, or if its class cannot be imported or has no docstring.
    """
    nodes = {key: node for one in reversed(results) for key, node in one.run.config.get("metrics", {}).items()}
    found: dict[str, str] = {}
    for key, node in nodes.items():
        try:
            made = find_class(node["_target_"], f"metrics.{key}")
        except ConfigError:
            continue
        sentence = (made.__doc__ or "").partition("\n\n")[0]
        found[vars(made).get("name", key)] = " ".join(sentence.replace("``", "").split())
    return {name: found[name] for name in names if found.get(name)}
