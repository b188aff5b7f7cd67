"""Launch jobs in batches of consecutive numbers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn

    from ragsweep.sweep.composing.job import Job

Launch = Callable[[Sequence["Job"]], "Sequence[JobReturn]"]
"""Run jobs with consecutive numbers, and return the outcome of each."""

Body = Callable[[Launch, Path], str]
"""Run the jobs of a sweep with a launcher, in the sweep's folder; return why a job may lack a record, or ""."""

Launcher = Callable[[Body | None], str]
"""Call the body of a sweep with a launcher and return its result; without a body, Hydra's sweeper runs the jobs."""


def launch_batches(
    launch: Launch, jobs: Mapping[int, Job], rung: int | None, longest: int | None = None
) -> dict[int, JobReturn | Exception]:
    """Launch jobs in batches of at most ``longest``; return each job's outcome, or the launcher's exception.

    ``rung``: in a race, the number of questions to evaluate; None: all. A failed batch does not stop the others.
    """
    outcomes: dict[int, JobReturn | Exception] = {}
    for batch in consecutive_batches(jobs, longest):
        try:
            outcomes |= zip(batch, launch([replace(jobs[number], rung=rung) for number in batch]), strict=True)
        except Exception as fault:
            logging.getLogger(__name__).debug("jobs %s could not be launched", batch, exc_info=fault)
            outcomes |= dict.fromkeys(batch, fault)
    return outcomes


def consecutive_batches(numbers: Iterable[int], longest: int | None = None) -> list[range]:
    """Group job numbers into ranges, each of at most ``longest`` consecutive numbers, in ascending order."""
    batches: list[range] = []
    for number in sorted(set(numbers)):
        if batches and batches[-1].stop == number and (longest is None or len(batches[-1]) < longest):
            batches[-1] = range(batches[-1].start, number + 1)
        else:
            batches.append(range(number, number + 1))
    return batches
