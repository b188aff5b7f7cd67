"""Sentences on the config that a sweep chooses: its expected gains, its costs, and caveats."""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from ragsweep.core.plurals import counted
from ragsweep.report.document import Statement
from ragsweep.report.numbers import SURE, change_with_interval, factor, likelihood, number, with_interval
from ragsweep.report.verdict import deficit, lead, name, score, size
from ragsweep.stats.audits import BetterLeg, LongerContext
from ragsweep.stats.choice import Against, within_limits
from ragsweep.stats.comparable import differing_parameters
from ragsweep.stats.comparison import NoComparison, SweepComparison
from ragsweep.stats.conclusion import SweepConclusion
from ragsweep.stats.latencies import BUSY, LEAST_MS, slowness
from ragsweep.stats.verdict import LIKELY, THE_SAME

WORDS = {
    "cost_per_1000": "cost per 1,000 questions",
    "context_tokens": "context tokens",
    "latency_p95_ms": "latency at p95 (ms)",
}
"""Cost metric -> its name in a sentence."""
PRICED = {
    "cost_per_1000": "a cost of {} per 1,000 questions",
    "context_tokens": "{} context tokens",
    "latency_p95_ms": "a latency of {} at p95",
}
"""Cost metric -> a phrase with its value, as in "Against the baseline, it has 900 context tokens"."""
NOTABLE = 1.5
"""Minimum ratio of the larger to the smaller of two costs for a sentence to mention them."""


def choice_statements(conclusion: SweepConclusion) -> Iterator[Statement]:
    """Yield sentences on the choice, its gains and caveats, or on why there is no choice.

    Yield nothing if ``conclusion.deciding`` is None.
    """
    found = conclusion.deciding
    if isinstance(found, NoComparison):
        yield Statement("", f"No choice: {found.why}{f', {conclusion.where}' if conclusion.where else ''}.")
    elif found is not None:
        yield from _choice(found, conclusion)
        if conclusion.where:
            yield Statement("", f"Decided {conclusion.where}.")


def _choice(verdict: SweepComparison, conclusion: SweepConclusion) -> Iterator[Statement]:
    choice, audits = verdict.choice, conclusion.audits
    if choice.row is None:
        highest = f"{name(verdict, choice.best)} ({score(verdict, float(verdict.means[choice.best]))})"
        text = f"None: no config is known to be within {bounds(choice.limits)}; without limits, the best is {highest}."
        yield Statement("", text, {"limits": choice.limits})
        yield from _replaced(verdict)
        return
    yield _headline(verdict, choice.row)
    yield from _replaced(verdict)
    yield from _refusing(verdict, choice.row, audits.refusing)
    rivals = {"baseline": choice.baseline} if choice.baseline else {}
    if choice.runner_up is not None and (choice.baseline is None or choice.runner_up.row != choice.baseline.row):
        who = "best config" if choice.runner_up.row == choice.best else "runner-up"
        text = f"Against the {who}, {name(verdict, choice.runner_up.row)}, it is"
        yield Statement("", f"{text} {_expected(verdict, choice.row, choice.runner_up)}.", vars(choice.runner_up))
        rivals = rivals if verdict.rises_with else {who: choice.runner_up, **rivals}
    if verdict.differences.apart.any() and not choice.cost and choice.row != verdict.baseline:
        yield from _tied(verdict, choice.row)
    if choice.sacrificed is not None and choice.cost and verdict.differences.apart.any():
        yield _cheaper(verdict, choice.sacrificed)
    else:
        for who, rival in rivals.items():
            yield from _costs(verdict, choice.row, rival.row, who)
    if verdict.rises_with:
        yield _rises(verdict, choice.row)
    if audits.worse:
        yield _worse(verdict, choice.row, *audits.worse)
    if audits.longer:
        yield _longer(verdict, *audits.longer)
    if audits.leg:
        yield _leg_alone(audits.leg)


def _replaced(verdict: SweepComparison) -> Iterator[Statement]:
    if why := verdict.skipped.get(verdict.objective):
        text = f"The objective, {verdict.objective}, does not decide: {why}; {verdict.metric} replaces it."
        yield Statement("", text, {"objective": verdict.objective, "metric": verdict.metric})


