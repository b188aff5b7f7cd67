"""The details at the end of the page: histograms, targets, coverage, latency, and provenance."""

import math
import platform
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from itertools import accumulate, starmap
from typing import Any

import numpy as np

from ragsweep.core.question_results import Doubles, QuestionResults
from ragsweep.core.results import Result, TargetResult
from ragsweep.report.document import Block, Charts, Statement, Statements, Table
from ragsweep.report.numbers import NOT_MEASURED, duration, number
from ragsweep.report.page.figures import ACCENT, INK, MUTED, Figure, as_list, titled
from ragsweep.report.tables import target_numbers
from ragsweep.stats.latencies import CALLED, busy_sentence


def targets(chosen: Sequence[Result], omission: str) -> Iterator[Block]:
    """Yield a table of the targets, with each config's value and verdict; nothing if there are no targets.

    ``omission`` is a sentence on configs that were not chosen, or "".
    """
    judged = [one for one in chosen if one.summaries.targets]
    if not judged:
        return
    rows = []
    for name in dict.fromkeys(target.metric for one in judged for target in one.summaries.targets):
        found = [next((target for target in one.summaries.targets if target.metric == name), None) for one in judged]
        rows.append([name, *starmap(_target, zip(judged, found, strict=True))])
    note = "After each value: whether it meets the target and, if there is an ideal, whether it reaches the ideal."
    note += omission
    yield Table(["metric", *(one.name for one in judged)], rows, note, "Targets")


def coverage(results: Sequence[Result], names: Sequence[str]) -> Iterator[Block]:
    """Yield a table that counts the scored, skipped and failed questions of each metric in ``names``, with reasons."""
    counts: Counter[tuple[str, int, int, int, str]] = Counter()
    for result in results:
        for summary in (result.summaries.metrics[name] for name in names if name in result.summaries.metrics):
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(summary.reasons.items()))
            counts[summary.name, summary.n_scored, summary.n_skipped, summary.n_failed, reasons] += 1
    rows = [
        [name, f"{configs:,}", f"{scored:,}", f"{skipped:,}", f"{failed:,}", reasons]
        for (name, scored, skipped, failed, reasons), configs in counts.items()
    ]
    if rows:
        header = ["metric", ">configs", ">scored", ">skipped", ">failed", "why not scored"]
        yield Table(header, rows, "Number of questions by metric.", "Coverage")


def latency(chosen: Sequence[Result], omission: str) -> Iterator[Block]:
    """Yield a table of the median and 95th-percentile latency of each stage; nothing if none was measured.

    ``omission`` is as in `targets`.
    """
    rows = [
        [one.name, stage, number(found["p50_ms"], "ms"), number(found["p95_ms"], "ms")]
        for one in chosen
        for stage, found in one.summaries.latency.items()
    ]
    if rows:
        facts = ["Milliseconds per question, one at a time, after a warm-up."]
        if any(CALLED & one.summaries.latency.keys() for one in chosen):
            facts.append(
                "Times of generate and query are from the original calls, which may have run concurrently or elsewhere."
            )
        if busy := busy_sentence(chosen, "Latency"):
            facts.append(f"{busy}.")
        note = " ".join(facts) + omission
        yield Table(["config", "stage", ">median", ">p95"], rows, note, "Latency by stage")


def environment(results: Sequence[Result]) -> Iterator[Block]:
    """Yield the digests of the data, the duration of the sweep and the software versions, if there are results.

    The duration is the time during which any config was being evaluated, because a sweep may be interrupted.
    """
    if not results:
        return
    dataset = results[0].run.dataset
    spans = sorted((one.run.started, one.run.ended) for one in results)
    ends = accumulate((end for _, end in spans), max, initial=-math.inf)  # latest end of all earlier configs
    seconds = sum(max(end - max(start, before), 0.0) for (start, end), before in zip(spans, ends, strict=False))
    corpora = dict.fromkeys(one.run.dataset.corpus_digest for one in results)
    golden_sets = dict.fromkeys(one.run.dataset.golden_digest for one in results)
    facts = [("Corpus", ", ".join(corpora)), ("Golden set", ", ".join(golden_sets))]
    facts += [("Partition", f"{dataset.partition} {dataset.partition_digest}")] if dataset.partition_digest else []
    facts += [("Sweep took", duration(seconds))] if seconds > 0 else []
    facts.append(("Page written by", f"ragsweep {version('ragsweep')}, Python {platform.python_version()}"))
    yield Statements([*starmap(Statement, facts)], title="Environment")


