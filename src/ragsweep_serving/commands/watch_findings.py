"""The findings of ``ragsweep watch``: drifts, exceeded thresholds, and changes of the corpus."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from ragsweep.core.errors import InputError
from ragsweep.core.plurals import counted
from ragsweep.core.types import Corpus
from ragsweep.parts.languages import usual_language
from ragsweep.parts.retrievers.bm25 import rank_texts
from ragsweep.parts.tracking.models import ModelRegistry, ModelVersion
from ragsweep.parts.tracking.served_traces import ServedTrace
from ragsweep.stats.drift import FEWEST, SHARE, Drift
from ragsweep_serving.bundle import CORPUS, MANIFEST, Bundle
from ragsweep_serving.reference import Reference
from ragsweep_serving.watching import Lack, Measure, Requests, is_alarm

Decision = Literal["fine", "alarm", "too few"]
EXIT_STATUS: Mapping[Decision, int] = {"fine": 0, "alarm": 1, "too few": 3}
EXCEEDED, KEPT, UNDECIDED = "exceeded", "kept", "undecided"


@dataclass(frozen=True)
class Threshold:
    """The threshold of one measure. ``kind`` is "max" or "min"; ``outcome`` is "" until ``decide`` sets it."""

    name: str
    bound: float
    kind: str
    outcome: str = ""

    def decide(self, one: Measure) -> Threshold:
        """Return the threshold with its outcome, derived from the interval of ``one``, the measure that it limits.

        The outcome is exceeded if the whole interval lies beyond the bound, kept if the whole interval lies within the
        bound, and otherwise undecided.
        """
        sides = one.low > self.bound, one.high <= self.bound
        if self.kind == "min":
            sides = one.high < self.bound, one.low >= self.bound
        return replace(self, outcome=EXCEEDED if sides[0] else KEPT if sides[1] else UNDECIDED)


@dataclass(frozen=True)
class Watch:
    """The comparison of a version's evaluation with the requests that the version has received since a given time."""

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
        """The drifts that are alarms (see `is_alarm`)."""
        return [one for one in self.drifts if is_alarm(one)]

    @property
    def unlike(self) -> list[Lack]:
        """The ``lacks`` whose 95 % interval lies above the tolerance for shares, except any that is also an alarm."""
        most = next((one.tolerance for one in self.drifts if one.kind == SHARE), math.inf)
        named = {one.name for one in self.alarms}
        return [one for one in self.lacks if one.measure.low > most and f"{one.what}/{one.value}" not in named]

    @property
    def is_compared(self) -> bool:
        """Whether any quantity can be compared: requests and evaluation each need ``FEWEST`` independent questions."""
        return any(not math.isnan(one.compared.low) for one in self.drifts)

    @property
    def decision(self) -> Decision:
        """The decision: "alarm", "too few" questions to decide, or "fine"."""
        if self.alarms or any(one.outcome == EXCEEDED for one in self.thresholds):
            return "alarm"
        undecided = any(one.outcome == UNDECIDED for one in self.thresholds)
        few = self.requests.questions < FEWEST or not self.is_compared
        return "too few" if undecided or few else "fine"


def write_prometheus(found: Watch, path: Path) -> None:
    """Write the findings in Prometheus' text format, for a textfile collector; raises InputError on failure."""
    from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

    registry = CollectorRegistry()
    labels = {"model": found.version.name, "version": found.version.number}

    def gauge(name: str, about: str, *own: str) -> Gauge:
        return Gauge(f"ragsweep_watch_{name}", about, [*labels, *own], registry=registry)

    gauge("requests", "Traced requests that were compared").labels(**labels).set(len(found.requests.traces))
    gauge("decision", "Exit status: 0 fine, 1 alarm, 3 too few").labels(**labels).set(EXIT_STATUS[found.decision])
    value = gauge("value", "A statistic of the requests, such as latency_p95_ms", "number")
    bound = gauge("bound", "An end of the 95 % interval of the statistic", "number", "end")
    before = gauge("evaluation", "The same statistic in the evaluation", "number")
    for name, one in found.measures.items():
        value.labels(**labels, number=name).set(one.value)
        before.labels(**labels, number=name).set(one.before)
        for end in ("low", "high"):
            bound.labels(**labels, number=name, end=end).set(getattr(one, end))
    alarm = gauge("alarm", "1 if the drift is an alarm, else 0", "quantity")
    for drift in found.drifts:
        alarm.labels(**labels, quantity=drift.name).set(float(is_alarm(drift)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_to_textfile(str(path), registry)
    except OSError as fault:
        raise InputError(f"{path}: cannot be written: {fault.strerror}; choose another file") from None


@dataclass(frozen=True)
class CorpusChanges:
    """The current corpus, and the ids of documents that were added, changed or removed since a model was shipped."""

    today: Corpus
    new: frozenset[str]
    changed: frozenset[str]
    gone: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.gone)

    def __str__(self) -> str:
        return f"{counted(len(self.changed), 'document')} changed, {len(self.new):,} new, {len(self.gone):,} gone"

    def concerned(self, traces: Sequence[ServedTrace]) -> list[float]:
        """Return 1 for each request that an added, changed or removed document affects, and 0 for every other request.

        A request is affected if its context contains a changed or removed document, or if BM25 ranks a new or changed
        document of the current corpus first.
        """
        if not self:
            return [0.0] * len(traces)
        texts = [f"{title} {text}" for title, text in zip(self.today.titles, self.today.texts, strict=True)]
        questions = list(dict.fromkeys(trace.query or trace.question for trace in traces))
        ranked = rank_texts(questions, texts, usual_language(texts), 1)
        first = {text: self.today.ids[found[0]] for text, found in zip(questions, ranked, strict=True) if found}
        moved, better = self.changed | self.gone, self.new | self.changed
        return [
            float(not moved.isdisjoint(one.documents) or first.get(one.query or one.question) in better)
            for one in traces
        ]


def compare_corpora(shipped: Corpus, today: Corpus, place: str) -> CorpusChanges:
    """Return the changes from ``shipped`` to ``today``; raises InputError, naming ``place``, if they share no id."""
    texts = [dict(zip(one.ids, zip(one.titles, one.texts, strict=True), strict=True)) for one in (shipped, today)]
    shared = texts[0].keys() & texts[1].keys()
    if not shared:
        raise InputError(
            f"--corpus {place}: contains no document id of the model's corpus; specify the same folder or file as the"
            " config's dataset"
        )
    changed = frozenset(name for name in shared if texts[0][name] != texts[1][name])
    return CorpusChanges(today, frozenset(texts[1].keys() - shared), changed, frozenset(texts[0].keys() - shared))


def read_shipped_corpus(registry: ModelRegistry, version: ModelVersion, folder: Path) -> tuple[Corpus, Sequence[str]]:
    """Download the corpus of a model version to ``folder``.

    Return the corpus, and the patterns of the documents that the version's dataset excludes.
    """
    bundle = Bundle.read(registry.download(version, (MANIFEST, CORPUS), folder), (CORPUS,))
    excluded = ((bundle.manifest["config"].get("dataset") or {}).get("exclude")) or ()
    return bundle.corpus, [excluded] if isinstance(excluded, str) else list(excluded)
