"""The page that compares sweeps over time: golden sets, the best config of each sweep, and the changes between them."""

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ragsweep.report.document import Block, Charts, Document, Section, Table
from ragsweep.report.numbers import cell
from ragsweep.report.page import charts
from ragsweep.report.sweep_report import RecordedSweep
from ragsweep.stats.comparable import factors

FORMAT = "ragsweep.history/1"
SHOWN = 8
"""Number of characters of a digest that are shown."""

NOTE = (
    "The best config of each sweep by its mean; bars are 95 % intervals. The best of several configs looks better"
    " than it is, and two sweeps may have been run on different documents."
)
CHANGED = "What differs between the best config of a sweep and that of the sweep before it, on the same questions."


def history_document(sweeps: Sequence[RecordedSweep]) -> Document:
    """Build the document of the page that compares sweeps over time; ``sweeps`` must be sorted, oldest first."""
    asked: dict[tuple[str, str, str], list[RecordedSweep]] = {}
    for one in sweeps:
        asked.setdefault(one.questions, []).append(one)
    latest_first = sorted(asked.values(), key=lambda group: -group[-1].past.created)
    sections = [Section([_golden_sets(sweeps)], "Golden sets", "golden")]
    sections += [Section([*_group(group)], _title(group[-1]), f"history-{n}") for n, group in enumerate(latest_first)]
    return Document("Sweeps over time", sections, {"format": FORMAT})


def _title(one: RecordedSweep) -> str:
    dataset = one.best.run.dataset
    part = "" if dataset.partition == "all" else f", {dataset.partition}"
    return f"{dataset.name} {dataset.undivided[:SHOWN]}{part}: {one.past.summary.name}"


def _golden_sets(sweeps: Sequence[RecordedSweep]) -> Block:
    """Make the table of golden sets, the most recently used first."""
    asked: dict[tuple[str, str], list[RecordedSweep]] = {}
    for one in sweeps:
        asked.setdefault(one.questions[:2], []).append(one)
    rows = []
    for group in sorted(asked.values(), key=lambda group: -group[-1].past.created):
        dataset = group[-1].best.run.dataset
        corpora = {one.best.run.dataset.corpus_digest for one in group}
        counts = [f"{count:,}" for count in (dataset.questions, dataset.with_evidence, len(corpora))]
        names = [dataset.name, dataset.undivided[:SHOWN], dataset.partition]
        rows.append([*names, *counts, _when(group[0]), _when(group[-1]), f"{len(group):,}"])
    counted = [">questions", ">with evidence", ">versions of the corpus"]
    header = ["golden set", "digest", "partition", *counted, "first", "last", ">sweeps"]
    return Table(header, rows, "Editing a question, a label or a weight changes the digest.")


def _group(group: Sequence[RecordedSweep]) -> Iterator[Block]:
    """Yield a chart of several sweeps on the same questions, and a table of the sweeps, latest first."""
    metric = group[0].past.summary.name
    if len(group) > 1:
        yield Charts([{"label": "", "figure": charts.history([one.past for one in group], metric)}], NOTE)
    changes = ["", *(_changes(before, after) for before, after in pairwise(group))]
    rows = [
        [
            one.past.reference,
            _when(one),
            _week(one),
            one.past.title,
            f"{one.past.configs:,}",
            one.past.best,
            cell(one.past.summary),
            changed,
        ]
        for one, changed in zip(group, changes, strict=True)
    ]
    header = ["sweep", "when", "week", "swept", ">configs", "best", f">{metric}", "changed"]
    yield Table(header, rows[::-1], CHANGED)


def _changes(before: RecordedSweep, after: RecordedSweep) -> str:
    """List the differences between the best configs of two sweeps, and whether they use the same documents."""
    old, new = before.best, after.best
    corpus = [] if old.run.dataset.corpus_digest == new.run.dataset.corpus_digest else ["other documents"]
    return "; ".join([*corpus, *map(str, factors(old, new))]) or "nothing"


def _when(one: RecordedSweep) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(one.past.created))


def _week(one: RecordedSweep) -> str:
    """Return the ISO week: ``2026-W48``."""
    return time.strftime("%G-W%V", time.localtime(one.past.created))
