"""Files of a conclusion (tables, a document in Markdown, a chart), and its figures for MLflow."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ragsweep.report import plots
from ragsweep.report.choice import choice_statements, percent
from ragsweep.report.document import Block, Document, Section, Statement, Table, paragraphs
from ragsweep.report.evidence import evidence_statements
from ragsweep.report.numbers import NOT_MEASURED, chance
from ragsweep.report.tables import csv_table
from ragsweep.report.verdict import change, limits, verdict_word
from ragsweep.report.writers.markdown import as_markdown
from ragsweep.stats.comparison import SweepComparison, plain_size
from ragsweep.stats.conclusion import SweepConclusion
from ragsweep.stats.inference.estimates import Differences, Slice
from ragsweep.stats.inference.matrix import Matrix

DIFFERENCES = ("metric", "config", "mean", "difference", "low", "high", "standard_error", "effect", "wilcoxon_p",
               "wilcoxon_p_holm", "randomisation_p", "randomisation_p_holm", "questions", "questions_apart",
               "note")  # fmt: skip
SET = ("verdict", "probability_better", "may_be_best")
SLICES = ("label", "value", "questions", "small", "config", "difference", "low", "high", "randomisation_p",
          "randomisation_p_holm", "note")  # fmt: skip
RATIOS = ("ratio", "ratio_low", "ratio_high")
MOST_ROWS = 50


def verdict_files(conclusion: SweepConclusion) -> dict[str, bytes]:
    """Return the files of a conclusion by name; empty without a comparison."""
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
                *([""] * 3 if verdict.differences.ratios else _interval(part, n)),
                *(float(part.p[n]), float(part.p_holm[n]), part.doubt(n)),
                *_ratios(part, n, verdict.differences.ratios),
            ]
            for part in verdict.slices
            for n, row in enumerate(verdict.sliced)
        ]
        files["verdict/slices.csv"] = csv_table([*SLICES, *RATIOS], rows)
    return files


def numbers(verdict: SweepComparison) -> dict[str, float]:
    """Return the comparison's finite figures by name, for MLflow's list of runs.

    The names have no slash, because MLflow charts metrics with a slash in their names before all others.
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
    """Write one line per metric and config: the difference from the reference; for the deciding metric, a verdict."""
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
    rows += [
        [*row, "", "", "", *_ratios(found, n, found.ratios)]
        for metric, (matrix, found) in verdict.others.items()
        for n, row in enumerate(_rows(matrix, found, _means(verdict, metric)))
    ]
    return csv_table([*DIFFERENCES, *SET, *RATIOS], rows)


def _means(verdict: SweepComparison, metric: str) -> np.ndarray:
    corrected = verdict.corrections.get(metric)
    return verdict.others[metric][0].values.mean(axis=1) if corrected is None else corrected.means


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
    return [math.exp(one) for one in _interval(found, n)] if ratios else [""] * 3


def _interval(found: Differences | Slice, n: int) -> list[float]:
    return [float(one[n]) for one in (found.estimate, found.low, found.high)]


def verdict_document(verdict: SweepComparison, conclusion: SweepConclusion) -> Document:
    """Build the document of a comparison: the conclusions, and a table of the best configs."""
    order = np.argsort(-verdict.ranked, kind="stable").tolist()[:MOST_ROWS]
    p_values = verdict.differences.randomisation_holm
    rows = [
        [
            verdict.matrix.configs[row],
            f"{verdict.means[row]:.4g}",
            "" if row == verdict.reference else change(verdict, row),
            "reference" if row == verdict.reference else verdict_word(verdict, row),
            _probability(verdict, row),
            "" if row == verdict.reference else chance(float(p_values[row])).removeprefix("p "),
            "yes" if verdict.may_be_best[row] else "no",
        ]
        for row in order
    ]
    ratios, reference = verdict.differences.ratios, verdict.matrix.configs[verdict.reference]
    legend = (
        f"{'Ratios to' if ratios else 'Differences from'} {reference}{'' if ratios else ' (positive is better)'}, with"
        " simultaneous 95 % intervals. P(better): posterior probability that the mean is better than that of"
        f" {reference}. p: paired randomisation test, corrected by Holm. May be best: shown worse than no other config."
    )
    blocks: list[Block] = [
        paragraphs("CHOICE", choice_statements(conclusion)),
        paragraphs("EVIDENCE", evidence_statements(conclusion)),
        paragraphs("LIMITS", limits(verdict)),
        paragraphs("", Statement("", legend)),
        Table(("config", "mean", "difference", "verdict", "P(better)", "p", "may be best"), rows),
    ]
    return Document(f"Verdict on {verdict.metric}", [Section(blocks)])


def _probability(verdict: SweepComparison, row: int) -> str:
    found = verdict.verdicts[row].probability
    return NOT_MEASURED if row == verdict.reference or math.isnan(found) else percent(found)