def _refusing(verdict: SweepComparison, row: int, refusing: Mapping[int, int]) -> Iterator[Statement]:
    """Yield a sentence on the choice if it refuses all answerable questions, or else one on each config that does.

    ``refusing`` maps the row of each of these configs to the number of questions that it refuses.
    """
    if row in refusing:
        same = ", as all others do" if len(refusing) == len(verdict.results) else ""
        text = f"It refuses all {refusing[row]:,} answerable questions{same}."
        yield Statement("", text, {"refused": refusing[row]})
        return
    for other, refused in refusing.items():
        higher = verdict.ranked[other] > verdict.ranked[row]
        mean = score(verdict, float(verdict.means[other]))
        weigh = "set success.unanswerable to the share of unanswerable questions in production"
        better = f"; its score of {mean} is better than that of the choice, so {weigh}" if higher else ""
        text = f"{name(verdict, other)} refuses all {refused:,} answerable questions and is not chosen{better}."
        yield Statement("", text, {"config": verdict.matrix.configs[other], "refused": refused})


def _headline(verdict: SweepComparison, row: int) -> Statement:
    choice, config, mean = verdict.choice, name(verdict, row), float(verdict.means[row])
    data = {"config": verdict.matrix.configs[row], "metric": verdict.metric, "mean": mean, "limits": choice.limits}
    if not verdict.differences.apart.any():
        configs = "both configs" if len(verdict.results) == 2 else f"all {counted(len(verdict.results), 'config')}"
        same = "have the same score on every question."
        if mean == 0 and verdict.matrix.higher_is_better:
            advice = "Before comparing them again, change a setting that they have in common."
            same = f"score {score(verdict, mean)} on every question. {advice}"
        text = f"{_by_cost(verdict, row)}. {verdict.metric} cannot decide, because {configs} {same}"
        return Statement("", text, data)
    value, most = score(verdict, mean), "highest" if verdict.matrix.higher_is_better else "lowest"
    within = f", within {bounds(choice.limits)}" if choice.limits else ""
    if row == verdict.baseline:
        best = f"the best config, {name(verdict, choice.best)}, which is"
        known = f"neither better with more than {likelihood(LIKELY)} probability nor shown to be cheaper"
        why = f"it loses less than {size(verdict, choice.loss)} on average against {best} {known}"
        why = "it is shown to be cheaper than the best config" if choice.cost else why
        why = f"it has the {most} expected {verdict.metric}" if row == choice.best else why
        return Statement("", f"Keep {config}, the baseline: {why} (mean {value}{within}).", data)
    if choice.baseline is not None:
        found, doubt, base = _expected(verdict, row, choice.baseline), "", choice.baseline.row
        if not verdict.is_better:
            losses = choice.losses and not choice.losses.survives and verdict.verdicts[row].is_better
            doubt = "; rare large losses cannot be excluded" if losses else "; not enough to call it better"
            cost = verdict.costs.deciding([row, base])
            doubt += ", but it is shown to be cheaper" if cost and verdict.costs.saves(cost, row, base) else ""
        if verdict.verdicts[row].kind == THE_SAME:
            found, doubt = "the same score on every question", doubt.removeprefix("; not enough to call it better")
        rival = f"{name(verdict, base)}, the baseline"
        if not within_limits(verdict.costs.values, choice.limits, len(verdict.results))[base]:
            rival, within = f"{rival}, which is not known to be{within.removeprefix(',')}", ""
        text = f"{config}: against {rival}, {found}{within}{doubt}."
        return Statement("", text, {**data, **vars(choice.baseline)})
    expected = f"{most} expected" if choice.sacrificed is None else "expected"
    answering = " of the configs that answer" if choice.refusing else ""
    return Statement("", f"{config}: {expected} {verdict.metric}{answering}, {value}{within}.", data)


def _by_cost(verdict: SweepComparison, row: int) -> str:
    """Describe the choice among configs with equal scores: its name and, if costs decide, a comparison of its cost."""
    costs, rows, config = verdict.costs, range(len(verdict.results)), name(verdict, row)
    cost = verdict.choice.cost or costs.deciding(rows)
    if not cost:
        return config
    if costs.values[cost][row] == costs.values[cost].min() and any(costs.saves(cost, row, other) for other in rows):
        return f"{config}: the cheapest, with {_priced(verdict, cost, row)}{_while_busy(verdict, cost, row)}"
    if any(costs.saves(cost, other, row) for other in rows):  # a cheaper config exists, but cannot be chosen
        return config
    kept = f"Keep {config}, the baseline" if row == verdict.baseline else config
    return f"{kept}: no config is shown to be cheaper"


