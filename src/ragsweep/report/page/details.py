"""The details at the end of the page: targets, coverage, latency, and where all this comes from."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from ragsweep.core.results import Result
from ragsweep.report.numbers import NOT_MEASURED, duration, number
from ragsweep.report.page.items import Item, make_table


def targets(chosen: Sequence[Result]) -> Iterator[Item]:
    """Yield which config meets which target."""
    judged = [one for one in chosen if one.targets]
    if not judged:
        return
    rows = []
    for target in judged[0].targets:
        found = [next((t for t in one.targets if t.metric == target.metric), None) for one in judged]
        rows.append([target.metric, number(target.threshold) if math.isfinite(target.threshold) else NOT_MEASURED,
                     *(_target(one.verdict, one.value) if one else NOT_MEASURED for one in found)])  # fmt: skip
    yield make_table(["metric", ">target", *(one.name for one in judged)], rows, "", "Targets")


def coverage(results: Sequence[Result], names: Sequence[str]) -> Iterator[Item]:
    """Yield how many questions each metric scored, and why not the others."""
    counts: Counter[tuple[str, int, int, int, str]] = Counter()
    for result in results:
        for summary in (result.summaries[name] for name in names if name in result.summaries):
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(summary.reasons.items()))
            counts[summary.name, summary.n_scored, summary.n_skipped, summary.n_failed, reasons] += 1
    rows = [[name, f"{configs:,}", f"{scored:,}", f"{skipped:,}", f"{failed:,}", reasons]
            for (name, scored, skipped, failed, reasons), configs in counts.items()]  # fmt: skip
    if rows:
        header = ["metric", ">configs", ">scored", ">skipped", ">failed", "why not scored"]
        yield make_table(header, rows, "Questions by metric.", "Coverage")


def latency(chosen: Sequence[Result]) -> Iterator[Item]:
    """Yield how long each stage takes."""
    rows = [[one.name, stage, number(found["p50_ms"], "ms"), number(found["p95_ms"], "ms")]
            for one in chosen for stage, found in one.latency.items()]  # fmt: skip
    if rows:
        note = "Milliseconds of one warm question at a time."
        yield make_table(["config", "stage", ">median", ">p95"], rows, note, "Latency by stage")


def environment(results: Sequence[Result]) -> Iterator[Item]:
    """Yield where all this comes from."""
    if not results:
        return
    dataset = results[0].dataset
    seconds = max(one.ended for one in results) - min(one.started for one in results)
    facts = [("Corpus", dataset.corpus_digest), ("Golden set", dataset.golden_digest)]
    facts += [("Partition", f"{dataset.partition} {dataset.partition_digest}")] if dataset.partition_digest else []
    facts += [("Sweep took", duration(seconds))] if seconds > 0 else []
    facts.append(("Page written by", f"ragsweep {version('ragsweep')}, Python {platform.python_version()}"))
    yield {"kind": "facts", "title": "Environment", "rows": facts}


def _target(verdict: str, value: float) -> str:
    return f"{number(value)} {verdict}" if math.isfinite(value) else verdict
