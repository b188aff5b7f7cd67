"""Race jobs: ask all of them a little, drop who need not be asked any further, and so on; run whole who is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from typing import Any, Protocol

from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException

Came = JobReturn | Exception
"""What came of a job, or what kept its batch from being launched."""

Launch = Callable[[Mapping[int, Sequence[str]]], Mapping[int, Came]]
"""Run jobs, which are given by number and overrides."""


@dataclass(frozen=True)
class Rung:
    """What a race decides: how far the next rung goes (None: who is left is run whole), and who is dropped."""

    until: int | None
    dropped: tuple[int, ...] = ()


class Race(Protocol):
    """The rule of a race. ``key`` is the key of a job's config that says how far a rung goes."""

    @property
    def key(self) -> str:
        """The key that each rung sets."""

    def begin(self, jobs: Sequence[int]) -> Rung:
        """Say how far the first rung goes; who was dropped before an interruption is dropped again."""

    def decide(self, until: int, returned: Mapping[int, Any]) -> Rung:
        """Decide after a rung; ``returned`` is what the jobs returned that are still in the race."""

    def end(self, returned: Mapping[int, Any]) -> None:
        """Hear what the jobs returned that were run whole."""


Seen = Callable[[int, Mapping[int, Came], tuple[int, ...]], None]
"""Is told of each rung: how far it went, what came of its jobs, and who was dropped then."""


@dataclass(frozen=True)
class Raced:
    """What came of each job, on the last rung that it ran, and who was dropped."""

    results: dict[int, Came]
    dropped: frozenset[int]


def check(race: Any, where: str = "hydra.sweeper.race") -> Race | None:
    """Return a race that can be asked; raises HydraException for what is none."""
    if race is not None and not all(hasattr(race, name) for name in ("key", "begin", "decide", "end")):
        raise HydraException(f"{where}: choose one with hydra/sweeper/race=NAME, given {race!r}")
    found: Race | None = race
    return found


def run(race: Race, jobs: Mapping[int, Sequence[str]], launch: Launch, seen: Seen | None = None) -> Raced:
    """Race jobs: all that are still in it on one rung after the other, then those that are left whole."""
    alive, results = dict(jobs), dict[int, Came]()
    rung = race.begin(list(alive))
    gone = [number for number in rung.dropped if alive.pop(number, None) is not None]
    while rung.until is not None and alive:
        until = rung.until
        came = launch({number: [*lines, f"{race.key}={until}"] for number, lines in alive.items()})
        results |= came
        alive = {number: lines for number, lines in alive.items() if completed(came[number])}
        rung = race.decide(until, _returned(came))
        out = tuple(number for number in rung.dropped if alive.pop(number, None) is not None)
        gone += out
        if seen:
            seen(until, came, out)
    whole = launch(alive) if alive else {}
    race.end(_returned(whole))
    return Raced(results | dict(whole), frozenset(gone))


def completed(came: Came) -> bool:
    """Say whether a job ran to its end."""
    return not isinstance(came, Exception) and came.status == JobStatus.COMPLETED


def _returned(came: Mapping[int, Came]) -> dict[int, Any]:
    return {n: one.return_value for n, one in came.items() if not isinstance(one, Exception) and completed(one)}


def raised(came: JobReturn) -> Exception | None:
    """Return what a job raised, without the line that Hydra prints then."""
    with redirect_stderr(StringIO()):
        try:
            _ = came.return_value
        except Exception as fault:
            return fault
    return None
