"""Simulate labels, declined answers, dominating questions and gates on shares with known truth, and count the errors.

The tables are printed and written by ``planted_designs.py`` (parts ``marks``, ``levels``, ``declined``, ``dominated``).
"""

import json
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from planted import table
from planted_scores import normal, one_better, planted
from ragsweep.core.missing import ABSTAINED
from ragsweep.core.question_texts import from_texts
from ragsweep.core.results import DatasetFacts, Result, Run, Summaries, Summary
from ragsweep.stats.inference.differences import compare_parts, compare_with_baseline
from ragsweep.stats.inference.matrix import Matrix, relative, score_matrix
from ragsweep.stats.inference.noninferiority import reaches
from ragsweep.stats.inference.prediction_powered import prediction_powered

Doubles = NDArray[np.float64]
RESAMPLES = 999


def percent(count: float, replications: int) -> str:
    return f"{100 * count / replications:.1f}"


# --- few marks -----------------------------------------------------------------------------------------------------


class Marks(NamedTuple):
    """Labels of 0 and 1 for some of the questions; the second config is right on half of what the first got wrong."""

    labels: int
    questions: int
    right: float
    agreement: float  # of the judge with people

    def draw(self, generator: np.random.Generator) -> tuple[Doubles, Doubles, NDArray[np.bool_]]:
        chance = generator.random(self.questions)
        people = np.stack([chance < self.right, chance < (1 + self.right) / 2]).astype(float)
        judged = np.where(generator.random(people.shape) < self.agreement, people, 1 - people)
        return people, judged, generator.permutation(self.questions) < self.labels


LAYOUTS = [Marks(*size, right, agreement) for size, right, agreement in
           product(((10, 100), (15, 300), (25, 300), (40, 300)), (0.6, 0.85, 0.95), (0.7, 0.95))]  # fmt: skip


def one_layout(layout: Marks, replications: int) -> list[str]:
    held, width = np.zeros((2, 2)), np.zeros((2, 2))
    truths = (layout.right, (1 - layout.right) / 2)
    for replication in range(replications):
        people, judged, chosen = layout.draw(np.random.default_rng([replication, layout.labels, 12]))
        known = np.where(chosen, people, np.nan)
        for n, signs in enumerate(((1.0,), (-1.0, 1.0))):
            one = planted(judged[: n + 1], np.zeros(n + 1)).matrix
            found = prediction_powered(one, known[: n + 1], signs)
            alone = _student(np.asarray(signs) @ people[: n + 1, chosen])
            for rule, (low, high) in enumerate(((found.low, found.high), alone)):
                held[n, rule] += low <= truths[n] <= high
                width[n, rule] += min(high, 1.0) - max(low, (0.0, -1.0)[n])
    cells = [percent(held[n, rule], replications) for n in range(2) for rule in range(2)]
    return [f"{layout.labels} of {layout.questions}", f"{layout.right:.0%}", f"{layout.agreement:.0%}", *cells,
            *(f"{width[n, 0] / replications:.2f}" for n in range(2))]  # fmt: skip


def _student(values: Doubles) -> tuple[float, float]:
    half = float(stats.t.ppf(0.975, len(values) - 1)) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def marks(replications: int, pool: Executor) -> list[str]:
    return table(
        "**Few labels of right and wrong**: how often the interval of a config's share of right answers, and that of"
        " the difference to a config that is right on half of what the first got wrong, hold (at least 93; more where"
        " hardly any mark differs), beside Student's t of the labels alone; mean width of ours",
        ["labels", "right", "judge agrees", "mean: ours", "mean: t", "difference: ours", "difference: t",
         "width: mean", "width: difference"],
        list(pool.map(partial(one_layout, replications=replications), LAYOUTS)))  # fmt: skip


# --- a level of a share --------------------------------------------------------------------------------------------

LEVELS = tuple(product((20, 60, 100, 300), (0.6, 0.8, 0.95)))


def one_level(case: tuple[int, float], replications: int) -> list[str]:
    questions, right = case
    found = dict.fromkeys(("pass", "fail", "t pass", "t fail"), 0)
    for replication in range(replications):
        hits = (np.random.default_rng([replication, questions, 13]).random(questions) < right).astype(float)
        decision = reaches(planted(hits[None, :], np.zeros(1)).matrix, right).decision
        found[decision] = found.get(decision, 0) + 1
        half = float(stats.t.ppf(0.95, questions - 1)) * hits.std(ddof=1) / np.sqrt(questions)
        found["t pass"] += hits.mean() - half >= right
        found["t fail"] += hits.mean() + half < right
    return [str(questions), f"{right:.0%}", *(percent(found[kind], replications)
                                              for kind in ("pass", "t pass", "fail", "t fail"))]  # fmt: skip


