"""The content of a report that compares two configs: tables, a JSON record, and one record per question."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ragsweep.commands.command_line import usual_metrics
from ragsweep.commands.comparison import PairRows, pair_rows
from ragsweep.core.errors import RagsweepError
from ragsweep.core.question_results import QuestionResults
from ragsweep.core.results import Result
from ragsweep.core.types import Answer
from ragsweep.parts.answer_outputs import read_output
from ragsweep.report.tables import Row
from ragsweep.stats.comparable import is_mean, reason_incomparable
from ragsweep.stats.conclusion import PairConclusion
from ragsweep.stats.gate import GAIN, Check, Condition, Scope, run_checks
from ragsweep.stats.inference.differences import bootstrap_interval, student_interval
from ragsweep.stats.inference.matrix import with_worst_cases
from ragsweep.sweep.running.session import Session

FORMAT = "ragsweep.pair/1"
GENERATE = "generate"


def pair_metrics(first: Result, second: Result) -> list[str]:
    """Return the metrics to report: success metric, objectives, headline and target metrics, and ``answer_*`` metrics.

    The success metric is taken from ``first``, and the targets from ``second``. A metric is included only if it is a
    mean, sets ``higher_is_better``, and has scores in both configs.
    """
    directed = [
        name for name, one in first.summaries.metrics.items() if one.higher_is_better is not None and one.n_scored
    ]
    scored = [name for name in directed if name in second.summaries.metrics and second.summaries.metrics[name].n_scored]
    known = [name for name in scored if is_mean(first, name)]
    named = [(first.run.config.get("success") or {}).get("metric"), *usual_metrics([first, second])]
    named += [
        *(target.metric for target in second.summaries.targets),
        *(name for name in known if name.startswith("answer_")),
    ]
    return list(dict.fromkeys(name for name in named if name in known))


@dataclass(frozen=True)
class PairReport:
    """The content of a report that compares two configs; ``path`` is the folder of their ledger."""

    conclusion: PairConclusion
    path: str

    @cached_property
    def results(self) -> tuple[Result, Result]:
        """The baseline and the candidate; if their names are equal, each name is followed by its role."""
        before, after = self.conclusion.results
        if before.name != after.name:
            return before, after
        return before.renamed(f"{before.name} (baseline)"), after.renamed(f"{after.name} (candidate)")

    @cached_property
    def _rows(self) -> PairRows:
        return pair_rows(self.conclusion)

    @property
    def slices(self) -> list[Row]:
        """One row per metric and slice."""
        return self._rows.slices

    @cached_property
    def rows(self) -> list[Row]:
        """One row per metric of the comparison, with the 95 % Student and bootstrap intervals of the difference."""
        rows = list[Row]()
        for one, row in zip(self.conclusion.metrics, self._rows.metrics, strict=True):
            student = dict(zip(("student_low", "student_high"), student_interval(one.matrix), strict=True))
            bootstrap = dict(zip(("bootstrap_low", "bootstrap_high"), bootstrap_interval(one.matrix), strict=True))
            rows.append({**row, **student, **bootstrap})
        return rows

    @cached_property
    def improvements(self) -> list[tuple[str, str, Check]]:
        """Checks of the improvements that the candidate's targets require: (metric, "minimal" or "ideal", check).

        A metric by which the configs cannot be compared, such as a quantile, has no check.
        """
        before, after = self.results
        shared = before.summaries.metrics.keys() & after.summaries.metrics.keys()
        found = []
        for metric, target in (after.run.config.get("targets") or {}).items():
            for key, kind in (("improvement", "minimal"), ("ideal_improvement", "ideal")):
                size = target.get(key) if isinstance(target, dict) else None
                if size is None or metric not in shared or reason_incomparable((before, after), metric):
                    continue
                filled = with_worst_cases(before, after, metric)
                scope = Scope(frozenset(before.questions["question_id"]))
                found += [
                    (metric, kind, one) for one in run_checks(Condition(metric, size, GAIN), before, filled, scope)
                ]
        return found

    @cached_property
    def milliseconds(self) -> list[list[float]]:
        """Response times in ms, by config and question: the sum of the measured steps; NaN if none was measured."""
        return [[_spent(one.questions.steps_of(n)) for n in range(one.questions.rows)] for one in self.results]

    @cached_property
    def confusions(self) -> dict[str, Counter[tuple[str, str]]]:
        """Config name -> counts of (expected kind, found kind), from the ``pairs`` of its metrics; {} without pairs."""
        found = {}
        for result in self.results:
            counts: Counter[tuple[str, str]] = Counter(self._pairs(result))
            if counts:
                found[result.name] = counts
        return found

    def _pairs(self, result: Result) -> Iterator[tuple[str, str]]:
        session = Session()
        dataset = session.recorded_dataset(result)
        has_answers = {"answer", "answer_failed"} <= result.questions.keys()
        if dataset is None or not has_answers or "output" not in result.run.config:
            return
        try:
            reader = session.builder.build(result.run.config["output"], "output").value
            nodes = (result.run.config.get("metrics") or {}).items()
            metrics = [session.builder.build(node, f"metrics.{key}").value for key, node in nodes if node]
        except RagsweepError:
            return
        questions = {question.id: question for question in dataset.golden.questions}
        columns = [result.questions[name] for name in ("question_id", "answer", "answer_failed")]
        for metric in (one for one in metrics if hasattr(one, "pairs")):
            for name, text, failed in zip(*columns, strict=True):
                output = read_output(Answer(text, failed=failed), reader)
                if name in questions and not failed and not output.unreadable:  # the golden set may have changed since
                    yield from metric.pairs(questions[name], output.value)

    # --- records -------------------------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """Return the report as one record of JSON-compatible values."""
        before, after = self.results
        means = stage_means(self.results)
        return {
            "format": FORMAT,
            "dataset": before.run.dataset.name,
            "questions": before.run.dataset.questions,
            "baseline": self._facts(before, means[0]),
            "candidate": self._facts(after, means[1]),
            "metrics": self.rows,
            "slices": self.slices,
            "improvements": [
                {
                    "metric": metric,
                    "kind": kind,
                    "at_least": check.condition.size,
                    "decision": check.found.decision,
                    "difference": check.found.difference,
                    **_difference_ends(check, bool(before.summaries.metrics[metric].higher_is_better)),
                }
                for metric, kind, check in self.improvements
            ],
            "confusions": {
                name: [
                    {"expected": expected, "found": got, "count": count}
                    for (expected, got), count in sorted(counts.items())
                ]
                for name, counts in self.confusions.items()
            },
        }

    def _facts(self, result: Result, means: dict[str, float]) -> dict[str, Any]:
        return {
            "name": result.name,
            "parameters": dict(result.run.parameters),
            "usage": result.summaries.usage,
            "mean_ms": means,
            "targets": [vars(target) for target in result.summaries.targets],
        }

    def cases(self) -> Iterator[dict[str, Any]]:
        """Yield one record per question: its labels, and its results in each config.

        The results are the answer, whether it failed, any fault in its output, the scores, the reasons for missing
        scores, and the steps.
        """
        before, after = self.results
        metrics = [row["metric"] for row in self.rows]
        for n, name in enumerate(before.questions["question_id"]):
            places = (n, after.questions.row_of[name])
            pair = zip(("baseline", "candidate"), (before, after), places, strict=True)
            sides = {side: _side(result.questions, place, metrics) for side, result, place in pair}
            labels = {label: before.questions[label][n] for label in before.summaries.groups}
            yield {"question_id": name, "question": before.questions["question"][n], **labels, **sides}


def _difference_ends(check: Check, higher_is_better: bool) -> dict[str, float]:
    """Return a difference's interval, with ends at one-sided 95 %, from the interval of the slack in ``check``."""
    ends = [
        (end + check.condition.size) * (1 if higher_is_better else -1) for end in (check.found.low, check.found.high)
    ]
    return dict(zip(("low", "high"), ends if higher_is_better else ends[::-1], strict=True))


