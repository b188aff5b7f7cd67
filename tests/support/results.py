"""Results with given values, and ledgers of them."""

import csv
import dataclasses
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optuna_sweeper.summary import FILE, FORMAT
from ragsweep.core.errors import RagsweepError
from ragsweep.core.question_results import QuestionResults
from ragsweep.core.question_texts import from_texts, to_texts
from ragsweep.core.results import Artifacts, DatasetFacts, Failure, Result, Run, Summaries, Summary, TargetResult
from ragsweep.parts.tracking import CHOSEN
from ragsweep.records.ledger import FINISHED, Ledger, Sweep
from ragsweep.report.sweep_report import PageTexts
from ragsweep.stats.compare_configs import compare_configs
from ragsweep.stats.comparison import SweepComparison
from ragsweep.sweep.concluding.parent_run import sweep_run
from ragsweep.sweep.concluding.sweep_summary import SweepSummary
from ragsweep.sweep.running.recording import TrackedContent
from ragsweep.sweep.searching.study_summary import study_folder

NAN = math.nan


def summary(name: str, value: float = 0.5, low: float = 0.25, high: float = 0.75, scored: int = 2) -> Summary:
    return Summary(name, value, low, high, n_total=4, n_scored=scored, n_skipped=1, n_failed=3 - scored)


def changed_table(result: Result, columns: Mapping[str, Sequence[Any]]) -> QuestionResults:
    """Change columns of a result's flat table, where nested values are JSON texts."""
    return from_texts({**to_texts(result.questions), **columns})


def changed(
    result: Result,
    columns: Mapping[str, Sequence[Any]] | None = None,
    settings: Mapping[str, Any] | None = None,
    measured: Mapping[str, Mapping[str, Any]] | None = None,
    **changes: Any,
) -> Result:
    """Change fields of a result's run and summaries by name, and its ``questions``, which may be a flat table.

    Args:
        result: The result to copy.
        columns: Columns of the flat table to add or replace, where nested values are JSON texts.
        settings: Keys of the config to add or replace.
        measured: Metric -> fields of its summary to replace.
        changes: Whole fields, by name.
    """
    if columns:
        changes["questions"] = changed_table(result, columns)
    if settings:
        changes["config"] = {**result.run.config, **settings}
    if measured:
        known = result.summaries.metrics
        replaced = {name: dataclasses.replace(known[name], **facts) for name, facts in measured.items()}
        changes["metrics"] = {**known, **replaced}
    parts = {}
    for name in ("run", "summaries"):
        part = getattr(result, name)
        own = {one.name: changes.pop(one.name) for one in dataclasses.fields(part) if one.name in changes}
        parts[name] = dataclasses.replace(part, **own)
    if isinstance(table := changes.get("questions"), dict):
        changes["questions"] = from_texts(table)
    return dataclasses.replace(result, **parts, **changes)


def a_result(**changes: Any) -> Result:
    """Make a result; fields of its run and summaries are given by name, and ``questions`` may be a flat table."""
    nothing = summary("mrr", NAN, NAN, math.inf, scored=0)
    known = Result(
        Run(
            signature="5" * 64,
            name="top_k=3",
            overrides=("top_k=3",),
            config={"top_k": 3, "retriever": {"legs": ("bm25", "vector")}, "name": "é"},
            parameters={"top_k": "3", "retriever.legs.a@b": "", "prompt": "short"},
            dataset=DatasetFacts("python", "c" * 64, "0123456789" * 6 + "abcd", 79, 4, 3, 1, {"no label": 2}),
            stages={},
            indexes={"index/vector": {"seconds": NAN, "bytes": 4.0}},
            started=1_700_000_000.5,
            ended=1_700_000_002.25,
        ),
        QuestionResults(
            {"question_id": ["a", "b"], "mrr": [0.5, NAN], "context": [["x:0-5"], []], "mixed": [1, "one"]}
        ),
        Summaries(
            metrics={"ndcg_at_10": summary("ndcg_at_10"), "mrr": nothing},
            groups={"category": {"how-to": {"mrr": summary("mrr", 0.125)}, "c++": {"mrr": summary("mrr", 1.0)},
                                 "c**": {"mrr": summary("mrr", 0.0)}, "none": {"mrr": nothing}}},
            first_stage={"mrr": nothing, "ndcg_at_10": summary("ndcg_at_10", 0.375)},
            reranking={"up": 0.5, "mean_change": NAN},
            targets=(
                TargetResult("ndcg_at_10", "fail", 0.5, 0.55, "fair", False, "act"),
                TargetResult("mrr", "not judged"),
            ),
        ),
    )  # fmt: skip
    return changed(known, **changes)


