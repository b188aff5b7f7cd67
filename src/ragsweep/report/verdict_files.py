"""Files of a verdict: tables, a page in markdown, a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ragsweep.report import plots
from ragsweep.report.numbers import NOT_MEASURED, chance
from ragsweep.report.recommendation import Decision
from ragsweep.report.tables import csv_table, markdown
from ragsweep.report.verdict import change, verdict_lines
from ragsweep.stats.comparison import NoComparison, SweepComparison
from ragsweep.stats.inference.differences import Differences
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.slices import Slice

DIFFERENCES = ("metric", "config", "mean", "difference", "low", "high", "standard_error", "effect", "wilcoxon_p",
               "wilcoxon_p_holm", "randomisation_p", "randomisation_p_holm", "questions", "questions_apart",
               "note")  # fmt: skip
SET = ("in_best_set", "best_set_p", "probability_of_best")
SLICES = ("label", "value", "questions", "small", "config", "difference", "low", "high", "randomisation_p",
          "randomisation_p_holm", "note")  # fmt: skip
RATIOS = ("ratio", "ratio_low", "ratio_high")
MOST_ROWS = 50


def verdict_files(verdict: SweepComparison, decision: Decision) -> dict[str, bytes]:
    """Make the files by name."""
    files = {
        "verdict/verdict.md": page(verdict, decision).encode("utf-8", "replace"),
        "verdict/differences.csv": differences_csv(verdict),
        **plots.differences(verdict, decision.recommended).files("plots/differences"),
    }
    if verdict.slices:
        rows = [
            [part.label, part.value, part.questions, part.small, verdict.matrix.configs[row],
             *([""] * 3 if verdict.differences.ratios else _interval(part, n)), float(part.p[n]), float(part.p_holm[n]),
             part.doubt(n), *_ratios(part, n, verdict.differences.ratios)]
            for part in verdict.slices
            for n, row in enumerate(verdict.sliced)
        ]  # fmt: skip
        files["verdict/slices.csv"] = csv_table([*SLICES, *RATIOS], rows)
    return files


def plain(verdict: SweepComparison | NoComparison, decision: Decision) -> dict[str, Any]:
    """Return the verdict in JSON types, without the numbers of single configs."""
    lines = list(dict.fromkeys([*decision.sentences(), *verdict_lines(verdict)]))
    texts: dict[str, Any] = {"sentence": decision.summary(verdict), "lines": lines}
    if isinstance(verdict, NoComparison):
        return texts | {"metric": None}
    configs = verdict.matrix.configs
    return texts | {
        "metric": verdict.metric,
        "baseline": configs[0],
        "best": configs[verdict.selection_bias.winner],
        "best_set": _picked(configs, verdict.may_be_best),
        "better": _picked(configs, verdict.differences.better),
        "worse": _picked(configs, verdict.worse),
        "optimism": verdict.selection_bias.optimism,
        "expected": verdict.selection_bias.crossfitted,
        **({"optimism_is_lower_bound": True} if verdict.adaptive else {}),
        "detectable": _share(verdict, verdict.power.typical),
        "detectable_alone": _share(verdict, verdict.power.alone),
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
    """Return in JSON types what people's labels changed of a metric: judged numbers, and corrected ones."""
    found = verdict.corrections[metric]
    matrix, corrected = verdict.others.get(metric, (verdict.matrix, verdict.differences))
    ends = (("judged", found.judged, matrix.values.mean(axis=1)), ("corrected", corrected, found.means))
    configs = {
        config: {kind: {"mean": float(means[row]), "difference": float(one.estimate[row]), "low": float(one.low[row]),
                        "high": float(one.high[row])} for kind, one, means in ends}
        for row, config in enumerate(matrix.configs)
    }  # fmt: skip
    return {"labels": found.labels, "note": found.note, "configs": configs}


def numbers(verdict: SweepComparison) -> dict[str, float]:
    """Name the numbers that are worth a column where sweeps stand below each other."""
    values = {
        "verdict/configs": len(verdict.matrix.configs),
        "verdict/best_set": int(verdict.may_be_best.sum()),
        "verdict/better": int(verdict.differences.better.sum()),
        "verdict/optimism": verdict.selection_bias.optimism,
        "verdict/expected": verdict.selection_bias.crossfitted,
        "verdict/detectable": _share(verdict, verdict.power.typical),
        "verdict/coverage": verdict.matrix.coverage,
    }
    return {name: float(value) for name, value in values.items() if math.isfinite(value)}


def _share(verdict: SweepComparison, value: float) -> float:
    """Return the size of a difference; of ratios as a share of the amount."""
    return math.expm1(value) if verdict.differences.ratios else value


def differences_csv(verdict: SweepComparison) -> bytes:
    """Write one line a metric and config: the difference to the baseline, and whether it may be the best."""
    rows = [
        [
            *row,
            bool(verdict.may_be_best[n]),
            float(verdict.confidence_set.p_values[n]),
            float(verdict.probability[n]),
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
    estimate, ends = (means - means[0], [unknown] * 3) if found.ratios else (
        found.estimate, [found.low, found.high, found.standard_error],
    )  # fmt: skip
    columns = (means, estimate, *ends, found.effect, found.wilcoxon, found.wilcoxon_holm, found.randomisation,
               found.randomisation_holm)  # fmt: skip
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
            "difference": change(verdict, row) if row else "baseline",
            "p": chance(float(p_values[row])).removeprefix("p ") if row else "",
            "in the set": "yes" if verdict.may_be_best[row] else "no",
            "P(best)": f"{verdict.probability[row]:.2f}".replace("nan", NOT_MEASURED),
        }
        for row in order
    ]
    sentences = "".join(f"- {text}\n" for text in dict.fromkeys([*decision.sentences(), *verdict_lines(verdict)]))
    return (
        f"# Verdict on {verdict.metric}\n\n{sentences}\n"
        f"{'Ratios' if verdict.differences.ratios else 'Differences'} to `{verdict.matrix.configs[0]}`,"
        f"{'' if verdict.differences.ratios else ' better is positive;'} 95 % intervals, all together."
        " p: paired randomisation, after Holm. In the set: cannot be told from the best. P(best): share of"
        f" resamples.\n\n{markdown(rows)}"
    )


def _picked(names: Sequence[str], mask: np.ndarray) -> list[str]:
    return [names[row] for row in np.flatnonzero(mask).tolist()]
