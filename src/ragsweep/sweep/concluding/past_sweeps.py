"""The best config of each recorded sweep."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragsweep.core.results import COMPLETE, DatasetFacts, Result, Summary, objectives
from ragsweep.report.naming import number_configs
from ragsweep.report.page_texts import PastSweep
from ragsweep.report.tables import goodness
from ragsweep.stats.context_effect import refuses_all
from ragsweep.sweep.composing.sweep_names import reference, sweep_title

if TYPE_CHECKING:
    from ragsweep.records.ledger import Ledger, Record

MOST_PAST = 50
"""Maximum number of sweeps in a page's history."""


def past_sweeps(ledger: Ledger, until: str, facts: DatasetFacts, metric: str) -> list[PastSweep]:
    """List the sweeps on these questions, from the oldest to the latest, each with its best config by a metric.

    Sweeps without a value of the metric are left out. ``until`` is the id of the last sweep considered. At most the
    last `MOST_PAST` sweeps are listed.
    """
    found, past = ledger.summaries(facts.undivided, facts.partition, metric), []
    for sweep in ledger.sweeps():
        known = {job: one for job, one in found.get(sweep.id, {}).items() if math.isfinite(one[1].value)}
        if known:
            best = max(known, key=lambda job: goodness(known[job][1]))
            name = number_configs({job: label for job, (label, _) in known.items()})[best]
            title, value = sweep_title(sweep), known[best][1]
            past.append(PastSweep(reference(sweep), title, sweep.created, len(known), name, value))
        if sweep.id == until:
            break
    return past[-MOST_PAST:]


def best_of(records: Sequence[Record]) -> tuple[str, Result, Summary] | None:
    """Return a sweep's best config by its first objective: the numbered name, the result and the objective's summary.

    Configs that are PARTIAL or were dropped by a race are ignored. Configs that refuse every answerable question count
    only if there are no others. Returns None if no config remains.
    """
    names = number_configs({record.job: record.outcome.name for record in records})
    valued = [
        (names[record.job], record.outcome, record.outcome.summaries.metrics[metric])
        for record in records
        if isinstance(record.outcome, Result) and record.outcome.run.state == COMPLETE
        for metric in objectives(record.outcome.run.config)[:1]
        if metric in record.outcome.summaries.metrics and math.isfinite(record.outcome.summaries.metrics[metric].value)
    ]
    answering = [one for one in valued if not refuses_all(one[1])]
    return max(answering or valued, key=lambda one: goodness(one[2]), default=None)


def recorded_sweeps(ledger: Ledger) -> Iterator[tuple[PastSweep, Result]]:
    """Yield each sweep that has a best config (see `best_of`), and that config's result, from the oldest sweep on."""
    for sweep in ledger.sweeps():
        records = ledger.records(sweep.id)
        if best := best_of(records):
            name, result, summary = best
            measured = sum(isinstance(record.outcome, Result) for record in records)
            yield PastSweep(reference(sweep), sweep_title(sweep), sweep.created, measured, name, summary), result
