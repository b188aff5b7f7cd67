"""The findings of ``ragsweep watch``, and their numbers for Prometheus."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from ragsweep.core.errors import InputError
from ragsweep.parts.tracking.models import ModelVersion
from ragsweep.stats.drift import DRIFT, SHARE, Drift
from ragsweep_serving.commands.stale import CorpusChanges
from ragsweep_serving.reference import Reference
from ragsweep_serving.watching import Lack, Measure, Requests, can_tell, is_alarm

Decision = Literal["fine", "alarm", "too few"]
EXIT_STATUS: Mapping[Decision, int] = {"fine": 0, "alarm": 1, "too few": 3}
EXCEEDED, KEPT, UNDECIDED = "exceeded", "kept", "undecided"


@dataclass(frozen=True)
class Threshold:
    """The threshold for one measure. ``kind`` is "max" or "min"; ``outcome`` is "" until ``decide`` sets it."""

    name: str
    bound: float
    kind: str
    outcome: str = ""

    def decide(self, measures: Mapping[str, Measure]) -> Threshold:
        """Return the threshold with its outcome, which depends on the interval of its measure.

        The outcome is exceeded if the whole interval is beyond the bound, kept if no part is, else undecided.
        """
        one = measures[self.name]
        sides = one.low > self.bound, one.high <= self.bound
        if self.kind == "min":
            sides = one.high < self.bound, one.low >= self.bound
        return replace(self, outcome=EXCEEDED if sides[0] else KEPT if sides[1] else UNDECIDED)


@dataclass(frozen=True)
class Watch:
    """The comparison of a version's evaluation with the requests that it has received since a given time."""

    version: ModelVersion
    since: float  # seconds since the epoch
    requests: Requests
    reference: Reference
    drifts: Sequence[Drift]
    lacks: Sequence[Lack]
    measures: Mapping[str, Measure]
    thresholds: Sequence[Threshold]
    changes: CorpusChanges | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)  # unreadable traces by reason

    @property
    def alarms(self) -> list[Drift]:
        """The drifts that are alarms."""
        return [one for one in self.drifts if is_alarm(one)]

    @property
    def unlike(self) -> list[Lack]:
        """The lacks whose interval lies above the tolerance, except those whose language or form has an alarm."""
        most = next((one.tolerance for one in self.drifts if one.kind == SHARE), math.inf)
        named = {one.name for one in self.alarms}
        return [one for one in self.lacks if one.measure.low > most and f"{one.what}/{one.value}" not in named]

    @property
    def decision(self) -> Decision:
        """The decision: "alarm", "too few" requests to decide, or "fine"."""
        if self.alarms or any(one.outcome == EXCEEDED for one in self.thresholds):
            return "alarm"
        undecided = any(one.outcome == UNDECIDED for one in self.thresholds)
        return "too few" if undecided or not can_tell(self.requests) else "fine"


def write_prometheus(found: Watch, path: Path) -> None:
    """Write the numbers in Prometheus' text format, for a textfile collector; raises InputError on failure."""
    from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

    registry = CollectorRegistry()
    labels = {"model": found.version.name, "version": found.version.number}

    def gauge(name: str, about: str, *own: str) -> Gauge:
        return Gauge(f"ragsweep_watch_{name}", about, [*labels, *own], registry=registry)

    gauge("requests", "Traced requests that were compared").labels(**labels).set(len(found.requests.traces))
    gauge("decision", "Exit status: 0 fine, 1 alarm, 3 too few").labels(**labels).set(EXIT_STATUS[found.decision])
    value = gauge("value", "A number of the requests", "number")
    bound = gauge("bound", "An end of its 95 % interval", "number", "end")
    before = gauge("evaluation", "The same number in the evaluation", "number")
    for name, one in found.measures.items():
        value.labels(**labels, number=name).set(one.value)
        before.labels(**labels, number=name).set(one.before)
        for end in ("low", "high"):
            bound.labels(**labels, number=name, end=end).set(getattr(one, end))
    alarm = gauge("alarm", "1 if the drift is an alarm, else 0", "quantity")
    for drift in found.drifts:
        alarm.labels(**labels, quantity=drift.name).set(float(drift.verdict == DRIFT and is_alarm(drift)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_to_textfile(str(path), registry)
    except OSError as fault:
        raise InputError(f"{path}: cannot be written: {fault.strerror}; choose another file") from None
