"""Where the variance of a difference comes from: the questions, the answers that are drawn, or the judge."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.results import Result
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.resampling import cluster_scores

COLUMN = "answer_repetitions"
"""The column of all scores of repeated answers, one JSON object a question."""


@dataclass(frozen=True)
class VarianceShares:
    """The shares of the variance of a mean (or a mean difference), which add up to 1, and what would narrow it.

    ``questions``: by which questions are in the set. ``answers``: by which answers were drawn. ``judge``: by the
    judge's own noise; NaN where it judged once, and its noise counts as the answers'. ``twice_*`` are the widths of the
    interval with twice as many, in its present width. Of a config with one repetition the answers' noise counts as the
    questions'.
    """

    questions: float
    answers: float
    judge: float
    standard_error: float
    repetitions: tuple[int, ...]  # of the answers of each config, the baseline first
    twice_questions: float
    twice_repetitions: float
    twice_samples: float  # of the judge; NaN where it judged once

    def __str__(self) -> str:
        """Write it as a sentence."""
        counts = " and ".join(str(count) for count in dict.fromkeys(self.repetitions))
        parts = [f"{self.questions:.0%} is from questions", f"{self.answers:.0%} from answers ({counts} repetitions)"]
        ways = [f"twice the questions would narrow the interval to {_two_digits(self.twice_questions)} of its width",
                f"twice the repetitions to {_two_digits(self.twice_repetitions)}"]  # fmt: skip
        if not math.isnan(self.judge):
            parts.append(f"{self.judge:.0%} from the judge")
            ways.append(f"twice the judge's samples to {_two_digits(self.twice_samples)}")
        what = "difference" if len(self.repetitions) > 1 else "mean"
        return f"of the variance of this {what} {', '.join(parts).replace('%', ' %')}: {', '.join(ways)}"

    @property
    def facts(self) -> dict[str, Any]:
        """The numbers by name, for programs."""
        return dict(vars(self))


class _Repeated(NamedTuple):
    """One config's scored repetitions of one question."""

    scores: Mapping[int, float]  # by the number of the repetition
    judged: Mapping[int, tuple[str, float]]  # the judged case and the standard error of its judgement
    planned: int


class _Noise(NamedTuple):
    """What repetitions show of one question's mean difference: parts of its variance.

    ``spread`` is that between repetitions, of which ``visible`` is the judge's; ``judge`` is all of the judge's:
    repetitions with one text share a judgement, and differ by nothing.
    """

    spread: float
    visible: float
    judge: float


def variance_shares(results: Sequence[Result], matrix: Matrix) -> VarianceShares | None:
    """Divide the variance of a config's mean, or of the difference of two; None without repetitions or a variance.

    Method of moments for a nested design: the squared standard error (by cluster) is var(questions) + var(answers) / R
    + var(judge) / (R S), over the number of questions, with R repetitions and S samples of the judge (Searle, Casella
    and McCulloch, Variance Components, 1992, section 3.6). The second term is the variance between the repetitions of a
    question less the judge's part in it, the third the variance between samples, and the first is what is left;
    negative estimates are 0. Repetitions of both configs are paired by number, as they share seeds and, where the
    context is the same, answers.

    Args:
        results: One or two; the baseline first.
        matrix: Their scores of a metric, in rows of the same order.
    """
    tables = [_repeated(result, matrix.metric) for result in results]
    counts = tuple(_planned(table) for table in tables)
    if max(counts, default=1) < 2 or not matrix.questions:
        return None
    values = matrix.values[-1] - (matrix.values[0] if len(results) > 1 else 0.0)
    error = float(cluster_scores(values[None, :], matrix.clusters, matrix.weights).errors[0])
    weights = np.ones(len(matrix.questions)) if matrix.weights is None else matrix.weights
    each = [_noise([table[name] for table in tables if name in table]) for name in matrix.questions]
    known = np.array([one is not None for one in each])
    if not error > 0 or not known.any():
        return None
    squares, rows = np.square(weights), np.array([one for one in each if one is not None])
    means = squares[known] @ rows / squares[known].sum() * squares.sum() / len(weights) ** 2
    return _shares(_Noise(*means.tolist()), error, counts, _sampled(tables))


def _shares(noise: _Noise, error: float, counts: tuple[int, ...], sampled: bool) -> VarianceShares:
    variance = error**2
    answers, judge = max(noise.spread - noise.visible, 0.0), noise.judge
    scale = min(1.0, variance / (answers + judge)) / variance if answers + judge else 0.0
    answers, judge, repeatable = answers * scale, judge * scale, min(noise.visible, judge) * scale
    return VarianceShares(
        questions=1 - answers - judge,
        answers=answers,
        judge=judge if sampled else math.nan,
        standard_error=error,
        repetitions=counts,
        twice_questions=math.sqrt(0.5),
        twice_repetitions=math.sqrt(1 - (answers + repeatable) / 2),
        twice_samples=math.sqrt(1 - judge / 2) if sampled else math.nan,
    )


def _repeated(result: Result, metric: str) -> dict[str, _Repeated]:
    """Read a config's repetitions of a metric by question; empty where it has none."""
    table: dict[str, _Repeated] = {}
    for name, text in zip(result.outcomes["question_id"], result.outcomes.get(COLUMN) or (), strict=False):
        row = json.loads(text)
        scores = row["scores"].get(metric)
        if scores is not None:
            judged = {r: (case, error) for r, (case, error) in enumerate(row.get("judged", {}).get(metric, ()))
                      if error is not None}  # fmt: skip
            known = {r: score for r, score in enumerate(scores) if score is not None}
            table[name] = _Repeated(known, judged, len(scores))
    return table


def _planned(table: Mapping[str, _Repeated]) -> int:
    return max((one.planned for one in table.values()), default=1)


def _sampled(tables: Sequence[Mapping[str, _Repeated]]) -> bool:
    return any(one.judged for table in tables for one in table.values())


def _noise(configs: Sequence[_Repeated]) -> _Noise | None:
    """Estimate one question's noise; None where a config's repetitions are too few by failures."""
    if not configs or any(len(one.scores) < 2 for one in configs):
        return None
    paired = len(configs) == 2 and configs[0].scores.keys() == configs[1].scores.keys()
    groups = [[(1.0, configs[1]), (-1.0, configs[0])]] if paired else [[(1.0, one)] for one in configs]
    signs = (1.0,) if len(configs) == 1 else (-1.0, 1.0)
    spread = visible = 0.0
    for group in groups:
        numbers = list(group[0][1].scores)
        count = len(numbers)
        drawn = [sum(sign * one.scores[r] for sign, one in group) for r in numbers]
        spread += float(np.var(drawn, ddof=1)) / count
        for case, error in _cases(one for _, one in group).items():
            uses = np.array([sum(sign for sign, one in group if one.judged.get(r, ("",))[0] == case) for r in numbers])
            visible += error**2 * float(np.square(uses).sum() - uses.sum() ** 2 / count) / (count * (count - 1))
    shares: dict[str, float] = defaultdict(float)
    for sign, one in zip(signs, configs, strict=True):
        for r in one.scores:
            if r in one.judged:
                shares[one.judged[r][0]] += sign / len(one.scores)
    errors = _cases(configs)
    return _Noise(spread, visible, sum(errors[case] ** 2 * share**2 for case, share in shares.items()))


def _cases(configs: Any) -> dict[str, float]:
    """Return the judged cases and the standard error of each judgement."""
    return {case: error for one in configs for case, error in one.judged.values()}


def _two_digits(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")
