"""The findings of ``ragsweep watch``, formatted for the terminal, as JSON and for Prometheus."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ragsweep.commands.served import describe_skipped
from ragsweep.core.plurals import counted
from ragsweep.parts.tracking.models import ModelVersion
from ragsweep.report.numbers import NOT_MEASURED, number
from ragsweep.report.tables import log_table, to_json
from ragsweep.report.terminal import Terminal
from ragsweep.stats.drift import DRIFT, OPEN, ORDER, RATIO, SAME, SHARE, Drift
from ragsweep_serving.commands.stale import CorpusChanges
from ragsweep_serving.reference import TOTAL, Reference
from ragsweep_serving.watching import (
    EMPTY,
    FAILED,
    FORM,
    GAP,
    LANGUAGE,
    LATENCY,
    MONEY,
    QUANTILES,
    REFUSED,
    STALE,
    TOKENS,
    TOP_SCORE,
    UNKNOWN_WORDS,
    Lack,
    Measure,
    Requests,
    can_tell,
    is_alarm,
)

Decision = Literal["fine", "alarm", "too few"]
EXIT_STATUS: Mapping[Decision, int] = {"fine": 0, "alarm": 1, "too few": 3}
FORMAT = "ragsweep.watch/1"
LEGEND = (
    "Scores and times are medians; a pair is a request and an evaluated question, and 50 % no change. In brackets:"
    " intervals that hold together, 95 %, with requests of equal words as one. DRIFT: all of it lies beyond the"
    " tolerance; same: within; less: it differs, by what may be tolerable; unclear: too few questions."
)
EXCEEDED, KEPT, UNDECIDED = "exceeded", "kept", "undecided"


@dataclass(frozen=True)
class Threshold:
    """A threshold of one number; ``kind`` is max or min."""

    name: str
    bound: float
    kind: str
    outcome: str = ""

    def decide(self, measures: Mapping[str, Measure]) -> Threshold:
        """Decide by the interval: exceeded if all of it lies beyond the threshold, kept if none of it does."""
        one = measures[self.name]
        sides = one.low > self.bound, one.high <= self.bound
        if self.kind == "min":
            sides = one.high < self.bound, one.low >= self.bound
        return replace(self, outcome=EXCEEDED if sides[0] else KEPT if sides[1] else UNDECIDED)


@dataclass(frozen=True)
class Watch:
    """The requests of one version since a time, beside its evaluation."""

    version: ModelVersion
    since: float
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
        """Missing languages and forms whose share of requests exceeds the tolerance and that no alarm names."""
        most = next((one.tolerance for one in self.drifts if one.kind == SHARE), math.inf)
        named = {one.name for one in self.alarms}
        return [one for one in self.lacks if one.measure.low > most and f"{one.what}/{one.value}" not in named]

    @property
    def decision(self) -> Decision:
        """Whether there is an alarm."""
        if self.alarms or any(one.outcome == EXCEEDED for one in self.thresholds):
            return "alarm"
        undecided = any(one.outcome == UNDECIDED for one in self.thresholds)
        return "too few" if undecided or not can_tell(self.requests) else "fine"


def show(found: Watch, terminal: Terminal, has_numbers: bool = False) -> None:
    """Print the comparison and its conclusions; with ``has_numbers`` every number that a threshold can name as well."""
    terminal.line("watch", f"{found.version.uri} ({found.reference.facts.get('name', '')}): {_counts(found)}")
    if found.skipped:
        terminal.line("skipped", describe_skipped(found.skipped))
    if found.changes is not None:
        terminal.line("index", f"{found.changes} since the model was made" if found.changes else "as the documents are")
    same = [one.name for one in found.drifts if one.verdict == SAME]
    alike = [one.name for one in found.drifts if one.verdict == OPEN and math.isclose(one.now, one.before)]
    others = [one for one in found.drifts if one.name not in (*same, *alike)]
    if rows := [_row(one) for one in sorted(others, key=lambda one: not is_alarm(one))]:
        terminal.table(["", "quantity", ">requests", ">evaluation", ">difference"], rows)
        terminal.block("", [LEGEND])
    if same:
        terminal.block("same", [", ".join(same)])
    if alike:
        terminal.block("unclear", [f"{', '.join(alike)}: no difference, and too few questions to exclude one"])
    for lack in (one for one in found.lacks if one not in found.unlike):
        terminal.line(
            "lacking", f"{lack.what} {lack.value}: {_percent(lack.measure)} of the requests, no evaluated question"
        )
    if rows := list(_latencies(found)):
        terminal.table(["", "milliseconds: p50 / p95 / p99", ">requests", ">evaluation"], rows)
    paid = {name: found.measures[name].value for name in (TOKENS, MONEY) if name in found.measures}
    if any(paid.values()):
        terminal.line(
            "spent", " and ".join(f"{number(value, '_')} {name}" for name, value in paid.items()) + " a request"
        )
    if has_numbers and (rows := [_measure_row(name, one) for name, one in found.measures.items()]):
        terminal.table(["", "number", ">requests", ">95 % interval", ">evaluation"], rows)
    for one in found.thresholds:
        terminal.line("limit", f"{one.outcome}: --{one.kind} {one.name}={one.bound:g}")
    terminal.block("RESULT", results(found))


def _counts(found: Watch) -> str:
    since = datetime.fromtimestamp(found.since, UTC).strftime("%Y-%m-%d %H:%M UTC")
    asked = (
        f"{counted(len(found.requests.traces), 'request')}, {counted(found.requests.questions, 'different question')}"
    )
    return f"{asked} since {since}, against {counted(len(found.reference.cluster), 'evaluated question')}"


def _latencies(found: Watch) -> Iterator[list[str]]:
    """Yield a row for each timed step, the total first."""
    first = f"{LATENCY}_p{QUANTILES[0]}_ms"
    for name in found.measures:
        if name.startswith(first):
            step = name.removeprefix(first)
            each = [found.measures[f"{LATENCY}_p{p}_ms{step}"] for p in QUANTILES]
            sides = [" / ".join(number(one[side], "ms") for one in each) for side in (0, 3)]
            yield ["", step.removeprefix("/") or TOTAL, *sides]


def _row(drift: Drift) -> list[str]:
    word = "DRIFT" if is_alarm(drift) else {"drift": "less", "same": "same", "open": "unclear"}[drift.verdict]
    unit = "ms" if drift.kind == RATIO else ""
    return [
        word,
        drift.name,
        _number(drift.now, drift.kind, unit),
        _number(drift.before, drift.kind, unit),
        _difference(drift),
    ]


def _number(value: float, kind: str, unit: str = "") -> str:
    if value != value:
        return NOT_MEASURED
    if kind == ORDER:
        return _score(value)
    return f"{100 * value:.1f} %" if kind == SHARE else f"{number(value, unit)}{f' {unit}' if unit else ''}"


def _score(value: float) -> str:
    """Format a score or an amount with three digits, so that different medians look different."""
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def _difference(drift: Drift) -> str:
    found = drift.compared
    if found.low != found.low:
        return "too few to compare"
    if drift.kind == SHARE:
        return f"{100 * found.estimate:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}] points"
    if drift.kind == ORDER:
        return f"higher in {_span(found, 100, '.0f')} % of pairs"
    return f"x {number(found.estimate, '_')} [{number(found.low, '_')}, {number(found.high, '_')}]"


def _span(found: Sequence[float], factor: float, style: str) -> str:
    value, low, high = (format(factor * one, style) for one in found[:3])
    return f"{value} [{low}, {high}]"


def _percent(measure: Measure) -> str:
    return f"{_span(measure, 100, '.1f')} %"


def _measure_row(name: str, one: Measure) -> list[str]:
    unit = "ms" if "_ms" in name else ""
    value, low, high, before = (NOT_MEASURED if part != part else number(part, unit) for part in one)
    return ["", name, value, f"[{low}, {high}]", before]


def results(found: Watch) -> Iterator[str]:
    """Yield one sentence per finding."""
    if not found.requests.traces:
        yield (
            "There is no trace. The served process sends traces where MLFLOW_TRACKING_URI names this database or"
            " server; they arrive within seconds."
        )
        return
    for drift in found.alarms:
        yield _sentence(drift, found)
    for lack in found.unlike:
        yield f"No evaluated question is like {_percent(lack.measure)} of the requests: {lack.what} {lack.value}."
    falls = [one for one in found.alarms if one.name.startswith(TOP_SCORE) and one.compared.estimate < 0.5]
    if falls and found.changes is None:
        yield "Scores fall where questions change, and where documents have: --corpus FOLDER tells the two apart."
    for one in found.thresholds:
        if one.outcome != KEPT:
            value = found.measures[one.name]
            shown = f"{one.name} is {number(value.value, '_')} {_interval(value)}"
            yield f"{shown}: --{one.kind} {one.bound:g} is {one.outcome}."
    if found.decision == "fine":
        yield "No drift beyond the tolerance is shown."
    if unclear := sum(one.verdict == "open" for one in found.drifts):
        sides = (
            f"{counted(found.requests.questions, 'different question')} and {len(found.reference.cluster)} evaluated"
        )
        yield f"Unclear with {sides}: {unclear} of {counted(len(found.drifts), 'comparison')}; a drift may be unseen."
    if found.decision == "too few":
        yield "The requests are too few to decide."


def _interval(one: Measure) -> str:
    ends = (number(end, "_") if math.isfinite(end) else "" for end in (one.low, one.high))  # "" where unbounded
    return f"[{', '.join(ends)}]"


def _sentence(drift: Drift, found: Watch) -> str:
    """Describe a drift with its size."""
    what, _, rest = drift.name.partition("/")
    shares = f"{_number(drift.now, drift.kind)} of the requests, {_number(drift.before, drift.kind)} in the evaluation"
    size = f"{shares}: {_difference(drift)}"
    more = drift.compared.estimate > (0.5 if drift.kind == ORDER else 0)
    if what == UNKNOWN_WORDS:
        many = "have a larger share of words that no document has than 95 % of the evaluated questions"
        return f"Topic shift, or other words: {_number(drift.now, SHARE)} of the requests {many}: {_difference(drift)}."
    if what in (TOP_SCORE, GAP):
        name = "Top scores" if what == TOP_SCORE else "Gaps between the first two scores"
        return (
            f"{name} of {rest} are {'higher' if more else 'lower'}: median {_score(drift.now)},"
            f" {_score(drift.before)} in the evaluation; {_difference(drift)}."
        )
    words = {
        LANGUAGE: f"Language shift: {rest} {size}.",
        FORM: f"Question types shift: {rest} {size}.",
        EMPTY: f"More empty results: {size}.",
        FAILED: f"More failures: {size}.",
        REFUSED: f"{'More' if more else 'Fewer'} refusals: {size}.",
        STALE: f"Stale index: {found.changes}; they concern {size}.",
        LATENCY: f"Slower {rest}: {_number(drift.now, RATIO, 'ms')} in the median, {_number(drift.before, RATIO, 'ms')}"
        f" in the evaluation, {_difference(drift)}.",
    }
    medians = f"median {_score(drift.now)}, {_score(drift.before)} in the evaluation"
    usual = f"More {what}: {medians}; {_difference(drift)}."
    return words.get(what, usual)


def next_steps(found: Watch, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the next steps."""
    names = {one.name.partition("/")[0] for one in found.alarms}
    if names & {LANGUAGE, FORM, UNKNOWN_WORDS, TOP_SCORE, GAP} or found.lacks:
        typed = f"--model {shlex.quote(options.model)} --since {shlex.quote(options.since)}"
        yield (
            f"ragsweep golden harvest golden.jsonl corpus=FOLDER {typed}",
            "take these questions into the golden set, to be labelled",
        )
    if STALE in names:
        yield "ragsweep run ... && ragsweep ship RUN ...", "evaluate and ship the config with today's documents"