def _target(result: Result, one: TargetResult | None) -> str:
    if one is None:
        return NOT_MEASURED
    if not math.isfinite(one.value):
        return one.verdict
    value, threshold, ideal = target_numbers(result, one)
    text = f"{value} {one.verdict} (target {threshold}"
    return f"{text}, ideal {ideal}{'' if one.ideal_met else ' missed'})" if ideal else f"{text})"


BARS = 24


def histogram_items(chosen: Sequence[Result]) -> Iterator[Block]:
    """Yield histograms of scores and of numbers of results, one per config; equal histograms are shown once.

    A config that returns the same number of results for every question has no histogram of these numbers.
    """
    note = "If questions without evidence have low scores, min_score can remove their chunks."
    columns = ("top_score", "first_evidence_rank", "evidence", "context")
    yield from _charts(chosen, columns, scores_of_first, note, "Scores of the first chunk")
    note = "Scores are on the scale of the retriever or reranker; min_score removes all chunks to its left."
    yield from _charts(chosen, ("context_scores",), scores_of_context, note, "Scores of all chunks of the context")
    note = "The length of each question's ranking."
    varied = [one for one in chosen if len(set(_finite(one.questions, "retrieved").tolist())) > 1]
    yield from _charts(varied, ("retrieved",), numbers_of_results, note, "Numbers of results")


def _charts(
    chosen: Sequence[Result], columns: Sequence[str], draw: Callable[[Result], Figure], note: str, title: str
) -> Iterator[Block]:
    drawn = [
        {"label": one.name, "figure": draw(one)}
        for one in chosen
        if all(name in one.questions for name in columns) and len(_finite(one.questions, columns[0]))
    ]
    distinct = {str(one["figure"]): one for one in reversed(drawn)}
    if distinct:
        yield Charts(list(reversed(distinct.values())), note, title)


def scores_of_first(result: Result) -> Figure:
    """Plot the distribution of the first chunk's score, by whether the context contains the evidence."""
    columns = result.questions
    scores = np.array(columns["top_score"], dtype=np.float64)
    ranks, evidence = np.array(columns["first_evidence_rank"]), np.array(columns["evidence"])
    depth = np.array([len(context or ()) for context in columns["context"]])
    found, missed = (ranks > 0) & (ranks <= depth), (ranks == 0) | (ranks > depth)  # failed questions are in neither
    groups = [
        ("evidence in the context", scores[(evidence > 0) & found], ACCENT),
        ("evidence missed", scores[(evidence > 0) & missed], MUTED),
        ("no evidence exists", scores[evidence == 0], INK),
    ]
    return _histogram(groups, "score of the first chunk", "questions")


def scores_of_context(result: Result) -> Figure:
    """Plot the distribution of the scores of all chunks in contexts; first chunks are a separate group."""
    rows = [row or [] for row in result.questions["context_scores"]]
    first = np.array([row[0] for row in rows if row], dtype=np.float64)
    others = np.array([score for row in rows for score in row[1:]], dtype=np.float64)
    return _histogram([("first chunk", first, ACCENT), ("other chunks", others, MUTED)], "score", "chunks")


def numbers_of_results(result: Result) -> Figure:
    """Plot the distribution of the number of results per question."""
    counts = _finite(result.questions, "retrieved")
    width = math.ceil((counts.max() - counts.min() + 1) / BARS)
    return _histogram([("questions", counts, ACCENT)], "results", "questions", float(width))


def _finite(questions: QuestionResults, column: str) -> Doubles:
    """Return the finite numbers of a column, including the items of lists."""
    values: Sequence[Any] = questions.get(column) or ()
    flat = [item for value in values for item in (value if isinstance(value, list | tuple) else [value])]
    numbers = np.array(flat, dtype=np.float64)
    return numbers[np.isfinite(numbers)]


def _histogram(groups: Sequence[tuple[str, Doubles, str]], title: str, counted: str, width: float = 0.0) -> Figure:
    """Plot groups (name, values, colour) as stacked bars; ``width`` 0 means a width that gives about `BARS` bars."""
    measured = [(name, values[np.isfinite(values)], colour) for name, values, colour in groups]
    known = np.concatenate([values for _, values, _ in measured])
    step = width or float(np.ptp(known)) / BARS or 1.0
    start = float(known.min()) - (0.5 if width else 0.0)  # whole numbers are in the middle of their bars
    look = {"xbins": {"start": start, "end": float(known.max()) + step, "size": step}, "opacity": 0.85}
    traces = [
        {"type": "histogram", "name": name, "x": as_list(values), "marker": {"color": colour}, **look}
        for name, values, colour in measured
        if len(values)
    ]
    axes = {"xaxis": titled(title), "yaxis": titled(counted)}
    return {"data": traces, "layout": {"barmode": "stack", "showlegend": len(traces) > 1, "height": 320, **axes}}
