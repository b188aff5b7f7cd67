"""Look at the holdout once, when a search has ended: evaluate its finalists, one after the other, in this process."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence

from ragsweep.core.results import PARTIAL, Result
from ragsweep.golden.partition import HOLDOUT
from ragsweep.records.ledger import FINALS, Ledger, Sweep
from ragsweep.report.tables import headline
from ragsweep.sweep.closing import ending
from ragsweep.sweep.command import Command, compose_jobs
from ragsweep.sweep.compose import JobConfig
from ragsweep.sweep.finalists import SUFFIX
from ragsweep.sweep.jobs import attempt
from ragsweep.sweep.recording import Records
from ragsweep.sweep.session import Job, RunContext


@dataclasses.dataclass(frozen=True)
class Looking:
    """The end of a search."""

    command: Command
    context: RunContext

    @property
    def ledger(self) -> Ledger:
        """The ledger of the search."""
        return self.context.ledger

    def look(self, sweep: Sweep, most: int) -> None:
        """Evaluate the finalists that were not evaluated yet; one that fails is written down, and stops no other."""
        chosen = ending(self.ledger, self.ledger.records(sweep.id)).contenders(most)
        numbers = self._numbers(sweep, chosen)
        for place, (result, config) in enumerate(zip(chosen, self._composed(chosen), strict=True)):
            number = numbers[result.name]
            if self.ledger.claim(sweep.id, number) is None:
                context, at = self.context, (place, len(chosen))
                records = Records(self.ledger, context.tracker, sweep, number, at, secrets=context.secrets)
                self._evaluate(result, config, records)

    def done(self, sweep: Sweep, most: int) -> bool:
        """Say whether all finalists are evaluated."""
        chosen = ending(self.ledger, self.ledger.records(sweep.id)).contenders(most)
        whole = {one.outcome.name for one in self.ledger.finals(sweep.id) if _is_whole(one.outcome)}
        return all(result.name + SUFFIX in whole for result in chosen)

    def _numbers(self, sweep: Sweep, chosen: Sequence[Result]) -> dict[str, int]:
        """Number the finalists' jobs: those of an earlier attempt, or of an earlier choice, keep theirs."""
        found = {record.outcome.name.removesuffix(SUFFIX): record.job for record in self.ledger.finals(sweep.id)}
        first = max(found.values(), default=FINALS - 1) + 1
        new = [result.name for result in chosen if result.name not in found]
        return found | {name: first + place for place, name in enumerate(new)}

    def _composed(self, chosen: Sequence[Result]) -> list[JobConfig]:
        if not chosen:
            return []
        jobs = tuple(_on_holdout(result.overrides) for result in chosen)
        return compose_jobs(dataclasses.replace(self.command, jobs=jobs, cases={}))

    def _evaluate(self, tuned: Result, config: JobConfig, records: Records) -> None:
        job = Job(config, tuned.name + SUFFIX, _on_holdout(tuned.overrides), records.number)
        try:
            result = attempt(self.context, job, records)
        except Exception as fault:  # it is written down
            logging.getLogger(__name__).debug("a finalist failed", exc_info=fault)
            return
        records.keep(result, self.context.terminal, headline([result]))


def _on_holdout(overrides: Sequence[str]) -> tuple[str, ...]:
    return (*(line for line in overrides if not line.startswith("partition=")), f"partition={HOLDOUT}")


def _is_whole(outcome: object) -> bool:
    return isinstance(outcome, Result) and outcome.state != PARTIAL