def as_json(found: Watch) -> str:
    """Format the findings as JSON; ``drifts`` and ``measures`` are tables as MLflow's log_table writes them."""
    rows = [{"name": one.name, "kind": one.kind, "today": one.now, "evaluation": one.before, **one.compared._asdict(),
             "requests": one.requests, "tolerance": one.tolerance, "verdict": one.verdict, "alarm": is_alarm(one)}
            for one in found.drifts]  # fmt: skip
    measures = [{"name": name, **one._asdict()} for name, one in found.measures.items()]
    changes = found.changes
    document = {
        "format": FORMAT,
        "decision": found.decision,
        "exit_status": EXIT_STATUS[found.decision],
        "model": found.version.name,
        "version": found.version.number,
        "config": found.reference.facts,
        "since": found.since,
        "requests": len(found.requests.traces),
        "skipped": dict(found.skipped),
        "questions": found.requests.questions,
        "evaluated": len(found.reference.cluster),
        "results": list(results(found)),
        "drifts": log_table(rows),
        "lacking": [{"what": one.what, "value": one.value, "requests": one.requests} for one in found.lacks],
        "measures": log_table(measures),
        "thresholds": [vars(one) for one in found.thresholds],
        "documents": changes and {name: sorted(getattr(changes, name)) for name in ("new", "changed", "gone")},
    }
    return to_json(document) + "\n"


def write_prometheus(found: Watch, path: Path) -> None:
    """Format the numbers in Prometheus' text format, for a textfile collector."""
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
    alarm = gauge("alarm", "1 where a drift is shown", "quantity")
    for drift in found.drifts:
        alarm.labels(**labels, quantity=drift.name).set(float(drift.verdict == DRIFT and is_alarm(drift)))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_to_textfile(str(path), registry)