RANKED = Artifacts(rankings={"ab12" * 16: "a Q0 x 1 1.5 top_k=3\n"})
"""Artifacts of `a_result`."""


FACTS = DatasetFacts("made", "c" * 64, "d" * 64, 10, 40, 40, 0)


def scored(
    metrics: Mapping[str, Sequence[float]], labels: Mapping[str, Sequence[str]] | None = None, **changes: Any
) -> Result:
    """Make a result of these scores; the first metric is the objective and the table's only column."""
    names = list(metrics)
    count = len(metrics[names[0]])
    ids = [f"q{n}" for n in range(count)]
    summaries = {name: summarised(name, column) for name, column in metrics.items()}
    known: dict[str, Any] = {
        "signature": str(sorted(metrics.items())),
        "config": {"objective": names[0], "headline": names[:1], **changes.pop("config", {})},
        "metrics": summaries,
        "groups": {label: {value: {} for value in set(column)} for label, column in (labels or {}).items()},
        "questions": {
            "question_id": ids, "question": ids, "unscored": ["{}"] * count, "context": [[] for _ in ids],
            **(labels or {}), **metrics,
        },
        "dataset": FACTS,
        "parameters": {},
        "targets": (),
        "indexes": {},
        "first_stage": {},
        "reranking": {},
    }  # fmt: skip
    return a_result(**{**known, **changes})


def summarised(name: str, column: Sequence[float]) -> Summary:
    """Summarise a column of scores; latency has the unit ms, and lower is better; ``results`` has no direction."""
    values = np.array(column, dtype=np.float64)
    known = values[~np.isnan(values)]
    amount = name.startswith("latency")
    mean = float(np.quantile(known, 0.95) if "p95" in name else known.mean()) if len(known) else float("nan")
    return Summary(
        name, mean, mean, mean, len(values), len(known), 0, len(values) - len(known), "ms" if amount else "",
        None if name == "results" else not amount,
    )  # fmt: skip


def record(folder: Path, *results: Result) -> list[str]:
    """Record results as single runs and return their run ids."""
    ledger = Ledger(folder)
    runs = [f"{n:x}" * 32 for n in range(1, len(results) + 1)]
    for run, result in zip(runs, results, strict=True):
        ledger.mark_tracked(ledger.write(None, 0, result), run)
    return runs


def record_sweep(folder: Path, parent: str, *results: Result) -> list[str]:
    """Record results as the configs of a sweep and return their run ids."""
    ledger = Ledger(folder)
    jobs = tuple(result.run.overrides for result in results)
    sweep = ledger.open_sweep(
        f"key{parent}", Sweep("", "sweep", parent, jobs, tuple(result.name for result in results))
    )
    runs = [f"{n:02x}{parent}" for n in range(len(results))]
    for n, (run, result) in enumerate(zip(runs, results, strict=True)):
        ledger.mark_tracked(ledger.write(sweep.id, n, result), run)
    ledger.set_status(sweep.id, FINISHED)
    return runs


def break_constraints(folder: Path, *jobs: int) -> None:
    """Make the ledger's only sweep a search in which the trials with these job numbers violate a constraint."""
    study = study_folder(folder / "ledger.db", Ledger(folder).sweeps()[0].id)
    study.mkdir(parents=True)
    trials = [{"job": job, "trial": job, "state": "COMPLETE", "broken": ["a <= 1"]} for job in jobs]
    facts = {"format": FORMAT, "study": "s", "states": {}, "n_trials": 0, "stopped": "", "stop": None, "sampler": {}}
    (study / FILE).write_text(json.dumps({**facts, "trials": trials}))


def parent_run(summary: SweepSummary, tables: str = CHOSEN) -> TrackedContent:
    """Return the content of a sweep's parent run, without the texts of its dataset."""
    return sweep_run(summary, Sweep("", "sweep", "", (("a=1",),), ("a=1",)), PageTexts(), tables)


