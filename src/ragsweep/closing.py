"""What is said and kept of a sweep when it ends, is shown again, or is sent to a tracker later: always the same."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragsweep.calls.spending import spending
from ragsweep.gap import Gap, holdout_gap
from ragsweep.ledger import Ledger, Record
from ragsweep.partition import HOLDOUT
from ragsweep.report import artifacts
from ragsweep.report.race import race_facts, race_lines, race_numbers
from ragsweep.report.tables import headline
from ragsweep.report.verdict import gap_line, looks_line, sentence, verdict_lines
from ragsweep.report.verdict_files import numbers
from ragsweep.results import DROPPED, Failure, Result
from ragsweep.terminal import Terminal
from ragsweep.verdict import Unweighed, Verdict, weigh

VERDICT_TAG = "ragsweep.verdict"


@dataclass(frozen=True)
class Parent:
    """What the parent run of a sweep holds."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ending:
    """All that came of a sweep, and what follows from it."""

    results: Sequence[Result]
    failures: Sequence[Failure]
    looks: int = 0  # how often the holdout of these questions was looked at
    verdict: Verdict | Unweighed | None = None  # None where nothing was measured, or the sweep was broken off
    gap: Gap | None = None  # where the holdout was looked at, and the same configs were measured on tune

    def show(self, terminal: Terminal) -> None:
        """Print the comparison, what failed, what a race has saved, and the verdict."""
        shown = [one for one in self.results if one.state != DROPPED]
        terminal.comparison(shown, headline(shown))
        terminal.failures(self.failures)
        terminal.lines(race_lines(self.results, spending.currency))
        if self.verdict is not None:
            terminal.lines(verdict_lines(self.verdict))
        terminal.lines(gap_line(self.gap))
        held = sum(one.dataset.partition == HOLDOUT for one in self.results)
        terminal.lines(looks_line(self.looks, held))

    def parent(self, name: str) -> Parent:
        """Make what the parent run holds."""
        facts = {"name": name, "holdout_looks": self.looks, "gap": self.gap and self.gap._asdict()}
        facts |= race_facts(self.results)
        files = artifacts(facts, self.results, self.failures, headline(self.results), self.verdict)
        if self.verdict is None:
            return Parent(files)
        metrics = numbers(self.verdict) if isinstance(self.verdict, Verdict) else {}
        metrics |= {"verdict/holdout_gap": self.gap.change} if self.gap else {}
        metrics |= race_numbers(self.results)
        return Parent(files, metrics, {VERDICT_TAG: sentence(self.verdict)})


def ending(ledger: Ledger, records: Sequence[Record], missed: Sequence[Failure] = (), weighed: bool = True) -> Ending:
    """Sum up the records of a sweep, and the jobs that left none; ``weighed``: with a verdict."""
    results = [record.outcome for record in records if isinstance(record.outcome, Result)]
    failures = [*(record.outcome for record in records if isinstance(record.outcome, Failure)), *missed]
    verdict = _weighed(results, failures) if weighed and results else None
    seen = looks(ledger, results[0]) if results else 0
    whole = [one for one in results if one.state != DROPPED]
    return Ending(results, failures, seen, verdict, _gap(ledger, whole, verdict))


def _gap(ledger: Ledger, results: Sequence[Result], verdict: Verdict | Unweighed | None) -> Gap | None:
    if verdict is None or any(one.dataset.partition != HOLDOUT for one in results):
        return None
    metric = verdict.metric if isinstance(verdict, Verdict) else str(results[0].config.get("objective"))
    tuned = [record.outcome for record in ledger.tuned(results[0].dataset.undivided)]
    return holdout_gap(results, [one for one in tuned if isinstance(one, Result)], metric)


def looks(ledger: Ledger, result: Result) -> int:
    """Count how often the holdout of a result's questions was looked at."""
    return ledger.looks(result.dataset.undivided)


def _weighed(results: Sequence[Result], failures: Sequence[Failure]) -> Verdict | Unweighed:
    try:
        return weigh(results, failures)
    except Exception as fault:  # what was measured must be shown and kept, whatever is wrong with the conclusions
        logging.getLogger(__name__).exception("no verdict")
        return Unweighed(f"could not be made: {type(fault).__name__}: {fault}; please report it, with the job's log")
