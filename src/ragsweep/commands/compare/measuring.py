"""Measure how two configs differ: by each metric, each slice, each question."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragsweep.commands.command_line import Named, usual_metrics
from ragsweep.core.results import Result
from ragsweep.report.changes import Row, word
from ragsweep.stats.comparable import (
    Factor,
    check_same_questions,
    check_whole,
    factors,
    labels_of,
    redefined_metrics,
    shared_metrics,
)
from ragsweep.stats.inference.differences import Differences, compare_with_baseline
from ragsweep.stats.inference.matrix import Matrix, score_matrix
from ragsweep.stats.inference.paired_tests import holm
from ragsweep.stats.inference.slices import Slice, by_slice


@dataclass(frozen=True, eq=False)
class Change:
    """What became of one metric: the candidate less the baseline, in the metric's unit and its own direction."""

    metric: str
    unit: str
    matrix: Matrix  # baseline, candidate
    differences: Differences
    slices: tuple[Slice, ...]
    p_of_all: float = math.nan  # the randomisation test's, by Holm for all metrics that are compared

    @property
    def means(self) -> tuple[float, float]:
        """The means of the questions that both were scored on."""
        baseline, candidate = self.matrix.values.mean(axis=1).tolist() if self.matrix.questions else (math.nan,) * 2
        return baseline, candidate

    @property
    def verdict(self) -> str:
        """Return the verdict in a word or two."""
        return word(self.differences, 1)

    @property
    def moved(self) -> tuple[int, int, int]:
        """Count the questions that were helped, hurt, and left alike."""
        baseline, candidate = self.matrix.better
        helped, hurt = int((candidate > baseline).sum()), int((candidate < baseline).sum())
        return helped, hurt, len(self.matrix.questions) - helped - hurt


@dataclass(frozen=True)
class Comparison:
    """Two configs compared."""

    baseline: Named
    candidate: Named
    factors: tuple[Factor, ...]
    changes: tuple[Change, ...]
    warnings: tuple[str, ...]


def measure(baseline: Named, candidate: Named, wanted: Sequence[str] | None) -> Comparison:
    """Compare two configs.

    Raises:
        RagsweepError: They were asked different questions, one is PARTIAL, or a wanted metric cannot be compared.
    """
    one, other = baseline.result, candidate.result
    check_same_questions(one, other)
    for result in (one, other):
        check_whole(result)
    metrics = shared_metrics([one, other], wanted, usual_metrics([one, other]))
    changes = [_change(one, other, metric) for metric in metrics]
    corrected = holm(np.array([change.differences.randomisation[1] for change in changes]))
    changes = [dataclasses.replace(one, p_of_all=float(p)) for one, p in zip(changes, corrected, strict=True)]
    differing = factors(one, other)
    warnings = tuple(_warnings(one, other, differing, metrics))
    return Comparison(baseline, candidate, differing, tuple(changes), warnings)


def _change(one: Result, other: Result, metric: str) -> Change:
    matrix = score_matrix([one, other], metric)
    slices = by_slice(matrix, labels_of(one, matrix.questions))
    return Change(metric, one.summaries[metric].unit, matrix, compare_with_baseline(matrix, 0), slices)


def _warnings(one: Result, other: Result, differing: Sequence[Factor], metrics: Sequence[str]) -> list[str]:
    said = []
    if len(differing) > 1:
        said.append(f"they differ in {len(differing)} factors: which of them makes a difference cannot be told")
    if not differing:
        kind = "is one and the same" if one.signature == other.signature else "differs in no parameter"
        said.append(f"the config of both {kind}: what differs is chance, or what no parameter says")
    if otherwise := redefined_metrics(one, other, metrics):
        said.append(f"not measured in the same way in both: {', '.join(otherwise)}")
    return said


def questions_moved(change: Change) -> list[Row]:
    """List the questions whose scores differ, most helped first, most hurt last."""
    baseline, candidate = change.matrix.values
    gain = change.matrix.better[1] - change.matrix.better[0]
    order = [n for n in np.argsort(-gain, kind="stable").tolist() if gain[n]]
    return [
        {
            "metric": change.metric,
            "question_id": change.matrix.questions[n],
            "baseline": float(baseline[n]),
            "candidate": float(candidate[n]),
            "difference": float(candidate[n] - baseline[n]),
        }
        for n in order
    ]
