"""The content of a sweep's runs in MLflow: files, the numbers of the comparison, and tables of questions."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ragsweep.core.plurals import part_shown
from ragsweep.core.results import DROPPED, Failure, Result, shown_metrics
from ragsweep.evaluation.question_table import beginning
from ragsweep.parts.tracking.files import encoded, without_noise
from ragsweep.report import plots, tables
from ragsweep.report.answers import answer_files
from ragsweep.report.choice import choice_statements
from ragsweep.report.conclusion_facts import result_facts, verdict_facts
from ragsweep.report.document import Block, Document, Section, Statement, Table, paragraphs
from ragsweep.report.evidence import evidence_statements
from ragsweep.report.numbers import NOT_MEASURED, chance, likelihood
from ragsweep.report.sweep_document import TUNED, limit_statements
from ragsweep.report.tables import csv_table
from ragsweep.report.verdict import change, verdict_word
from ragsweep.report.writers.markdown import as_markdown
from ragsweep.stats.answer_outcomes import abstention_curves
from ragsweep.stats.comparison import SweepComparison, plain_size
from ragsweep.stats.conclusion import SweepConclusion
from ragsweep.stats.inference.estimates import Differences, Slice
from ragsweep.stats.inference.matrix import Matrix, ratio_of


def artifacts(
    sweep: Mapping[str, Any],
    results: Sequence[Result],
    failures: Sequence[Failure],
    headline: Sequence[str],
    conclusion: SweepConclusion | None = None,
) -> dict[str, bytes]:
    """Return the files of a sweep by name: results as JSON and CSV, charts, the verdict, answers.

    ``sweep`` has the values of ``results.json`` that describe the whole sweep; ``headline`` has the metrics of the
    charts. ``conclusion`` is None for a single config; a conclusion whose ``comparison`` is None is ignored.
    """
    found = conclusion if conclusion and conclusion.comparison else None
    judged = {"verdict": verdict_facts(found)} if found else {}
    result = result_facts(found) if found else None
    files = {
        "results.json": tables.results_json(results, failures, {**sweep, **judged}, result),
        "results.csv": tables.results_csv(results, failures),
    }
    results = [one for one in results if one.run.state != DROPPED]  # dropped configs are scored on fewer questions
    shown = [name for name in headline if any(name in result.summaries.metrics for result in results)]
    if shown:
        files |= plots.metric_by_config(results, shown).files("plots/metric_by_config")
        if any("category" in result.summaries.groups for result in results):
            first = plots.deciding(results, shown)
            files |= plots.metric_by_label(results, first, "category").files("plots/metric_by_category")
    if curves := abstention_curves(results):
        files |= plots.abstention(curves).files("plots/abstention")
    return {**files, **(verdict_files(found) if found else {}), **answer_files(results)}


DIFFERENCES = ("metric", "config", "mean", "difference", "low", "high", "standard_error", "effect", "wilcoxon_p",
               "wilcoxon_p_holm", "randomisation_p", "randomisation_p_holm", "questions", "questions_apart",
               "note")  # fmt: skip
SET = ("verdict", "probability_better", "may_be_best")
SLICES = ("label", "value", "questions", "small", "config", "difference", "low", "high", "randomisation_p",
          "randomisation_p_holm", "note")  # fmt: skip
RATIOS = ("ratio", "ratio_low", "ratio_high")
MOST_ROWS = 50


def verdict_files(conclusion: SweepConclusion) -> dict[str, bytes]:
    """Return the files on the verdict by name; {} if the conclusion has no comparison."""
    verdict = conclusion.compared
    if verdict is None:
        return {}
    files = {
        "verdict/verdict.md": as_markdown(verdict_document(verdict, conclusion), 1).encode("utf-8", "replace"),
        "verdict/differences.csv": differences_csv(verdict),
        **plots.differences(verdict, conclusion.chosen).files("plots/differences"),
    }
    if verdict.slices:
        rows = [
            [
                *(part.label, part.value, part.questions, part.small, verdict.matrix.configs[row]),
                *([""] * 3 if verdict.differences.ratios else part.interval(n)),
                *(float(part.p[n]), float(part.p_holm[n]), part.doubt(n)),
                *_ratios(part, n, verdict.differences.ratios),
            ]
            for part in verdict.slices
            for n, row in enumerate(verdict.sliced)
        ]
        files["verdict/slices.csv"] = csv_table([*SLICES, *RATIOS], rows)
    return files


def numbers(verdict: SweepComparison) -> dict[str, float]:
    """Return the numbers of a comparison as metrics of the MLflow parent run; NaN and infinity are omitted.

    The names contain no slash: MLflow shows metrics in a separate section for each text before a slash.
    """
    values = {
        "verdict_configs": len(verdict.matrix.configs),
        "verdict_best_set": int(verdict.may_be_best.sum()),
        "verdict_optimism": verdict.selection_bias.optimism,
        "verdict_expected": verdict.selection_bias.crossfitted,
        "verdict_detectable": plain_size(verdict, verdict.power.typical),
        "verdict_coverage": verdict.matrix.coverage,
    }
    return {name: float(value) for name, value in values.items() if math.isfinite(value)}


def differences_csv(verdict: SweepComparison) -> bytes:
    """Return a CSV file with one line per metric and config: the difference from the reference, and its tests.

    Only the lines of the deciding metric have a verdict.
    """
    rows = [
        [
            *row,
            "" if n == verdict.reference else verdict_word(verdict, n),
            verdict.verdicts[n].probability,
            bool(verdict.may_be_best[n]),
            *_ratios(verdict.differences, n, verdict.differences.ratios),
        ]
        for n, row in enumerate(_rows(verdict.matrix, verdict.differences, verdict.means))
    ]
    for metric, (matrix, found) in verdict.others.items():
        corrected = verdict.corrections.get(metric)
        means = matrix.values.mean(axis=1) if corrected is None else corrected.means
        for n, row in enumerate(_rows(matrix, found, means)):
            rows.append([*row, "", "", "", *_ratios(found, n, found.ratios)])
    return csv_table([*DIFFERENCES, *SET, *RATIOS], rows)


def _rows(matrix: Matrix, found: Differences, means: np.ndarray) -> Iterator[list[Any]]:
    unknown = np.full(len(matrix.values), math.nan)
    estimate, ends = found.estimate, [found.low, found.high, found.standard_error]
    if found.ratios:
        estimate, ends = means - means[found.baseline], [unknown] * 3
    tests = (found.effect, found.wilcoxon, found.wilcoxon_holm, found.randomisation, found.randomisation_holm)
    columns = (means, estimate, *ends, *tests)
    for n, config in enumerate(matrix.configs):
        values = [float(column[n]) for column in columns]
        yield [matrix.metric, config, *values, len(matrix.questions), int(found.apart[n]), found.notes[n]]


def _ratios(found: Differences | Slice, n: int, ratios: bool) -> list[Any]:
    return [ratio_of(one) for one in found.interval(n)] if ratios else [""] * 3


def verdict_document(verdict: SweepComparison, conclusion: SweepConclusion) -> Document:
    """Build the document of a comparison: the conclusions, and a table of the `MOST_ROWS` best configs."""
    rows = []
    for row in np.argsort(-verdict.ranked, kind="stable").tolist()[:MOST_ROWS]:
        compared = ["", "reference", NOT_MEASURED, ""]
        if row != verdict.reference:
            better = likelihood(verdict.verdicts[row].probability)
            p = chance(float(verdict.differences.randomisation_holm[row])).removeprefix("p ")
            compared = [change(verdict, row), verdict_word(verdict, row), better, p]
        may_be_best = "yes" if verdict.may_be_best[row] else "no"
        rows.append([verdict.matrix.configs[row], f"{verdict.means[row]:.4g}", *compared, may_be_best])
    ratios, reference = verdict.differences.ratios, verdict.matrix.configs[verdict.reference]
    legend = (
        f"{'Ratios to' if ratios else 'Differences from'} {reference}, with simultaneous 95 % intervals. P(better):"
        f" posterior probability that the mean is better than that of {reference}. p: paired randomisation test,"
        " corrected by Holm. May be best: no config is shown to be better."
        f"{part_shown(len(rows), len(verdict.results), which='The best')}{f' {TUNED}.' if conclusion.finals else ''}"
    )
    blocks: list[Block] = [
        paragraphs("CHOICE", choice_statements(conclusion)),
        paragraphs("EVIDENCE", evidence_statements(conclusion)),
        paragraphs("LIMITS", limit_statements(conclusion)),
        paragraphs("", Statement("", legend)),
        Table(("config", "mean", "difference", "verdict", "P(better)", "p", "may be best"), rows),
    ]
    return Document(f"Verdict on {verdict.metric}", [Section(blocks)])


FIRST_COLUMNS = ("question_id", "question", "reference", "answer", "context")
"""The columns before the scores; MLflow's page shows about six columns at once."""
LAST_COLUMNS = ("category", "first_evidence_rank", "unscored")
LONGEST_PASSAGE, MOST_CONTEXT = 500, 1_000_000
"""Maximum number of characters of one chunk's text, and of all texts in a config's table."""


