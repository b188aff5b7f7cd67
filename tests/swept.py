"""What a sweep on several machines has left in the command's ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ragsweep.core.results import Result
from ragsweep.records.ledger import Ledger


@dataclass(frozen=True)
class Ended:
    """What a sweep left: scores by config, and how often each stored stage was computed."""

    scores: Mapping[str, Mapping[str, float]]
    executed: Counter[str]


def ended(folder: Path) -> Ended:
    ledger = Ledger(folder / ".ragsweep")
    (sweep,) = ledger.sweeps()
    results = [record.outcome for record in ledger.records(sweep.id)]
    executed: Counter[str] = Counter()
    scores = {}
    for number, result in enumerate(results):
        assert isinstance(result, Result), result
        scores[f"{number} {result.name}"] = {
            name: one.value for name, one in result.summaries.items() if one.n_scored and "latency" not in name
        }
        executed.update({stage: int(work["executed"]) for stage, work in result.stages.items() if stage != "context"})
    return Ended(scores, +executed)
