"""Race jobs: run them rung by rung, drop some after each rung, and run the remaining jobs in full."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from typing import Any, Protocol, TypeVar, runtime_checkable

from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException

Launched = TypeVar("Launched")
"""The type of the jobs that a launcher takes."""

JobOutcome = JobReturn | Exception
"""The result of a job, or the exception that ended the launch of its batch."""

AfterRung = Callable[[int, Mapping[int, JobOutcome], tuple[int, ...]], None]
"""A function called after each rung with the rung's end, the outcomes of its jobs, and the dropped jobs."""


@dataclass(frozen=True)
class Rung:
    """The decision of a race: the end of the next rung, and the jobs to drop."""

    until: int | None  # such as a number of questions; None: the remaining jobs run in full
    dropped: tuple[int, ...] = ()


@runtime_checkable
class Race(Protocol):
    """A rule that decides, after each rung of a race, which jobs are dropped and where the next rung ends."""

    @property
    def key(self) -> str:
        """The config key for the end of a rung, for launchers that start jobs from overrides."""

    def begin(self, jobs: Sequence[int]) -> Rung:
        """Start a race of ``jobs``; return its first rung, with the jobs that were dropped before an interruption."""

    def decide(self, until: int, returned: Mapping[int, Any]) -> Rung:
        """Return the next rung, after the rung that ends at ``until``.

        ``returned`` maps each job that completed this rung to the job's return value.
        """

    def end(self, returned: Mapping[int, Any]) -> None:
        """End the race; ``returned`` maps the jobs that completed their full run to their return values."""


@dataclass(frozen=True)
class RaceResult:
    """The last outcome of each launched job, and the numbers of the dropped jobs."""

    results: dict[int, JobOutcome]
    dropped: frozenset[int]


def check_race(race: Any) -> Race | None:
    """Return ``race`` if it implements `Race` or is None; otherwise raise HydraException."""
    if race is None or isinstance(race, Race):
        return race
    raise HydraException(f"hydra.sweeper.race: {race!r} is not a race; choose one with hydra/sweeper/race=NAME")


def run_race(
    race: Race,
    jobs: Mapping[int, Launched],
    launch: Callable[[Mapping[int, Launched], int | None], Mapping[int, JobOutcome]],
    after_rung: AfterRung | None = None,
) -> RaceResult:
    """Race ``jobs``, a mapping from job numbers to jobs.

    ``launch`` runs jobs up to the end of a rung or, if this end is None, in full. A job that fails on a rung is not
    launched again and does not count as dropped. Exceptions raised by ``launch`` are not caught.
    """
    alive, results = dict(jobs), dict[int, JobOutcome]()
    rung = race.begin(list(alive))
    dropped = [number for number in rung.dropped if alive.pop(number, None) is not None]
    while rung.until is not None and alive:
        until = rung.until
        outcomes = launch(alive, until)
        results |= outcomes
        alive = {number: job for number, job in alive.items() if completed(outcomes[number])}
        rung = race.decide(until, _returned(outcomes))
        out = tuple(number for number in rung.dropped if alive.pop(number, None) is not None)
        dropped += out
        if after_rung:
            after_rung(until, outcomes, out)
    whole = launch(alive, None) if alive else {}
    race.end(_returned(whole))
    return RaceResult(results | dict(whole), frozenset(dropped))


def consecutive_batches(numbers: Iterable[int], longest: int | None = None) -> list[range]:
    """Group job numbers into ascending ranges of consecutive numbers, at most ``longest`` in each (None: no limit)."""
    batches: list[range] = []
    for number in sorted(set(numbers)):
        if batches and batches[-1].stop == number and (longest is None or len(batches[-1]) < longest):
            batches[-1] = range(batches[-1].start, number + 1)
        else:
            batches.append(range(number, number + 1))
    return batches


def completed(outcome: JobOutcome) -> bool:
    """Return whether a job ran to completion."""
    return not isinstance(outcome, Exception) and outcome.status == JobStatus.COMPLETED


def _returned(outcomes: Mapping[int, JobOutcome]) -> dict[int, Any]:
    return {
        number: outcome.return_value
        for number, outcome in outcomes.items()
        if isinstance(outcome, JobReturn) and completed(outcome)
    }


def exception_of(job: JobReturn) -> Exception | None:
    """Return the exception that a job raised, or None; the line that Hydra would print to stderr is suppressed."""
    with redirect_stderr(StringIO()):
        try:
            _ = job.return_value
        except Exception as fault:
            return fault
    return None