def question_rows(result: Result, chunk: Callable[[str], str] | None) -> bytes:
    """Return the table of a config's questions as JSON, one row per question; NaN and infinity become null.

    ``chunk`` maps the name of a chunk to its text. The table contains the first 500 characters of each text, or fewer
    if the contexts have more than 2,000 chunks in all. If ``chunk`` is None, the table contains only the names.
    """
    words = [result.questions.words_of(n) for n in range(result.questions.rows)]
    reasons = [[f"{name}: {text}" for name, text in one.items()] for one in words]
    outcomes = {**result.questions, "reasons": reasons}
    if result.questions.unscored:
        outcomes["unscored"] = list(map(json.dumps, result.questions.unscored))
    if chunk and "context" in outcomes:
        most = min(LONGEST_PASSAGE, MOST_CONTEXT // max(sum(map(len, outcomes["context"])), 1))
        outcomes["context"] = [
            "\n\n".join(f"{name}: {beginning(chunk(name), most)}" for name in names) for names in outcomes["context"]
        ]
    judged = [name for one in words for name in one]
    scores, last = dict.fromkeys((*shown_metrics(result.run.config), *judged)), ["reasons"] if judged else []
    shown = [name for name in (*FIRST_COLUMNS, *scores, *last, *LAST_COLUMNS) if name in outcomes]
    columns = [[_cell(value) for value in outcomes[name]] for name in shown]
    table = {"columns": shown, "data": [list(row) for row in zip(*columns, strict=True)]}
    return encoded(json.dumps(table, ensure_ascii=False, allow_nan=False, default=str))


def _cell(value: Any) -> Any:
    """Convert a cell to a JSON type: a list becomes a string of one item per line; NaN and infinity become None."""
    if isinstance(value, list | tuple):
        return "\n".join(map(str, value))
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, float):
        return value
    return without_noise(value) if math.isfinite(value) else None
