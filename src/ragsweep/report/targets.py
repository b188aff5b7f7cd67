"""Report targets: of one config each missed target, of several the number that each meets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragsweep.core.results import Result, TargetResult
from ragsweep.parts.targets import NOT_JUDGED, PASS, count_met
from ragsweep.report.naming import rounded
from ragsweep.report.numbers import number

CONVENTIONS = "conventions, not laws: set your own (targets.METRIC.threshold=...), or targets=none"
MOST_LINES = 4
MOST_NAMED = 3


def target_lines(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    """Give lines as a word and a text; none where nothing was judged."""
    if not any(count_met(result.targets)[1] for result in results):
        return
    if len(results) == 1:
        yield "targets", f"{_met(results[0])} · {CONVENTIONS}"
        for judged in results[0].targets:
            if judged.verdict not in (PASS, NOT_JUDGED) or not judged.sure:
                yield "", _line(judged)
        return
    same: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        same.setdefault((_met(result), *_missed(result)), []).append(result)
    ordered = sorted(same.values(), key=lambda group: -count_met(group[0].targets)[0])
    yield "targets", CONVENTIONS
    for group in ordered[:MOST_LINES]:
        yield "", f"{_configs(group, len(results))}: {_met(group[0])}{_named(group[0])}"
    if len(ordered) > MOST_LINES:
        yield "", f"and {sum(map(len, ordered[MOST_LINES:]))} configs that meet no more; see results.json"


def _met(result: Result) -> str:
    return "{} of {} met".format(*count_met(result.targets))


def _missed(result: Result) -> list[str]:
    return [one.metric for one in result.targets if one.verdict not in (PASS, NOT_JUDGED)]


def _configs(group: Sequence[Result], configs: int) -> str:
    if len(group) == configs:
        return f"all {configs} configs"
    more = f" and {len(group) - 1} more" if len(group) > 1 else ""
    return rounded(group[0].name) + more


def _named(result: Result) -> str:
    missed = _missed(result)
    rest = f" and {len(missed) - MOST_NAMED} more" if len(missed) > MOST_NAMED else ""
    return f"; missed: {', '.join(missed[:MOST_NAMED])}{rest}" if missed else ""


def _line(judged: TargetResult) -> str:
    """Write one target: ``fail recall_at_10 .41, target .80 (poor): raise depth ...``."""
    unsure = "" if judged.sure else ", but its interval lies on both sides of the target"
    action = f": {judged.action}" if judged.action else ""
    numbers = f"{number(judged.value)}, target {number(judged.threshold)}"
    return f"{judged.verdict:<4} {judged.metric} {numbers} ({judged.band}{unsure}){action}"
