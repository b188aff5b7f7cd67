"""The records of a running sweep for its race."""

from dataclasses import dataclass

from ragsweep.core.results import Result
from ragsweep.sweep.running.context import RunContext
from ragsweep.sweep.running.recording import OutcomeWriter


@dataclass(frozen=True)
class LedgerRace:
    """The records of a race in the ledger (see sweep_race.RaceRecords)."""

    context: RunContext

    def results(self) -> dict[int, Result]:
        """Read the latest result of each config that has one, by job number."""
        assert self.context.sweep
        records = self.context.ledger.raced(self.context.sweep.id)
        return {record.job: record.outcome for record in records if isinstance(record.outcome, Result)}

    def drop(self, job: int, result: Result) -> None:
        """Record the scores of a dropped config."""
        OutcomeWriter(self.context, job).keep_dropped(result)

    def end(self) -> None:
        """Free the storage of earlier rungs."""
        self.context.ledger.drop_unused()

    def report(self, text: str) -> None:
        """Print a line of progress."""
        self.context.terminal.line("race", text)
