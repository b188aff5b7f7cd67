"""The document of ``ragsweep watch``."""

import argparse
import math
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from ragsweep.commands.served import describe_skipped
from ragsweep.core.plurals import counted
from ragsweep.parts.tracking.database import mask_uri
from ragsweep.report.document import Block, Document, Section, Statement, Statements, Table, lines, notes, paragraphs
from ragsweep.report.numbers import NOT_MEASURED, number
from ragsweep.report.tables import log_table
from ragsweep.stats.drift import FEWEST, OPEN, ORDER, RATIO, SAME, SHARE, Drift
from ragsweep_serving import watching
from ragsweep_serving.commands.watch_findings import EXCEEDED, EXIT_STATUS, KEPT, Threshold, Watch
from ragsweep_serving.reference import TOTAL
from ragsweep_serving.watching import Measure, is_alarm

FORMAT = "ragsweep.watch/1"
_OF_QUESTIONS = (watching.LANGUAGE, watching.FORM, watching.UNKNOWN_WORDS, watching.TOP_SCORE, watching.GAP)
LEGEND = (
    "Scores and times are medians. A pair is a request and an evaluated question; 50 % of pairs means no change. In"
    " brackets: 95 % intervals, simultaneous over all quantities and --looks; requests with the same words are one"
    " cluster. DRIFT: the interval lies beyond the tolerance; same: within the tolerance; less: a decrease beyond"
    " the tolerance, which is not an alarm; unclear: too few questions."
)


def watch_document(found: Watch, options: argparse.Namespace) -> Document:
    """Return the document of a comparison, with conclusions and next steps; ``options.numbers`` adds all measures."""
    blocks: list[Block] = [lines(_head(found)), *_quantities(found), lines(_lacking(found)), *_times(found)]
    if options.numbers and (rows := [_measure_row(name, one) for name, one in found.measures.items()]):
        blocks.append(Table(["", "number", ">requests", ">95 % interval", ">evaluation"], rows))
    given = found.thresholds
    written = ((one, f"--{one.kind} {one.name}={one.bound:.15g}") for one in given)
    limits = (Statement("limit", f"{_outcome(one)}: {text}", vars(one)) for one, text in written)
    blocks += [lines(limits), paragraphs("RESULT", results(found))]
    blocks.append(Statements([*_next_steps(found, options)], "commands"))
    return Document(f"{found.version.uri}: {found.decision}", [Section(blocks)], _facts(found))


def _head(found: Watch) -> Iterator[Statement]:
    since = datetime.fromtimestamp(found.since, UTC).strftime("%Y-%m-%d %H:%M UTC")
    requests, questions = len(found.requests.traces), found.requests.questions
    asked = f"{counted(requests, 'request')}, {counted(questions, 'different question')} since {since}"
    text = f"{asked}, against {counted(len(found.reference.cluster), 'evaluated question')}"
    name, counts = found.reference.facts.get("name", ""), {"requests": requests, "questions": questions}
    yield Statement("watch", f"{found.version.uri} ({name}): {text}", counts)
    if found.skipped:
        yield Statement("skipped", describe_skipped(found.skipped), found.skipped)
    if found.changes is not None:
        what = found.changes if found.changes else "no document differs"
        yield Statement("index", f"{what} since the model was shipped")


def _quantities(found: Watch) -> Iterator[Block]:
    same = [one.name for one in found.drifts if one.verdict == SAME]
    alike = [one.name for one in found.drifts if one.verdict == OPEN and math.isclose(one.now, one.before)]
    others = [one for one in found.drifts if one.name not in (*same, *alike)]
    if rows := [_row(one) for one in sorted(others, key=lambda one: not is_alarm(one))]:
        yield Table(["", "quantity", ">requests", ">evaluation", ">difference"], rows, LEGEND)
    few = ": no difference, and too few questions to exclude one"
    for label, names, text in (("same", same, ""), ("unclear", alike, few)):
        if names:
            yield notes(Statement(label, f"{', '.join(names)}{text}", {label: names}))


def _lacking(found: Watch) -> Iterator[Statement]:
    for lack in (one for one in found.lacks if one not in found.unlike):
        text = f"{lack.what} {lack.value}: {_percent(lack.measure)} of the requests, no evaluated question"
        yield Statement("lacking", text, lack.measure._asdict())


