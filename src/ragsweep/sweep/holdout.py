"""Evaluate the finalists of a search on the holdout, once the search has ended."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence

from ragsweep.core.results import PARTIAL, Result
from ragsweep.golden.partition import HOLDOUT
from ragsweep.records.claims import FINALIST
from ragsweep.records.ledger import Sweep
from ragsweep.report.tables import headline
from ragsweep.sweep.closing import summarise_sweep
from ragsweep.sweep.command import Command, compose_jobs
from ragsweep.sweep.compose import JobConfig
from ragsweep.sweep.finalists import SUFFIX
from ragsweep.sweep.jobs import attempt
from ragsweep.sweep.recording import OutcomeWriter
from ragsweep.sweep.session import Job, RunContext


@dataclasses.dataclass(frozen=True)
class HoldoutEvaluation:
    """The evaluation of a search's finalists, one after the other in this process."""

    command: Command
    context: RunContext

    def run(self, sweep: Sweep, most: int) -> None:
        """Evaluate the finalists that were not evaluated yet; one that fails is recorded, and stops no other."""
        context, chosen = self.context, self._finalists(sweep, most)
        numbers = self._numbers(sweep, chosen)
        for position, (result, config) in enumerate(zip(chosen, self._compose(chosen), strict=True)):
            number = numbers[result.name]
            if context.ledger.claims.claim_job(sweep.id, number, FINALIST) is None:
                writer = OutcomeWriter(
                    context.ledger, context.tracker, sweep, number, FINALIST, (position, len(chosen)),
                    secrets=context.secrets,
                )  # fmt: skip
                self._evaluate(result, config, writer)

    def is_done(self, sweep: Sweep, most: int) -> bool:
        """Return whether all finalists are evaluated."""
        finals = [record.outcome for record in self.context.ledger.finalists(sweep.id)]
        complete = {one.name for one in finals if isinstance(one, Result) and one.state != PARTIAL}
        return all(result.name + SUFFIX in complete for result in self._finalists(sweep, most))

    def _finalists(self, sweep: Sweep, most: int) -> list[Result]:
        return summarise_sweep(self.context.ledger, self.context.ledger.records(sweep.id)).contenders(most)

    def _numbers(self, sweep: Sweep, chosen: Sequence[Result]) -> dict[str, int]:
        """Number the finalists' jobs; those of an earlier attempt or choice keep theirs."""
        finals = self.context.ledger.finalists(sweep.id)
        found = {record.outcome.name.removesuffix(SUFFIX): record.job for record in finals}
        first = max(found.values(), default=-1) + 1
        new = [result.name for result in chosen if result.name not in found]
        return found | {name: first + position for position, name in enumerate(new)}

    def _compose(self, chosen: Sequence[Result]) -> list[JobConfig]:
        if not chosen:
            return []
        jobs = tuple(_on_holdout(result.overrides) for result in chosen)
        return compose_jobs(dataclasses.replace(self.command, jobs=jobs, cases={}))

    def _evaluate(self, tuned: Result, config: JobConfig, records: OutcomeWriter) -> None:
        job = Job(config, tuned.name + SUFFIX, _on_holdout(tuned.overrides), records.number)
        try:
            result = attempt(self.context, job, records)
        except Exception as fault:  # recorded by attempt
            logging.getLogger(__name__).debug("a finalist failed", exc_info=fault)
            return
        records.keep(result, self.context.terminal, headline([result]))


def _on_holdout(overrides: Sequence[str]) -> tuple[str, ...]:
    return (*(line for line in overrides if not line.startswith("partition=")), f"partition={HOLDOUT}")