def _side(questions: QuestionResults, row: int, metrics: Sequence[str]) -> dict[str, Any]:
    extra = {name: questions[name][row] for name in ("answer", "answer_failed", "output_fault") if name in questions}
    scores = {name: questions[name][row] for name in metrics}
    unscored = dict(questions.unscored[row]) if questions.unscored else {}
    return {**extra, "scores": scores, "unscored": unscored, "steps": questions.steps_of(row)}


def _spent(steps: dict[str, dict[str, float]]) -> float:
    measured = [step["ms"] for step in steps.values() if "ms" in step]
    return sum(measured) if measured else math.nan


def stage_means(pair: Sequence[Result]) -> list[dict[str, float]]:
    """Return each config's measured mean ms per question: "retrieval" (all stages but "generate"), "generate", "all".

    If only one config's retrieval was measured, the other config has no "all", because it would cover only generation.
    """
    found = []
    for result in pair:
        means = {stage: one["mean_ms"] for stage, one in result.summaries.latency.items()}
        retrieval = [value for stage, value in means.items() if stage != GENERATE]
        parts: dict[str, float] = {"retrieval": sum(retrieval)} if retrieval else {}
        parts |= {GENERATE: means[GENERATE]} if GENERATE in means else {}
        found.append(parts | ({"all": sum(means.values())} if means else {}))
    if any("retrieval" in one for one in found):
        for one in found:
            if "retrieval" not in one:
                one.pop("all", None)
    return found
