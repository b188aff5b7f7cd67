"""The report of two configs: a page, a JSON record of the comparison, and one record per question."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ragsweep.commands.command_line import usual_metrics
from ragsweep.commands.comparison import Comparison
from ragsweep.core.errors import InputError, RagsweepError
from ragsweep.core.replacing import replace_file
from ragsweep.core.results import Result, Summary, TargetResult
from ragsweep.core.secrets import Secrets
from ragsweep.report.numbers import NOT_MEASURED, amount, chance, number, with_interval
from ragsweep.report.page import charts, pair_charts, write_page
from ragsweep.report.page.items import Item, make_charts, make_table
from ragsweep.report.tables import Row, to_json
from ragsweep.stats.comparable import is_mean
from ragsweep.stats.gate import GAIN, Check, Condition, Scope, run_checks, with_worst_cases
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.inference.pair_intervals import bootstrap_interval, student_interval
from ragsweep.sweep.concluding.recorded_runs import open_ledger
from ragsweep.sweep.running.session import Session

FORMAT = "ragsweep.pair/1"
PAGE = "comparison.html"
GENERATE = "generate"
_DECIDED = {"pass": "shown", "fail": "not reached", "inconclusive": "open"}
_INTERVALS = """Difference: candidate less baseline. Student: by a t distribution, questions as if independent.
Bootstrap: whole documents resampled. Interval and verdict: ours, which count clusters and rare losses; they decide."""


def pair_metrics(first: Result, second: Result) -> list[str]:
    """Return the metrics of a report: the deciding one, the targets, the headline, and the answer metrics."""
    directed = [name for name, one in first.summaries.items() if one.higher_is_better is not None and one.n_scored]
    scored = [name for name in directed if name in second.summaries and second.summaries[name].n_scored]
    known = [name for name in scored if is_mean(first, name)]
    named = [(first.config.get("success") or {}).get("metric"), *usual_metrics([first, second])]
    named += [*(target.metric for target in second.targets), *(name for name in known if name.startswith("answer_"))]
    return list(dict.fromkeys(name for name in named if name in known))


@dataclass(frozen=True)
class PairReport:
    """Two configs compared, and the folder of their ledger."""

    comparison: Comparison
    path: str

    @property
    def results(self) -> tuple[Result, Result]:
        """The baseline and the candidate."""
        return self.comparison.baseline.result, self.comparison.candidate.result

    @cached_property
    def rows(self) -> list[Row]:
        """One row per metric: that of the comparison, with Student's and the bootstrap interval."""
        rows = list[Row]()
        for row in self.comparison.metrics:
            matrix = score_matrix(self.results, row["metric"])
            student = dict(zip(("student_low", "student_high"), student_interval(matrix), strict=True))
            bootstrap = dict(zip(("bootstrap_low", "bootstrap_high"), bootstrap_interval(matrix), strict=True))
            rows.append({**row, **student, **bootstrap})
        return rows

    @cached_property
    def improvements(self) -> list[tuple[str, str, Check]]:
        """Test the improvements that the candidate's targets set: metric, "minimal" or "ideal", and the decision."""
        before, after = self.results
        found = []
        for metric, target in (after.config.get("targets") or {}).items():
            for key, kind in (("improvement", "minimal"), ("ideal_improvement", "ideal")):
                size = target.get(key) if isinstance(target, dict) else None
                if size is None or metric not in before.summaries or metric not in after.summaries:
                    continue
                filled = with_worst_cases(before, after, metric)
                scope = Scope(frozenset(before.outcomes["question_id"]))
                found += [
                    (metric, kind, one) for one in run_checks(Condition(metric, size, GAIN), before, filled, scope)
                ]
        return found

    @cached_property
    def milliseconds(self) -> list[list[float]]:
        """The response time in ms of each question, per config; NaN if a step was not measured."""
        return [[_spent(one.outcomes.steps_of(n)) for n in range(one.outcomes.rows)] for one in self.results]

    @cached_property
    def confusions(self) -> dict[str, Counter[tuple[str, str]]]:
        """Confusion counts of expected and found kinds, per config, for metrics that pair them and readable answers."""
        found = {}
        for result in self.results:
            counts: Counter[tuple[str, str]] = Counter(self._pairs(result))
            if counts:
                found[result.name] = counts
        return found

    def _pairs(self, result: Result) -> Iterator[tuple[str, str]]:
        session = Session()
        dataset = session.recorded_dataset(result)
        if dataset is None or "answer" not in result.outcomes or "output" not in result.config:
            return
        try:
            reader = session.builder.build(result.config["output"], "output").value
            nodes = (result.config.get("metrics") or {}).items()
            metrics = [session.builder.build(node, f"metrics.{key}").value for key, node in nodes if node]
        except RagsweepError:
            return
        questions = {question.id: question for question in dataset.golden.questions}
        for metric in (one for one in metrics if hasattr(one, "pairs")):
            for name, text in zip(result.outcomes["question_id"], result.outcomes["answer"], strict=True):
                try:
                    output = reader.read(text)
                except ValueError:
                    continue
                yield from metric.pairs(questions[name], output)

    # --- records -------------------------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """Return the report as one record in JSON types."""
        before, after = self.results
        return {
            "format": FORMAT,
            "dataset": before.dataset.name,
            "questions": before.dataset.questions,
            "baseline": self._facts(before),
            "candidate": self._facts(after),
            "metrics": self.rows,
            "slices": self.comparison.slices,
            "improvements": [
                {
                    "metric": metric,
                    "kind": kind,
                    "at_least": check.condition.size,
                    "decision": check.found.decision,
                    "difference": check.found.difference,
                    "low": check.found.low,
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

    def _facts(self, result: Result) -> dict[str, Any]:
        return {
            "name": result.name,
            "parameters": dict(result.parameters),
            "usage": result.usage,
            "mean_ms": _stage_means(result),
            "targets": [vars(target) for target in result.targets],
        }

    def cases(self) -> Iterator[dict[str, Any]]:
        """Yield one record per question: its labels, and answer, scores, missing scores and steps of both configs."""
        before, after = self.results
        metrics = [row["metric"] for row in self.rows]
        rows = {name: n for n, name in enumerate(after.outcomes["question_id"])}
        for n, name in enumerate(before.outcomes["question_id"]):
            pair = zip(("baseline", "candidate"), (before, after), (n, rows[name]), strict=True)
            sides = {side: _side(result, place, metrics) for side, result, place in pair}
            labels = {label: before.outcomes[label][n] for label in before.groups}
            yield {"question_id": name, "question": before.outcomes["question"][n], **labels, **sides}

    # --- page ----------------------------------------------------------------------------------------------------

    def page(self) -> bytes:
        """Return the page."""
        before, after = self.results
        sections = (
            ("result", "What was found", self._found()),
            ("targets", "Targets", self._targets()),
            ("cost", "Time and tokens", self._cost()),
            ("charts", "Side by side", self._charts()),
            ("slices", "By category and other labels", self._slices()),
            ("history", "History", self._history()),
        )
        made = [{"id": key, "title": title, "items": list(items)} for key, title, items in sections]
        filled = [one for one in made if one["items"]]
        document = {"format": FORMAT, "title": f"{after.name} against {before.name}", "sections": filled}
        return write_page(Secrets().mask_values(document))

    def _found(self) -> Iterator[Item]:
        rows = []
        for row in self.rows:
            unit = row["unit"]
            ends = [
                f"{amount(row[f'{kind}_low'], unit)} to {amount(row[f'{kind}_high'], unit)}"
                for kind in ("student", "bootstrap")
            ]
            ours = NOT_MEASURED
            if row["ratio"] is None:
                ours = f"{amount(row['low'], unit)} to {amount(row['high'], unit)}"
            rows.append(
                [
                    row["metric"],
                    amount(row["baseline"], unit),
                    amount(row["candidate"], unit),
                    amount(row["difference"], unit),
                    *ends,
                    chance(row["p_wilcoxon"]),
                    ours,
                    row["verdict"],
                ]
            )
        header = ["metric", ">baseline", ">candidate", ">difference", "Student 95 %", "bootstrap 95 %",
                  "Wilcoxon", "interval", "verdict"]  # fmt: skip
        before, after = self.results
        names = f"Baseline: {before.name}. Candidate: {after.name}. "
        yield make_table(header, rows, names + " ".join(_INTERVALS.split()), "Metrics")

    def _targets(self) -> Iterator[Item]:
        sides = [{target.metric: target for target in result.targets} for result in self.results]
        tested = {(metric, kind): check for metric, kind, check in self.improvements}
        rising = {row["metric"]: row["higher_is_better"] for row in self.rows}
        rows = []
        for metric in dict.fromkeys([*sides[0], *sides[1]]):
            gains = (
                _improvement(tested.get((metric, kind)), rising.get(metric, True)) for kind in ("minimal", "ideal")
            )
            rows.append([metric, *(cell for side in sides for cell in _target(side.get(metric))), *gains])
        header = [
            "metric",
            "baseline: minimal",
            "ideal",
            "candidate: minimal",
            "ideal",
            "improvement: minimal",
            "ideal",
        ]
        note = "Improvements are tested: shown, where the interval of the difference lies above the target; open, where"
        note += " it includes the target."
        if rows:
            yield make_table(header, rows, note)

    def _cost(self) -> Iterator[Item]:
        means = [_stage_means(result) for result in self.results]
        rows = []
        for stage in ("retrieval", GENERATE, "all"):
            values = [found.get(stage, math.nan) for found in means]
            ratio = f"x {values[1] / values[0]:.2g}" if values[0] > 0 and math.isfinite(values[1]) else NOT_MEASURED
            rows.append([f"{stage}, ms a question", *(amount(value, "ms") for value in values), ratio])
        for name in (row["metric"] for row in self.rows if row["metric"].startswith("answer_tokens")):
            found = [result.summaries[name] for result in self.results]
            rows.append([name, *(number(one.value, one.unit) for one in found), NOT_MEASURED])
        yield make_table(["", ">baseline", ">candidate", ">ratio"], rows)

    def _charts(self) -> Iterator[Item]:
        before, _after = self.results
        by_unit: dict[str, list[str]] = {}
        for row in self.rows:
            share = all(abs(row[side]) <= 1 for side in ("baseline", "candidate"))
            by_unit.setdefault(row["unit"] or ("shares" if share else "counts"), []).append(row["metric"])
        options = [{"label": unit, "figure": pair_charts.bars(self.results, names)} for unit, names in by_unit.items()]
        yield make_charts(options, "Means with their 95 % intervals.", "Means")
        quality = self._quality()
        boxes = [{"label": label, "figure": charts.boxes(self.results, label, quality)} for label in before.groups]
        if boxes:
            yield make_charts(
                boxes, "The middle half of the questions in a box, the mean as a dotted line.", "By label"
            )
        if np.isfinite(np.array(self.milliseconds)).any():
            figure = pair_charts.time_against(self.results, quality, self.milliseconds)
            yield make_charts(
                [{"label": "", "figure": figure}], "One point per question.", "Response time against quality"
            )
        if self.confusions:
            figures = {name: pair_charts.confusion(counts) for name, counts in self.confusions.items()}
            options = [{"label": name, "figure": figure} for name, figure in figures.items()]
            yield make_charts(options, "Expected kinds by predicted kinds.", "Kinds of findings")

    def _quality(self) -> str:
        """Return the metric with most distinct values: a chart of hits and misses shows little."""
        names: list[str] = [row["metric"] for row in self.rows if not row["metric"].startswith(("answer_", "latency_"))]
        different = self.results[1].outcomes
        return max(names, key=lambda name: len(set(different[name])), default=str(self.rows[0]["metric"]))

    def _slices(self) -> Iterator[Item]:
        rows = []
        for part in self.comparison.slices:
            first, last = (part["metric"], part["label"], part["value"]), (part["verdict"], part["note"])
            rows.append([*first, str(part["questions"]), _part_interval(part), *last])
        if rows:
            header = ["metric", "label", "value", ">questions", ">difference", "verdict", "note"]
            yield make_table(header, rows, "Corrected for the number of slices (Holm).")

    def _history(self) -> Iterator[Item]:
        names = [result.name for result in self.results]
        names = [name.partition(" ")[2] if name.startswith("#") else name for name in names]
        metric, facts, ledger = self.rows[0]["metric"], self.results[0].dataset, open_ledger(self.path)
        found = ledger.summaries(facts.undivided, facts.partition, metric)
        runs: list[tuple[float, list[Summary]]] = []
        for sweep in ledger.sweeps():
            by_name = dict(found.get(sweep.id, {}).values())
            if all(name in by_name for name in names):
                runs.append((sweep.created, [by_name[name] for name in names]))
        if len(runs) > 1:
            figure = pair_charts.over_time(metric, [result.name for result in self.results], runs)
            yield make_charts([{"label": "", "figure": figure}], "Sweeps with both configs on these questions.")


def write_report(report: PairReport, folder: Path) -> None:
    """Write ``comparison.html``, ``comparison.json`` and ``cases.jsonl``; raises InputError on failure."""
    cases = "".join(to_json(case, indent=None) + "\n" for case in report.cases())
    record = to_json(report.record()).encode()
    contents = {PAGE: report.page(), "comparison.json": record, "cases.jsonl": cases.encode("utf-8", "replace")}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            replace_file(folder / name, content)
    except OSError as fault:
        raise InputError(f"--report: {folder}: cannot be written: {fault.strerror}; give another folder") from fault


def _side(result: Result, row: int, metrics: Sequence[str]) -> dict[str, Any]:
    columns = result.outcomes
    extra = {name: columns[name][row] for name in ("answer", "answer_failed", "output_fault") if name in columns}
    scores, unscored = {name: columns[name][row] for name in metrics}, dict(columns.unscored[row])
    return {**extra, "scores": scores, "unscored": unscored, "steps": columns.steps_of(row)}


def _spent(steps: dict[str, dict[str, float]]) -> float:
    return sum((step["ms"] for name, step in steps.items() if "ms" in step), 0.0) if steps else math.nan


def _stage_means(result: Result) -> dict[str, float]:
    means = {stage: found["mean_ms"] for stage, found in result.latency.items()}
    retrieval = sum(value for stage, value in means.items() if stage != GENERATE)
    generate = {GENERATE: means[GENERATE]} if GENERATE in means else {}
    return {"retrieval": retrieval, **generate, "all": sum(means.values())}


def _target(target: TargetResult | None) -> tuple[str, str]:
    if target is None or not math.isfinite(target.value):
        return NOT_MEASURED, NOT_MEASURED
    minimal = f"{number(target.value)} {target.verdict} ({number(target.threshold)}), {target.band}"
    if target.ideal is None:
        return minimal, NOT_MEASURED
    return minimal, f"{'pass' if target.ideal_met else 'fail'} ({number(target.ideal)})"


def _improvement(check: Check | None, higher_is_better: bool) -> str:
    if check is None:
        return NOT_MEASURED
    found = check.found
    gain = found.difference if higher_is_better else -found.difference
    return f"{_DECIDED[found.decision]}: {number(gain)} of {check.condition.written_size}"


def _part_interval(part: Row) -> str:
    if part["ratio"] is not None:
        return f"x {part['ratio']:.2f}"
    return with_interval(part["difference"], part["low"], part["high"], part["unit"])
