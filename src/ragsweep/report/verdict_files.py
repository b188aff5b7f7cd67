"""Files of a verdict: tables, a page in markdown, a chart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ragsweep.core.escaping import markdown_text
from ragsweep.report import plots
from ragsweep.report.conclusion import Decision, percent
from ragsweep.report.evidence import verdict_word
from ragsweep.report.numbers import NOT_MEASURED, chance
from ragsweep.report.tables import csv_table, markdown
from ragsweep.report.verdict import change, limits, plain_size
from ragsweep.stats.comparison import NoComparison, SweepComparison
from ragsweep.stats.inference.differences import Differences
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.slices import Slice

DIFFERENCES = ("metric", "config", "mean", "difference", "low", "high", "standard_error", "effect", "wilcoxon_p",
               "wilcoxon_p_holm", "randomisation_p", "randomisation_p_holm", "questions", "questions_apart",
               "note")  # fmt: skip
SET = ("verdict", "probability_better", "may_be_best")
SLICES = ("label", "value", "questions", "small", "config", "difference", "low", "high", "randomisation_p",
          "randomisation_p_holm", "note")  # fmt: skip
RATIOS = ("ratio", "ratio_low", "ratio_high")
MOST_ROWS = 50


def verdict_files(verdict: SweepComparison, decision: Decision) -> dict[str, bytes]:
    """Make the files by name."""
    files = {
        "verdict/verdict.md": page(verdict, decision).encode("utf-8", "replace"),
        "verdict/differences.csv": differences_csv(verdict),
        **plots.differences(verdict, decision.chosen).files("plots/differences"),
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


def plain(verdict: SweepComparison | NoComparison, decision: Decision) -> dict[str, Any]:
    """Return the verdict in JSON types, without the numbers of single configs."""
    lines = [*decision.choice(), *decision.evidence()]
    if isinstance(verdict, NoComparison):
        return {"lines": lines, "metric": None}
    configs = verdict.matrix.configs
    texts: dict[str, Any] = {"lines": [*lines, *limits(verdict)]}
    return texts | {
        "metric": verdict.metric,
        "reference": configs[verdict.reference],
        "best": configs[verdict.selection_bias.winner],
        "best_set": _picked(configs, verdict.may_be_best),
        "configs": {
            config: {"verdict": verdict_word(verdict, row), "probability_better": verdict.verdicts[row].probability}
            for row, config in enumerate(configs)
            if row != verdict.reference
        },
        "optimism": verdict.selection_bias.optimism,
        "expected": verdict.selection_bias.crossfitted,
        **({"optimism_is_lower_bound": True} if verdict.adaptive else {}),
        "detectable": plain_size(verdict, verdict.power.typical),
        "detectable_alone": plain_size(verdict, verdict.power.alone),
        "ratios": verdict.differences.ratios,
        "questions": len(verdict.matrix.questions),
        "asked": verdict.matrix.asked,
        "clusters": len(np.unique(verdict.matrix.clusters)),
        **(
            {"labels": {name: _correction(verdict, name) for name in verdict.corrections}}
            if verdict.corrections
            else {}
        ),
        **(
            {"variance": {configs[row]: one.facts for row, one in verdict.variance.items()}} if verdict.variance else {}
        ),
        "left_out": [one._asdict() for one in verdict.left_out],
        "not_compared": dict(verdict.skipped),
    }


def _correction(verdict: SweepComparison, metric: str) -> dict[str, Any]:
    """Return the correction of a metric by people's labels in JSON types: judged numbers, and corrected ones."""
    found = verdict.corrections[metric]
    matrix, corrected = verdict.others.get(metric, (verdict.matrix, verdict.differences))
    ends = (("judged", found.judged, matrix.values.mean(axis=1)), ("corrected", corrected, found.means))
    configs: dict[str, Any] = {config: {} for config in matrix.configs}
    for kind, one, means in ends:
        for row, config in enumerate(matrix.configs):
            difference, low, high = _interval(one, row)
            configs[config][kind] = {"mean": float(means[row]), "difference": difference, "low": low, "high": high}
    return {"labels": found.labels, "note": found.note, "configs": configs}


def numbers(verdict: SweepComparison) -> dict[str, float]:
    """Return the numbers for comparing sweeps in a list of runs, by name.

    The names have no slash: MLflow charts metrics with a prefix before all others.
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
    """Write one line a metric and config: the difference from the reference, and the verdict."""
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


def page(verdict: SweepComparison, decision: Decision) -> str:
    """Return the verdict as markdown with a table of the best configs."""
    order = np.argsort(-verdict.ranked, kind="stable").tolist()[:MOST_ROWS]
    p_values = verdict.differences.randomisation_holm
    rows = [
        {
            "config": verdict.matrix.configs[row],
            "mean": f"{verdict.means[row]:.4g}",
            "difference": "" if row == verdict.reference else change(verdict, row),
            "verdict": "reference" if row == verdict.reference else verdict_word(verdict, row),
            "P(better)": _probability(verdict, row),
            "p": "" if row == verdict.reference else chance(float(p_values[row])).removeprefix("p "),
            "may be best": "yes" if verdict.may_be_best[row] else "no",
        }
        for row in order
    ]
    parts = (("Choice", decision.choice()), ("Evidence", decision.evidence()), ("Limits", limits(verdict)))
    blocks = "".join(f"**{word}.** {markdown_text(' '.join(sentences))}\n\n" for word, sentences in parts)
    reference = markdown_text(verdict.matrix.configs[verdict.reference])
    return (
        f"# Verdict on {markdown_text(verdict.metric)}\n\n{blocks}"
        f"{'Ratios' if verdict.differences.ratios else 'Differences'} to {reference},"
        f"{'' if verdict.differences.ratios else ' better is positive;'} 95 % intervals, all together. P(better):"
        " posterior probability of a better mean than its. p: paired randomisation, after Holm. May be best: shown"
        f" worse than no other config.\n\n{markdown(rows)}"
    )


def _probability(verdict: SweepComparison, row: int) -> str:
    found = verdict.verdicts[row].probability
    return NOT_MEASURED if row == verdict.reference or math.isnan(found) else percent(found)


def _picked(names: Sequence[str], mask: np.ndarray) -> list[str]:
    return [names[row] for row in np.flatnonzero(mask).tolist()]
