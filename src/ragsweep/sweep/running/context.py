"""The state that the jobs of a command share, and the content of a run in the tracker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragsweep.core.results import DatasetFacts, HumanLabel
    from ragsweep.core.secrets import Secrets
    from ragsweep.parts.tracking import Tracker
    from ragsweep.records.ledger import Ledger, Sweep
    from ragsweep.report.terminal import Terminal
    from ragsweep.sweep.running.session import Session


@dataclass
class RunContext:
    """The context shared by the jobs of one command."""

    session: Session
    tracker: Tracker
    terminal: Terminal
    secrets: Secrets
    sweep: Sweep | None = None  # None for a single config, before the sweep runs, and in a worker that sends outcomes
    search: Mapping[str, Any] | None = None  # the sweeper's settings, if results decide the next jobs
    labels: Sequence[HumanLabel] = ()  # human labels, which correct the verdict

    @property
    def ledger(self) -> Ledger:
        """The ledger of the command's store."""
        return self.session.ledger


@dataclass(frozen=True)
class TrackedContent:
    """The content of a sweep's parent run, or of a single config's run, in the tracker."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    children: Mapping[int, Mapping[str, str]] = field(default_factory=dict)  # job -> tags derived from the whole sweep
    tables: Mapping[int, bytes] = field(default_factory=dict)  # job -> table of its questions
    dataset: DatasetFacts | None = None