def _expected(verdict: SweepComparison, row: int, found: Against) -> str:
    """Format the probability that the choice is better than ``found.row``, its expected gain, and its possible loss.

    The expected gain is the gain on new questions, a difference of shrunk means. The measured gain, a difference of the
    means in the table, follows in parentheses; it is omitted if labels correct the means, which are then not shrunk, or
    if the questions guided a search. The first comparison also states any selection bias of the measured gain.
    If the probability is NaN, only the mean gain and the reason (too few independent questions) are formatted.
    """
    gain, measured = lead(verdict, found.gain), float(verdict.ranked[row] - verdict.ranked[found.row])
    if math.isnan(found.probability):
        return f"better by {gain} on average; too few independent questions for a probability"
    lost = f"; if it is worse, then by {deficit(verdict, found.lost)} on average"
    lost = lost if found.probability < SURE else ""
    if not (verdict.differences.by_labels or verdict.adaptive):
        is_first = found is (verdict.choice.baseline or verdict.choice.runner_up)
        is_selected = row == verdict.selection_bias.winner and not verdict.rises_with
        is_inflated = is_first and is_selected and gain != lead(verdict, measured)
        why = ", inflated by choosing the best" if is_inflated and found.gain < measured else ""
        gain += f" on new questions ({lead(verdict, measured)} measured{why})"
    return f"better with {likelihood(found.probability)} posterior probability, expected gain {gain}{lost}"


def _cheaper(verdict: SweepComparison, best: Against) -> Statement:
    choice = verdict.choice
    assert choice.row is not None
    lost, pair = verdict.beliefs.expected_loss(choice.row, best.row), (choice.cost, choice.row, best.row)
    saving = _priced(verdict, *pair) + _while_busy(verdict, *pair)
    limit, loses = size(verdict, choice.loss), deficit(verdict, lost)
    loses = f"almost {loses}" if loses == limit else loses
    text = (
        f"It is the cheapest of the configs that lose less than {limit} on average against the best,"
        f" {name(verdict, best.row)}, and are shown to be cheaper: it loses {loses}, with {saving}."
    )
    return Statement("", text, {"cost": choice.cost, "lost": lost, "limit": choice.loss})


def _tied(verdict: SweepComparison, row: int) -> Iterator[Statement]:
    """Yield a statement on the cheapest config, except the baseline, with the choice's scores but a higher cost."""
    costs, scores, configs = verdict.costs, verdict.matrix.values, verdict.matrix.configs
    others = set(range(len(scores))) - {row, verdict.baseline}
    tied = [other for other in sorted(others) if np.array_equal(scores[other], scores[row])]
    cost = costs.deciding([row, *tied]) if tied else ""
    if dearer := [other for other in tied if cost and costs.saves(cost, row, other)]:
        other = min(dearer, key=lambda one: (costs.values[cost][one], configs[one]))
        saving = _priced(verdict, cost, row, other) + _while_busy(verdict, cost, row, other)
        data = {"config": configs[other], "cost": cost}
        yield Statement("", f"It has the same score on every question as {name(verdict, other)}, with {saving}.", data)


def _priced(verdict: SweepComparison, cost: str, row: int, *instead_of: int) -> str:
    currency = f" {verdict.results[row].summaries.metrics[cost].unit}".rstrip()
    unit = {"cost_per_1000": currency, "latency_p95_ms": " ms"}.get(cost, "")
    first, *other = (f"{number(verdict.costs.values[cost][n], '-')}{unit}" for n in (row, *instead_of))
    return " instead of ".join([PRICED[cost].format(first), *other])


def _while_busy(verdict: SweepComparison, cost: str, *rows: int) -> str:
    """Return a phrase if ``cost`` is a latency, measured on a busy machine for any of the configs ``rows``; else ""."""
    is_busy = cost.startswith("latency") and any(slowness(verdict.results[row]) >= BUSY for row in rows)
    return ", measured while the machine was busy" if is_busy else ""