def _times(found: Watch) -> Iterator[Block]:
    first, rows = f"{watching.LATENCY}_p{watching.QUANTILES[0]}_ms", list[list[str]]()
    for name in found.measures:
        if name.startswith(first):
            step = name.removeprefix(first)
            each = [found.measures[f"{watching.LATENCY}_p{p}_ms{step}"] for p in watching.QUANTILES]
            sides = [" / ".join(number(one[side], "ms") for one in each) for side in (0, 3)]
            rows.append(["", step.removeprefix("/") or TOTAL, *sides])
    if rows:
        yield Table(["", "milliseconds: p50 / p95 / p99", ">requests", ">evaluation"], rows)
    paid = {name: found.measures[name].value for name in (watching.TOKENS, watching.MONEY) if name in found.measures}
    if any(paid.values()):
        amounts = " and ".join(f"{number(value, '_')} {name}" for name, value in paid.items())
        yield lines(Statement("spent", f"{amounts} per request", paid))


def _row(drift: Drift) -> list[str]:
    word = "DRIFT" if is_alarm(drift) else {"drift": "less", "same": "same", "open": "unclear"}[drift.verdict]
    unit = "ms" if drift.kind == RATIO else ""
    now, before = (_number(one, drift.kind, unit) for one in (drift.now, drift.before))
    return [word, drift.name, now, before, _difference(drift)]


def _number(value: float, kind: str, unit: str = "") -> str:
    if value != value:
        return NOT_MEASURED
    if kind == ORDER:
        return _score(value)
    return f"{100 * value:.1f} %" if kind == SHARE else f"{number(value, unit)}{f' {unit}' if unit else ''}"


def _score(value: float) -> str:
    """Return a score or an amount as text: a whole number from 100 on, otherwise at most three significant digits."""
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


def results(found: Watch) -> Iterator[Statement]:
    """Yield one sentence per finding; if there is no trace, yield only the possible reasons."""
    if not found.requests.traces:
        yield Statement(
            "",
            "No trace was found. The served process must have MLFLOW_TRACKING_URI set to this database or server, and"
            " the model must not have been shipped with --trace-sample 0. Traces arrive within seconds. To include"
            " older traces, set an earlier --since.",
        )
        return
    for drift in found.alarms:
        yield Statement("", _sentence(drift, found), {"quantity": drift.name, **drift.compared._asdict()})
    for lack in found.unlike:
        text = (
            f"{_percent(lack.measure)} of the requests have a {lack.what} that is not in the evaluation: {lack.value}."
        )
        yield Statement("", text, {"value": lack.value, **lack.measure._asdict()})
    falls = [one for one in found.alarms if one.name.startswith(watching.TOP_SCORE) and one.compared.estimate < 0.5]
    if falls and found.changes is None:
        text = "Scores fall if questions or documents change; --corpus FOLDER counts requests with changed documents."
        yield Statement("", text)
    for one in found.thresholds:
        if one.outcome != KEPT:
            value = found.measures[one.name]
            ends = (number(end, "_") if math.isfinite(end) else "" for end in (value.low, value.high))
            shown = f"{one.name} is {number(value.value, '_')} [{', '.join(ends)}]"
            yield Statement("", f"{shown}: --{one.kind} {one.bound:.15g} is {_outcome(one)}.", vars(one))
    yield from _undecided(found)


def _outcome(one: Threshold) -> str:
    return "not reached" if one.kind == "min" and one.outcome == EXCEEDED else one.outcome


def _undecided(found: Watch) -> Iterator[Statement]:
    if found.decision == "fine":
        yield Statement("", "No drift beyond the tolerance was found.")
    if unclear := sum(one.verdict == "open" for one in found.drifts):
        asked, evaluated = counted(found.requests.questions, "different question"), len(found.reference.cluster)
        of = f"{unclear} of {counted(len(found.drifts), 'comparison')} {'is' if unclear == 1 else 'are'} unclear"
        text = f"{of} with {asked} asked and {evaluated} evaluated; drift may go unnoticed."
        yield Statement("", text, {"unclear": unclear, "comparisons": len(found.drifts)})
    if not found.is_compared:
        few = f"the requests or the evaluation have fewer than {FEWEST} independent questions"
        alike = "requests with the same words count as one question, as do evaluated questions about one document"
        way = "wait for more requests, include older ones with --since, or evaluate more questions and ship that run"
        yield Statement("", f"No quantity can be compared: {few} ({alike}); {way}.")
    elif found.decision == "too few":
        yield Statement("", "There are too few requests to decide; wait for more, or include older ones with --since.")