def levels(replications: int, pool: Executor) -> list[str]:
    return table(
        "**`--at-least` of a share of right answers that equals the bound**: how often it passes, and fails (at most"
        " 5 each); beside it Student's t",
        ["questions", "right", "passes", "passes by t", "fails", "fails by t"],
        list(pool.map(partial(one_level, replications=replications), LEVELS)))  # fmt: skip


# --- declined answers ----------------------------------------------------------------------------------------------


def declined(replications: int, pool: Executor) -> list[str]:
    rows = pool.map(partial(one_refusal, replications=replications), ((100, 0.1), (300, 0.1), (300, 0.3)))
    return table(
        "**Equal configs, one of which declines the questions that it would answer worst**: how often it is called"
        " better (at most 2.5), and where these questions are left out",
        ["questions", "declined", "ours", "left out"], list(rows))  # fmt: skip


def one_refusal(case: tuple[int, float], replications: int) -> list[str]:
    questions, share = case
    ours = left_out = 0
    for replication in range(replications):
        drawn = np.random.default_rng([replication, questions, 14]).uniform(0, 1, (2, questions))
        refused = np.argsort(drawn[1])[: int(share * questions)]
        matrix = score_matrix([_answered("a", drawn[0], ()), _answered("b", drawn[1], refused.tolist())], "m")
        others = matrix.select_questions(~np.isin(np.arange(questions), refused))
        ours += bool(compare_with_baseline(matrix, 0, resamples=RESAMPLES).better[1])
        left_out += bool(compare_with_baseline(others, 0, resamples=RESAMPLES).better[1])
    return [str(questions), f"{share:.0%}", percent(ours, replications), percent(left_out, replications)]


def _answered(name: str, scores: Doubles, refused: Sequence[int]) -> Result:
    column, ids = scores.copy(), [f"q{n}" for n in range(len(scores))]
    column[list(refused)] = np.nan
    unscored = [json.dumps({"m": ABSTAINED}) if np.isnan(one) else "{}" for one in column]
    value, count = float(np.nanmean(column)), len(ids)
    known = Summary("m", value, value, value, count, count - len(refused), len(refused), 0, "", True)
    outcomes = {"question_id": ids, "m": column.tolist(), "unscored": unscored}
    run = Run(name, name, (), {}, {}, DatasetFacts("planted", "", "", 0, count, count, 0), stages={})
    return Result(run, from_texts(outcomes), Summaries({"m": known}, groups={}))


# --- a document or a question that dominates -----------------------------------------------------------------------


def by_traffic(gain: float, generator: np.random.Generator) -> Matrix:
    """Draw 300 questions, of which one has a fifth of the traffic."""
    weights = relative(np.append(0.25 * 299, np.ones(299)))
    one = normal(one_better(2, gain), 300, generator).matrix
    return replace(one, values=one.values * weights, weights=weights)


def by_document(gain: float, generator: np.random.Generator) -> Matrix:
    """Draw 120 questions: 40 on one document, and the others on one document each."""
    one = normal(one_better(2, gain), 120, generator).matrix
    return replace(one, clusters=np.append(np.zeros(40, dtype=np.int64), np.arange(1, 81)))


DOMINATED = {"one question has a fifth of the traffic, n=300": by_traffic, "40 of 120 questions on one": by_document}


def one_share(case: tuple[str, float], replications: int) -> list[str]:
    name, gain = case
    found = dict.fromkeys(("rest", "own", "whole"), 0)
    for replication in range(replications):
        one = DOMINATED[name](gain, np.random.default_rng([replication, 15]))
        parts = compare_parts(one, 0, resamples=RESAMPLES)
        assert parts is not None
        found["rest"] += bool(parts.rest.differences.better[1])
        found["own"] += bool(parts.dominating[0].differences.better[1])
        found["whole"] += bool(compare_with_baseline(one, 0, resamples=RESAMPLES).better[1])
    return [name, f"{gain:+.2f}", *(percent(count, replications) for count in found.values())]


def dominated(replications: int, pool: Executor) -> list[str]:
    return table(
        "**One document, or one question, that dominates**: how often a config is called better (where it is equal, at"
        " most 2.5) on the other questions, on the document's own, and on all together",
        ["", "truly better by", "the rest", "its own", "all"],
        list(pool.map(partial(one_share, replications=replications),
                      product(DOMINATED, (0.0, 0.05, 0.1, 0.15)))))  # fmt: skip
