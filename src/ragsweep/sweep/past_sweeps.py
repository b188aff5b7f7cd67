"""The best config of each recorded sweep on the same questions."""

from __future__ import annotations

import math

from ragsweep.core.results import DatasetFacts, Summary
from ragsweep.records.ledger import Ledger
from ragsweep.report.naming import number_configs
from ragsweep.report.page import PastSweep
from ragsweep.sweep.command import reference, sweep_title

MOST_PAST = 50
"""Sweeps in the history of a page."""


def goodness(summary: Summary) -> float:
    """Return the value of a metric, with its sign changed where less is better."""
    return summary.value * (-1 if summary.higher_is_better is False else 1)


def past_sweeps(ledger: Ledger, until: str, facts: DatasetFacts, metric: str) -> list[PastSweep]:
    """List the best config of each sweep on these questions, the oldest first, up to one sweep."""
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