def drawn(mean: float, count: int = 40, spread: float = 0.1, seed: int = 0) -> list[float]:
    """Draw scores with exactly this mean."""
    drawn = np.random.default_rng(seed).normal(0, spread, count)
    return [float(one) for one in drawn - drawn.mean() + mean]


def csv_rows(data: bytes) -> list[dict[str, str]]:
    """Read a CSV file as rows."""
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def refusing(result: Result) -> Result:
    """Return a copy of a result in which all questions are answerable, and all answers are refusals."""
    count = result.questions.rows
    answers = {"answerable": [True], "answer": [""], "abstained": [True], "answer_failed": [""]}
    return changed(result, columns={name: one * count for name, one in answers.items()})


def table_rows(table: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Read a table of ``columns`` and ``data``, as the commands write it, as rows."""
    return [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]


def compared(
    results: Sequence[Result], baseline: str | None = None, failures: Sequence[Failure] = ()
) -> SweepComparison:
    """Compare configs as the end of a sweep does, and check that they can be compared."""
    found = compare_configs(results, failures, baseline=baseline)
    assert isinstance(found, SweepComparison), found
    return found


def refuse(command: Callable[[Sequence[str]], int], cases: Mapping[str, Sequence[str]], *path: str) -> None:
    """Check that a command refuses bad input with exit status 2 and one line; ``cases``: pattern -> arguments."""
    for pattern, arguments in cases.items():
        with pytest.raises(RagsweepError, match=pattern) as raised:
            command([*arguments, *path])
        assert raised.value.exit_status == 2
        assert "\n" not in str(raised.value)


METRIC = "ndcg"


def one_metric(
    name: str,
    scores: Sequence[float],
    categories: Sequence[str] = (),
    *,
    direction: bool | None = True,
    unit: str = "",
    value: float | None = None,
    golden: str = "g",
    state: str = "COMPLETE",
    config: dict[str, Any] | None = None,
    **costs: float,
) -> Result:
    """Make a result with one metric's score for each question, and with costs that are equal for all questions."""
    column = np.asarray(scores, dtype=np.float64)
    known = int((~np.isnan(column)).sum())
    mean = float(np.nanmean(column)) if known else float("nan")
    found = {METRIC: _one_summary(METRIC, mean if value is None else value, len(column), known, direction, unit)}
    for cost, amount in costs.items():
        found[cost] = _one_summary(cost, amount, len(column), 0 if math.isnan(amount) else len(column), False)
    columns: dict[str, Sequence[Any]] = {
        "question_id": [f"q{n}" for n in range(len(column))],
        "source": [f"document {n}" for n in range(len(column))],
        METRIC: column.tolist(),
        **{cost: [amount] * len(column) for cost, amount in costs.items()},
    }
    groups: dict[str, Any] = {}
    if categories:
        columns["category"] = list(categories)
        groups["category"] = {category: {} for category in sorted(set(categories))}
    run = Run(
        signature=name,
        name=name,
        overrides=(name,),
        config={"objective": METRIC, "headline": [METRIC, *costs], **(config or {})},
        parameters={},
        dataset=DatasetFacts("toy", "c", golden, 1, len(column), len(column), 0),
        stages={},
        state=state,
    )
    return Result(run, QuestionResults(columns), Summaries(found, groups))


def with_cost(result: Result, name: str, column: Sequence[float], **facts: Any) -> Result:
    """Add a cost by question; ``facts`` are fields of its summary, whose value is by default the mean."""
    values = np.asarray(column, dtype=np.float64)
    known = int((~np.isnan(values)).sum())
    mean = float(np.nanmean(values)) if known else NAN
    summary = dataclasses.replace(_one_summary(name, mean, len(values), known, False), **facts)
    outcomes = result.questions.with_columns({name: values.tolist()})
    return changed(result, metrics={**result.summaries.metrics, name: summary}, questions=outcomes)


def _one_summary(name: str, value: float, total: int, known: int, direction: bool | None, unit: str = "") -> Summary:
    return Summary(name, value, value, value, total, known, 0, total - known, unit, direction)


def noisy(mean: float, questions: int = 100, seed: int = 0, spread: float = 0.05) -> np.ndarray:
    """Draw scores around a mean that mostly depend on the question, as those of real configs do."""
    shared = np.random.default_rng(1).normal(0, 0.1, questions)
    return np.asarray(mean + shared + np.random.default_rng(seed).normal(0, spread, questions))
