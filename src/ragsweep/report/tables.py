"""A sweep's results as JSON and CSV (see ``docs/results.md``), their order, and notes on them."""

import csv
import io
import json
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ragsweep.core.data import describe_weights
from ragsweep.core.escaping import harmless_cell
from ragsweep.core.missing import INAPPLICABLE, failed, remedy
from ragsweep.core.plurals import counted, percentage
from ragsweep.core.results import (
    COMPLETE,
    DatasetFacts,
    Failure,
    Result,
    Run,
    Summary,
    TargetResult,
    below_coverage,
    judged_metrics,
    objectives,
)
from ragsweep.report.numbers import NOT_MEASURED, cell, number
from ragsweep.stats.inference.matrix import WEIGHT

RESULTS_FORMAT = "ragsweep.results/1"

Row = Mapping[str, Any]
"""A row of a table: column -> value."""


def to_json(document: Any, indent: int | None = 2) -> str:
    """Return a document as strict JSON, on one line if ``indent`` is None; NaN and infinity become null."""
    separators = (",", ":") if indent is None else None
    return json.dumps(_strict(document), indent=indent, separators=separators, ensure_ascii=False, allow_nan=False)


def log_table(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Return rows with the same columns in the format of MLflow's log_table: ``columns`` and ``data``."""
    return {"columns": list(rows[0]) if rows else [], "data": [list(row.values()) for row in rows]}


def csv_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """Return rows as CSV in UTF-8; strings that a spreadsheet would run as formulas are prefixed with an apostrophe."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow([harmless_cell(name) for name in header])
    writer.writerows([harmless_cell(cell) for cell in row] for row in rows)
    return buffer.getvalue().encode("utf-8", "replace")


def headline(results: Sequence[Result]) -> list[str]:
    """List the measured metrics to show in tables: the configs' headline metrics, judged metrics and objectives.

    Metrics in ``answer_headline`` are included for configs with answers.
    """
    answering = [one for one in results if "answer" in one.questions]
    names = [name for one in results for name in one.run.config.get("headline", ())]
    names += [name for one in answering for name in one.run.config.get("answer_headline", ())]
    names += [name for one in results for name in (*judged_metrics(one), *objectives(one.run.config))]
    return [name for name in dict.fromkeys(names) if any(name in one.summaries.metrics for one in results)]


def asked_for(results: Sequence[Result]) -> set[str]:
    """Return the objectives, the judged metrics, and those in an overridden ``headline`` or ``answer_headline``."""
    config, typed = results[0].run.config, {override.partition("=")[0] for override in results[0].run.overrides}
    headlines = [config.get(key) or () for key in typed & {"headline", "answer_headline"}]
    return set(objectives(config)).union(*headlines, *map(judged_metrics, results))


def applicable(names: Sequence[str], results: Sequence[Result]) -> list[str]:
    """Return the metrics that have a target, are in `asked_for`, or apply to a question (even if its score failed)."""
    kept = asked_for(results) | {target.metric for one in results for target in one.summaries.targets}

    def applies(name: str) -> bool:
        found = [one.summaries.metrics[name] for one in results if name in one.summaries.metrics]
        left = (one.n_total - sum(n for why, n in one.reasons.items() if why in INAPPLICABLE) for one in found)
        return not found or any(left)

    return [name for name in names if name in kept or applies(name)]


def partial_note(result: Result) -> str:
    """Describe why a result is PARTIAL, and the remedy.

    The description names the metric with the lowest coverage, the reasons why scores are missing, and the range in
    which the metric lies.
    """
    least = result.run.config.get("coverage", 1.0)
    below = below_coverage(result)
    worst = min(below, key=lambda one: one.coverage)
    why = ", ".join(f"{count:,} {reason}" for reason, count in worst.reasons.items() if failed(reason))
    low, high = (number(bound, worst.unit) for bound in (worst.low_bound, worst.high_bound))
    bounds = f", so the value is between {low} and {high}" if math.isfinite(worst.low_bound + worst.high_bound) else ""
    others = f"; too few scores for {counted(len(below) - 1, 'other metric')} as well" if len(below) > 1 else ""
    # with enough digits to show that the coverage is less than required
    written = (f"{100 * worst.coverage:.{digits}g}" for digits in range(3, 17))
    percent = next((one for one in written if float(one) < 100 * least), f"{100 * worst.coverage}")
    share = f"{percent} % of its questions ({why})"
    fact = f"{worst.name} is known for {share}, less than coverage={least:g}{bounds}{others}"
    reasons = (reason for one in below for reason in one.reasons)
    return f"{fact}; {remedy(reasons, result.questions.get('answer_failed', ()), worst.coverage)}"


def target_numbers(result: Result, target: TargetResult) -> tuple[str, str, str]:
    """Format the value, threshold and ideal of a target in the unit of its metric. A missing ideal is ""."""
    summary = result.summaries.metrics.get(target.metric)
    unit = summary.unit if summary else ""
    ideal = "" if target.ideal is None else number(target.ideal, unit)
    return number(target.value, unit), number(target.threshold, unit), ideal


def moment(at: float) -> str:
    """Format seconds since the epoch as local date and time: 2026-05-01 14:30."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def evidence_note(*datasets: DatasetFacts) -> str:
    """Describe how many questions have evidence, are unanswerable, and were left out for each reason.

    Counts that differ between the datasets are given as ranges; differing counts of left-out questions are omitted.
    """
    first, *rest = datasets
    left_out = "".join(
        f"; {count:,} left out: {reason}"
        for reason, count in first.left_out.items()
        if all(one.left_out.get(reason) == count for one in rest)
    )
    questions = counts_range(one.questions for one in datasets)
    needed = " (for recall, nDCG)" if any(one.with_evidence < one.questions for one in datasets) else ""
    having = counts_range(one.with_evidence for one in datasets)
    unanswerable = counts_range(one.unanswerable for one in datasets)
    without = f"; {unanswerable} unanswerable (for refusals)" if unanswerable != "0" else ""
    return f"{having} of {questions} questions {'has' if having == '1' else 'have'} evidence{needed}{without}{left_out}"


def counts_range(counts: Iterable[int]) -> str:
    """Format the range of some counts: ``20 to 1,040``, or ``20`` if all are equal."""
    known = sorted(set(counts))
    return " to ".join(f"{count:,}" for count in dict.fromkeys((known[0], known[-1])))


def weighted_note(result: Result, among: Collection[str] | None = None) -> str:
    """Describe the weights of the questions, or only of those with an id in ``among``; "" if the weights are equal."""
    weights = list(result.questions.get(WEIGHT) or ())
    if among is not None:
        named = zip(map(str, result.questions["question_id"]), weights, strict=False)
        weights = [weight for name, weight in named if name in among]
    return describe_weights(weights) if len(set(weights)) > 1 else ""


def reranking_note(result: Result, headline: Sequence[str]) -> str:
    """Describe the effect of reranking: a metric before reranking, how evidence moved, and quantiles of scores."""
    facts = result.summaries.reranking
    name = next((name for name in headline if name in result.summaries.first_stage), None)
    before = "" if name is None else f"{name} {cell(result.summaries.first_stage[name])} before; "
    moves = {"up": "moved up", "down": "moved down", "lost": "were lost"}
    quantiles = {"score_p5": "5 %", "score_p50": "median", "score_p95": "95 %"}
    moved = [f"{percentage(facts[key])} {words}" for key, words in moves.items() if math.isfinite(facts[key])]
    scores = [f"{words} {facts[key]:.3g}" for key, words in quantiles.items() if math.isfinite(facts[key])]
    return (
        f"{before}of {facts['evidences']:.0f} pieces of evidence, {', '.join(moved) or 'none was found'};"
        f" scores {', '.join(scores) or NOT_MEASURED}"
    )


def results_json(
    results: Sequence[Result],
    failures: Sequence[Failure],
    sweep: Mapping[str, Any],
    result: Mapping[str, Any] | None = None,
) -> bytes:
    """Return all measurements, except the tables of questions, as strict JSON: NaN and infinity become null.

    ``sweep`` describes the whole sweep. ``result`` is its conclusion, or None if there is none.
    """
    document = {
        "format": RESULTS_FORMAT,
        "result": result,
        "sweep": dict(sweep),
        "configs": [_config(result) for result in results],
        "failures": [vars(failure) for failure in failures],
    }
    return to_json(document, indent=None).encode("utf-8", "replace")


def results_csv(results: Sequence[Result], failures: Sequence[Failure] = ()) -> bytes:
    """Return a CSV file with one line per config: swept parameters as ``params.<name>``, and five columns per metric.

    The columns of a metric are ``<name>``, ``<name>_low``, ``<name>_high``, ``<name>_n_scored``, ``<name>_n_failed``;
    they are empty for a config without the metric. The column ``weighted`` describes the weights of the questions; it
    is absent if no config has weighted questions.
    """
    runs: list[Run | Failure] = [*(result.run for result in results), *failures]
    known = [run.parameters for run in runs if run.parameters]  # unknown for a config whose process died
    names = dict.fromkeys(name for parameters in known for name in parameters)
    swept = [name for name in names if len({parameters.get(name) for parameters in known}) > 1]
    notes = [*map(weighted_note, results), *([""] * len(failures))]
    lines = [_line(run, note, swept) for run, note in zip(runs, notes, strict=True)]
    metrics = dict.fromkeys(name for result in results for name in result.summaries.metrics)
    for line, result in zip(lines, results, strict=False):
        for name in metrics:
            if summary := result.summaries.metrics.get(name):
                line.update(_columns(name, summary))
    columns = list(dict.fromkeys(column for line in lines for column in line))
    return csv_table(columns, [[line.get(column, "") for column in columns] for line in lines])


def _config(result: Result) -> dict[str, Any]:
    """Return one result in JSON types, without the table of questions, which is a separate file."""
    run = {name: value for name, value in vars(result.run).items() if name not in ("addresses", "metric_versions")}
    groups = {
        label: {value: _summaries(part) for value, part in of.items()} for label, of in result.summaries.groups.items()
    }
    return {
        **run,
        **vars(result.summaries),
        **{"evidence_runs": {}, "evidence_qrels": {}, "traces": []},  # keys of format 1, always empty in stored results
        "weighted": weighted_note(result),
        "dataset": {name: value for name, value in vars(result.run.dataset).items() if name != "held"},
        "metrics": _summaries(result.summaries.metrics),
        "groups": groups,
        "first_stage": _summaries(result.summaries.first_stage),
        "targets": [vars(target) for target in result.summaries.targets],
    }


def _summaries(summaries: Mapping[str, Summary]) -> dict[str, Any]:
    return {
        name: {key: value for key, value in vars(summary).items() if key != "name"}
        for name, summary in summaries.items()
    }


def _strict(value: Any) -> Any:
    """Convert a value to JSON types: NaN and infinity to None, numpy numbers to Python's, other types to strings."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    return _strict(value.item()) if hasattr(value, "item") else str(value)


def _line(run: Run | Failure, weights: str, swept: Sequence[str]) -> dict[str, Any]:
    line: dict[str, Any] = {"config": run.name}
    if isinstance(run, Run):
        status = "finished" if run.state == COMPLETE else run.state.lower()
        line |= {"status": status, "error": "", "signature": run.signature}
        line |= {"dataset": run.dataset.name, "n_questions": run.dataset.questions}
        line |= {"weighted": weights} if weights else {}
    else:
        line |= {"status": "failed", "error": run.error, "signature": "", "dataset": "", "n_questions": ""}
    return {**line, **{f"params.{name}": run.parameters.get(name, "") for name in swept}}


def _columns(name: str, summary: Summary) -> dict[str, Any]:
    numbers = {"": summary.value, "_low": summary.low, "_high": summary.high}
    return {
        **{name + suffix: repr(float(value)) if math.isfinite(value) else "" for suffix, value in numbers.items()},
        f"{name}_n_scored": summary.n_scored,
        f"{name}_n_failed": summary.n_failed,
    }


def count_scored(results: Sequence[Result], label: str, metric: str) -> dict[str, int]:
    """Map label values to their numbers of scored questions; if configs differ, the largest number counts."""
    sizes: dict[str, int] = {}
    for result in results:
        for value, summaries in result.summaries.groups.get(label, {}).items():
            if metric in summaries:
                sizes[value] = max(sizes.get(value, 0), summaries[metric].n_scored)
    return sizes


def goodness(summary: Summary | None) -> float:
    """Return the value of a metric, negated if lower is better; NaN if there is no value."""
    return math.nan if summary is None else summary.value * (-1 if summary.higher_is_better is False else 1)


def rank_results(results: Sequence[Result], metric: str) -> list[Result]:
    """Order configs by a metric, best first; configs without a value come last."""
    values = [goodness(result.summaries.metrics.get(metric)) for result in results]
    order = sorted(range(len(results)), key=lambda n: math.inf if math.isnan(values[n]) else -values[n])
    return [results[n] for n in order]