def _costs(verdict: SweepComparison, row: int, other: int, who: str) -> Iterator[Statement]:
    """Yield a statement on the costs in which the choice and ``other``, called ``who``, differ notably.

    A difference is notable if it is significant and the factor is at least `NOTABLE`. A choice that is slower by this
    factor is mentioned even if the difference is within the variation of the machine, which is then stated.
    """
    ratios, texts = dict[str, float](), []
    for cost, values in verdict.costs.values.items():
        if not values[other] > 0 or math.isnan(values[row]):
            continue
        ratio = float(values[row] / values[other])
        apart = verdict.costs.saves(cost, row, other) or verdict.costs.saves(cost, other, row)
        is_slower = cost.startswith("latency") and values[row] - values[other] >= LEAST_MS
        if (apart or is_slower) and max(ratio, 1 / ratio if ratio else math.inf) >= NOTABLE:
            ratios[cost] = ratio
            by = _while_busy(verdict, cost, row, other).removeprefix(", ") or factor(ratio)
            by += "" if apart else ", not certain: the speed of the machine varies"
            texts.append(f"{_priced(verdict, cost, row, other)} ({by})")
    if texts:
        yield Statement("", f"Against the {who}, it has {', '.join(texts)}.", ratios)


def _rises(verdict: SweepComparison, row: int) -> Statement:
    keys, chosen = " and ".join(verdict.rises_with), verdict.results[row].run
    differing = (set(differing_parameters(chosen, one.run)) for one in verdict.results)
    rows = [n for n, names in enumerate(differing) if names <= {*verdict.rises_with}]
    costs = {cost: values[rows] for cost, values in verdict.costs.values.items()}
    shown = [
        f"{WORDS[cost]} ({number(float(values.min()), '-')} to {number(float(values.max()), '-')})"
        for cost, values in costs.items()
        if cost != "latency_p95_ms" and values.min() < values.max()
    ]
    by = " or ".join(shown) or "tokens, cost or latency"
    text = (
        f"A higher {keys} does not lower {verdict.metric} on any question, though it may change the answers: choose"
        f" {keys} by {by}, or set constraints.context_tokens."
    )
    return Statement("", text, {"keys": verdict.rises_with})


def _worse(verdict: SweepComparison, row: int, metric: str, other: int) -> Statement:
    """Return a statement on a metric in which the choice is shown to be worse than the reference.

    If the choice is the reference, the statement is on a metric in which config ``other`` is shown to be better.
    """
    found, unit = verdict.others[metric][1], verdict.results[row].summaries.metrics[metric].unit
    estimate, low, high = found.interval(other)
    who = f"{name(verdict, other)} is shown to be better than the choice"
    if row != verdict.reference:
        who = f"It is shown to be worse than {name(verdict, verdict.reference)}"
    text = f"{who} in {metric}: {change_with_interval(estimate, low, high, unit, found.ratios)}."
    return Statement("", text, {"metric": metric, "estimate": estimate, "low": low, "high": high})


def _longer(verdict: SweepComparison, other: int, found: LongerContext) -> Statement:
    equal = f"; compare at equal length: {' '.join(found.equal)}" if found.equal else ""
    text = (
        f"Against {name(verdict, other)}, context tokens rise from {number(found.tokens_before, '-')} to"
        f" {number(found.tokens_after, '-')} with {' and '.join(found.keys)}, and {verdict.metric} rises with"
        f" length{equal}."
    )
    return Statement("", text, vars(found))


def _leg_alone(found: BetterLeg) -> Statement:
    chance = "" if found.shown else "; the difference may be due to chance"
    text = (
        f"Its {found.leg} retriever alone has {found.metric} {number(found.alone)} instead of {number(found.hybrid)}:"
        f" {with_interval(found.difference, found.low, found.high)}{chance};"
        f" to run this retriever alone: {' '.join(found.overrides)}."
    )
    return Statement("", text, vars(found))


def bounds(limits: Mapping[str, float]) -> str:
    """Format limits of metrics: ``context_tokens 2000, cost_per_1000 0.5``."""
    return ", ".join(f"{cost} {limit:.15g}" for cost, limit in limits.items())
