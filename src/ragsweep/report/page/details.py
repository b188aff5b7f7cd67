"""The details at the end of the page: targets, coverage, latency, and provenance."""

import math
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import starmap

from ragsweep.core.results import Result, TargetResult
from ragsweep.report.document import Block, Statement, Statements, Table
from ragsweep.report.numbers import NOT_MEASURED, duration, number
from ragsweep.stats.latencies import busy_sentence


def targets(chosen: Sequence[Result]) -> Iterator[Block]:
    """Yield a table of the targets, with each config's value and verdict; nothing without targets."""
    judged = [one for one in chosen if one.summaries.targets]
    if not judged:
        return
    rows = []
    for target in judged[0].summaries.targets:
        found = [next((t for t in one.summaries.targets if t.metric == target.metric), None) for one in judged]
        rows.append([target.metric, *(_target(one) if one else NOT_MEASURED for one in found)])
    note = "Behind each value: whether it meets the target, and whether it reaches the ideal, where there is one."
    yield Table(["metric", *(one.name for one in judged)], rows, note, "Targets")


def coverage(results: Sequence[Result], names: Sequence[str]) -> Iterator[Block]:
    """Yield a table of the scored, skipped and failed questions of the metrics ``names``, with the reasons."""
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
        yield Table(header, rows, "Questions by metric.", "Coverage")


def latency(chosen: Sequence[Result]) -> Iterator[Block]:
    """Yield a table of the median and 95th-percentile latency of each stage; nothing if none was measured."""
    rows = [
        [one.name, stage, number(found["p50_ms"], "ms"), number(found["p95_ms"], "ms")]
        for one in chosen
        for stage, found in one.summaries.latency.items()
    ]
    if rows:
        busy = busy_sentence(chosen, "Latency")
        note = f"Milliseconds of one warm question at a time.{f' {busy}.' if busy else ''}"
        yield Table(["config", "stage", ">median", ">p95"], rows, note, "Latency by stage")


def environment(results: Sequence[Result]) -> Iterator[Block]:
    """Yield the digests of the data, the duration of the sweep and the software versions; nothing without results."""
    if not results:
        return
    dataset = results[0].run.dataset
    seconds = max(one.run.ended for one in results) - min(one.run.started for one in results)
    facts = [("Corpus", dataset.corpus_digest), ("Golden set", dataset.golden_digest)]
    facts += [("Partition", f"{dataset.partition} {dataset.partition_digest}")] if dataset.partition_digest else []
    facts += [("Sweep took", duration(seconds))] if seconds > 0 else []
    facts.append(("Page written by", f"ragsweep {version('ragsweep')}, Python {platform.python_version()}"))
    yield Statements([*starmap(Statement, facts)], title="Environment")


def _target(one: TargetResult) -> str:
    if not math.isfinite(one.value):
        return one.verdict
    text = f"{number(one.value)} {one.verdict} (target {number(one.threshold)}"
    return (
        f"{text})" if one.ideal is None else f"{text}, ideal {number(one.ideal)}{'' if one.ideal_met else ' missed'})"
    )