def _sentence(drift: Drift, found: Watch) -> str:
    what, _, rest = drift.name.partition("/")
    shares = f"{_number(drift.now, drift.kind)} of the requests, {_number(drift.before, drift.kind)} in the evaluation"
    size = f"{shares}: {_difference(drift)}"
    more = drift.compared.estimate > (0.5 if drift.kind == ORDER else 0)
    if what == watching.UNKNOWN_WORDS:
        many = "the share of words that no document contains is larger than in 95 % of the evaluated questions"
        asked = f"in {_number(drift.now, SHARE)} of the requests"
        return f"Topic shift, or other words: {asked}, {many}: {_difference(drift)}."
    if what in (watching.TOP_SCORE, watching.GAP):
        name = "Top scores" if what == watching.TOP_SCORE else "Gaps between the first two scores"
        return (
            f"{name} of {rest} are {'higher' if more else 'lower'}: median {_score(drift.now)},"
            f" {_score(drift.before)} in the evaluation; {_difference(drift)}."
        )
    before = f"median {_number(drift.now, RATIO, 'ms')}, {_number(drift.before, RATIO, 'ms')}"
    words = {
        watching.LANGUAGE: f"Language shift: {rest} {size}.",
        watching.FORM: f"Question types shift: {rest} {size}.",
        watching.EMPTY: f"More empty results: {size}.",
        watching.FAILED: f"More failures: {size}.",
        watching.REFUSED: f"{'More' if more else 'Fewer'} refusals: {size}.",
        watching.STALE: f"Stale index: {found.changes}; these changes affect {size}.",
        watching.LATENCY: f"Slower {rest}: {before} in the evaluation; {_difference(drift)}.",
    }
    medians = f"median {_score(drift.now)}, {_score(drift.before)} in the evaluation"
    return words.get(what, f"More {what}: {medians}; {_difference(drift)}.")


def _next_steps(found: Watch, options: argparse.Namespace) -> Iterator[Statement]:
    names = {one.name.partition("/")[0] for one in found.alarms}
    if names.intersection(_OF_QUESTIONS) or found.lacks:
        typed = ["--model", options.model, "--since", options.since]
        typed += [f"traces={mask_uri(options.uri)}"] if options.uri else []
        typed += [f"experiment={options.experiment}"] if options.experiment else []
        command = f"ragsweep golden harvest golden.jsonl corpus=FOLDER {shlex.join(typed)}"
        yield Statement(command, "add these questions to the golden set for labelling")
    if watching.STALE in names:
        command = "ragsweep run ... && ragsweep ship RUN ..."
        yield Statement(command, "evaluate and ship the config with the current documents")


def _facts(found: Watch) -> dict[str, Any]:
    """Return the findings in JSON types; ``drifts`` and ``measures`` are tables in the format of MLflow's log_table."""
    return {
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
        "results": [one.text for one in results(found)],
        "drifts": log_table([_drift_row(one) for one in found.drifts]),
        "lacking": [{"what": one.what, "value": one.value, "requests": one.requests} for one in found.lacks],
        "measures": log_table([{"name": name, **one._asdict()} for name, one in found.measures.items()]),
        "thresholds": [vars(one) for one in found.thresholds],
        "documents": found.changes and {one: sorted(getattr(found.changes, one)) for one in ("new", "changed", "gone")},
    }


def _drift_row(one: Drift) -> dict[str, Any]:
    row = {"name": one.name, "kind": one.kind, "today": one.now, "evaluation": one.before, **one.compared._asdict()}
    row |= {"requests": one.requests, "tolerance": one.tolerance}
    return {**row, "verdict": one.verdict, "alarm": is_alarm(one)}
