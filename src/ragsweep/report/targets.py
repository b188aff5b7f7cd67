"""Sentences on targets: how many of them the configs meet, and which they miss."""

from collections.abc import Iterator, Sequence

from ragsweep.core.plurals import counted
from ragsweep.core.results import Result, Summaries
from ragsweep.parts.targets import NOT_JUDGED, PASS, count_ideals, count_met
from ragsweep.report.document import Statement
from ragsweep.report.naming import rounded
from ragsweep.report.numbers import number

CONVENTIONS = "conventions, not laws: set your own (targets.METRIC.threshold=...), or targets=none"
MOST_LINES = 4
MOST_NAMED = 3


def target_lines(results: Sequence[Result]) -> Iterator[Statement]:
    """Yield how many targets the configs meet, and which they miss; nothing without targets.

    For a single config, each missed or uncertain target has its own statement, with numbers and advice.
    """
    results = [result for result in results if count_met(result.summaries.targets)[1]]
    if not results:
        return
    if len(results) == 1:
        yield Statement("targets", f"{_met(results[0].summaries)} · {CONVENTIONS}", _counts(results[0].summaries))
        for target in results[0].summaries.targets:
            if target.verdict not in (PASS, NOT_JUDGED) or not target.sure:
                unsure = "" if target.sure else ", but its interval lies on both sides of the target"
                action = f": {target.action}" if target.action else ""
                ideal = "" if target.ideal is None else f", ideal {number(target.ideal)}"
                numbers = f"{number(target.value)}, target {number(target.threshold)}{ideal}"
                text = f"{target.verdict:<4} {target.metric} {numbers} ({target.band}{unsure}){action}"
                yield Statement("", text, vars(target))
        return
    same: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        missed = [target.metric for target in result.summaries.targets if target.verdict not in (PASS, NOT_JUDGED)]
        same.setdefault((_met(result.summaries), *missed), []).append(result)
    ordered = sorted(same.items(), key=lambda item: -count_met(item[1][0].summaries.targets)[0])
    yield Statement("targets", CONVENTIONS)
    for (met, *missed), group in ordered[:MOST_LINES]:
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        configs = f"all {len(group)} configs" if len(group) == len(results) else f"{rounded(group[0].name)}{more}"
        rest = f" and {len(missed) - MOST_NAMED} more" if len(missed) > MOST_NAMED else ""
        text = f"{configs}: {met}" + (f"; missed: {', '.join(missed[:MOST_NAMED])}{rest}" if missed else "")
        yield Statement("", text, {"configs": len(group), "missed": missed, **_counts(group[0].summaries)})
    if hidden := sum(len(group) for _, group in ordered[MOST_LINES:]):
        text = f"and {counted(hidden, 'more config')} with no more targets met; see results.json"
        yield Statement("", text, {"hidden": hidden})


def _counts(summaries: Summaries) -> dict[str, int]:
    names = ("met", "targets", "ideals_reached", "ideals")
    return dict(zip(names, (*count_met(summaries.targets), *count_ideals(summaries.targets)), strict=True))


def _met(summaries: Summaries) -> str:
    form = "{met} of {targets} met" + (", {ideals_reached} of {ideals} ideals" if _counts(summaries)["ideals"] else "")
    return form.format(**_counts(summaries))
