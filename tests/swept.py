"""What a sweep on several machines has left in the command's ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
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
    found = results(folder)
    return Ended({f"{number} {one.name}": scores(one) for number, one in enumerate(found)}, executed(found))


def results(folder: Path) -> list[Result]:
    """Read the results of the one sweep in a folder."""
    ledger = Ledger(folder / ".ragsweep")
    (sweep,) = ledger.sweeps()
    found = []
    for record in ledger.records(sweep.id):
        assert isinstance(record.outcome, Result), record.outcome
        found.append(record.outcome)
    return found


def scores(result: Result) -> dict[str, float]:
    """Return what was measured, but for times."""
    return {name: one.value for name, one in result.summaries.items() if one.n_scored and "latency" not in name}


def executed(found: Iterable[Result]) -> Counter[str]:
    """Count how often each stored stage was computed; a latency of a busy machine may be measured again."""
    counts: Counter[str] = Counter()
    for result in found:
        stages = result.stages.items()
        counts.update({stage: int(work["executed"]) for stage, work in stages if stage not in ("context", "latency")})
    return +counts
