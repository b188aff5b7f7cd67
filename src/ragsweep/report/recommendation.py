"""The result of a sweep in one sentence and in JSON types: better, as good and cheaper, or none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ragsweep.report.naming import short
from ragsweep.report.numbers import change_with_interval, number
from ragsweep.report.verdict import against_baseline, best, between, change, name, score, size
from ragsweep.stats.comparison import NoComparison, SweepComparison
from ragsweep.stats.inference.differences import UNSEEN
from ragsweep.stats.inference.power import questions_needed
from ragsweep.stats.inference.recommending import AS_GOOD, BETTER, NONE, Change

WORDS = {
    "cost_per_1000": "money for 1,000 questions",
    "context_tokens": "context tokens",
    "latency_p95_ms": "ms at p95",
}
"""Cost metric -> its unit in a sentence."""
NOTABLE = 1.5
"""Ratio of two costs from which on it belongs to the result."""


class Decision(NamedTuple):
    """What decides the result of a sweep: the scores of its own configs, or those of a search's finalists."""

    verdict: SweepComparison | NoComparison
    where: str = ""  # the questions that decided, where they are not the sweep's own

    @property
    def sentence(self) -> str:
        """The recommendation in one sentence."""
        if not self.where:
            return self.verdict.why if isinstance(self.verdict, NoComparison) else result(self.verdict)
        text = f"none: {self.verdict.why}" if isinstance(self.verdict, NoComparison) else result(self.verdict)
        kind, _, rest = text.partition(": ")
        return f"{kind}, {self.where}: {rest}"

    @property
    def recommended(self) -> str | None:
        """The name of the config that is recommended; None where none is."""
        if isinstance(self.verdict, NoComparison) or self.verdict.recommendation.config is None:
            return None
        return self.verdict.matrix.configs[self.verdict.recommendation.config]

    def sentences(self) -> Iterator[str]:
        """Yield the recommendation and the best configs as sentences for people."""
        if isinstance(self.verdict, NoComparison):
            yield f"{self.verdict.why}{f', {self.where}' if self.where else ''}."
            return
        found = self.verdict.recommendation
        if found.kind == BETTER:
            yield from _shown_better(self.verdict)
        elif found.kind == NONE and found.decide_by and not found.note:
            yield from _highest(self.verdict)
        else:
            text = result(self.verdict).partition(": ")[2]
            text = f"As good and cheaper: {text}" if found.kind == AS_GOOD else text
            names = tuple(map(short, self.verdict.matrix.configs))
            parts = text.split("; ")
            yield from (f"{one if one.startswith(names) else one[0].upper() + one[1:]}." for one in parts)
        if self.where:
            yield f"Decided {self.where}."
        if not found.decide_by:
            yield from best(self.verdict)

    def summary(self, verdict: SweepComparison | NoComparison) -> str:
        """Return verdict and decision in one text."""
        found = verdict.why if isinstance(verdict, NoComparison) else against_baseline(verdict)
        return "; ".join(dict.fromkeys([found, self.sentence]))


def result_facts(decision: Decision) -> dict[str, Any]:
    """Return the recommendation in JSON types: its kind, the config, its figures and differences."""
    verdict, where = decision
    if isinstance(verdict, NoComparison):
        return {"kind": NONE, "sentence": decision.sentence, "where": where, "recommended": None}
    found, configs = verdict.recommendation, verdict.matrix.configs
    figures: dict[str, Any] = {}
    for metric in (verdict.metric, *verdict.costs):
        own = verdict.recommended and verdict.recommended.summaries[metric]
        figures[metric] = own and {"value": own.value, "low": own.low, "high": own.high}
    if found.config is not None and verdict.metric in verdict.corrections:
        figures[verdict.metric] = {"value": float(verdict.means[found.config]), "low": math.nan, "high": math.nan}
    return {
        "kind": found.kind,
        "sentence": decision.sentence,
        "where": where,
        "metric": verdict.metric,
        "recommended": decision.recommended,
        "baseline": configs[0],
        "best": configs[found.best],
        "margin": math.expm1(found.margin) if verdict.differences.ratios else found.margin,
        "limits": dict(found.limits),
        "cost": found.cost or None,
        "cheaper_untold": None if found.untold is None else configs[found.untold],
        "decide_by": list(found.decide_by),
        "figures": figures,
        "from_baseline": None if found.config is None else from_baseline(verdict, found.config),
        "from_best": None if found.from_best is None else _from_best(verdict, found.from_best),
    }


def _from_best(verdict: SweepComparison, found: Change) -> dict[str, float]:
    if not verdict.differences.ratios:
        return vars(found)
    sign = 1.0 if verdict.matrix.higher_is_better else -1.0
    low, high = sorted((sign * found.low, sign * found.high))
    return dict(zip(("ratio", "ratio_low", "ratio_high"), map(math.exp, (sign * found.estimate, low, high)),
                    strict=True))  # fmt: skip


def from_baseline(verdict: SweepComparison, row: int) -> dict[str, float]:
    """Return a config's improvement on the baseline: positive is better, whichever direction the metric has."""
    found, sign = verdict.differences, 1.0 if verdict.matrix.higher_is_better else -1.0
    if found.ratios:
        ratio, low, high = (math.exp(one[row]) for one in (found.estimate, found.low, found.high))
        gained = sign * float(verdict.means[row] - verdict.means[0])
        return {"estimate": gained, "low": math.nan, "high": math.nan,
                "ratio": ratio, "ratio_low": low, "ratio_high": high}  # fmt: skip
    low, high = sorted((sign * float(found.low[row]), sign * float(found.high[row])))
    return {"estimate": sign * float(found.estimate[row]), "low": low, "high": high}


def result(verdict: SweepComparison) -> str:
    """Return the recommendation in one sentence: its kind, the config, its figures, and the comparator."""
    found = verdict.recommendation
    if found.kind == BETTER:
        return f"better: {_better(verdict)}"
    if found.kind == AS_GOOD:
        return f"as good and cheaper: {_as_good(verdict)}"
    return f"none: {_nothing(verdict)}{_untold(verdict)}"


def _better(verdict: SweepComparison) -> str:
    found, row = verdict.recommendation, verdict.recommendation.config or 0
    text = f"{_figure(verdict)} is shown better than {name(verdict, 0)} in {verdict.metric}: {change(verdict, row)}"
    if (apart := found.from_best) is None:
        text += "; it has the highest mean" + _limits(verdict)
    else:
        distance = between(verdict, apart.estimate, apart.low, apart.high)
        text += f"{_limits(verdict)}; from the highest, {name(verdict, found.best)}: {distance}"
    return f"{text}; {_decide(verdict)}" if found.decide_by else text


def _as_good(verdict: SweepComparison) -> str:
    found, row = verdict.recommendation, verdict.recommendation.config or 0
    cost, other = verdict.costs[found.cost], found.best if row == 0 else 0
    saving = f"{number(cost[row], '-')} {WORDS[found.cost]} against {number(cost[other], '-')}"
    saving += _spent(verdict, found.cost, row or found.best, "" if row else f" for {name(verdict, found.best)}")
    margin = size(verdict, found.margin)
    worse = "shown not worse than any other" if found.from_best is None else (
        f"at most {size(verdict, max(-found.from_best.low, 0.0))} worse than the best,"
        f" {name(verdict, found.best)}"
    )  # fmt: skip
    text = f"{'keep ' if row == 0 else ''}{_figure(verdict)}: {worse} (margin {margin}){_limits(verdict)}; {saving}"
    return text if row == 0 else f"{text}; from {name(verdict, 0)}: {change(verdict, row)}"


def _untold(verdict: SweepComparison) -> str:
    """Describe a lower cost that may be chance."""
    found = verdict.recommendation
    if found.untold is None:
        return ""
    cost = f"{WORDS[found.cost]}{_spent(verdict, found.cost, found.untold)}"
    return f"; whether {name(verdict, found.untold)} is cheaper cannot be told: {cost}"


def _spent(verdict: SweepComparison, cost: str, row: int, of: str = "") -> str:
    """Write a cost by question against the baseline's, with its interval; nothing of a quantile."""
    found = verdict.spending.get(cost)
    if found is None:
        return ""
    estimate, low, high = (float(one[row]) for one in (found.estimate, found.low, found.high))
    return f", {change_with_interval(estimate, low, high, '-', found.ratios)}{of}"


def _nothing(verdict: SweepComparison) -> str:
    found, keep = verdict.recommendation, f"keep {name(verdict, 0)}"
    if found.note:
        return f"{keep}: {found.note}"
    if found.decide_by:
        return f"{_decide(verdict)}; the highest is {name(verdict, found.best)}"
    if not found.within:
        return f"{keep}: no config is known to be within {_bounds(found.limits)}"
    if not verdict.differences.apart.any():
        return f"{keep}: all configs have the same score on every question"
    if found.best == 0:
        return f"{keep}: it has the highest mean{_limits(verdict)}"
    return f"{keep}: {_unseparated(verdict)}"


def _unseparated(verdict: SweepComparison) -> str:
    found, configs = verdict.recommendation, len(verdict.matrix.configs)
    if doubt := verdict.differences.doubt(found.best):
        gain = change(verdict, found.best).removesuffix(doubt)
        return f"{name(verdict, found.best)} is better in the mean{_limits(verdict)}, {gain}, but {UNSEEN}"
    some = verdict.worse.any() or verdict.differences.better.any()
    people, basis = verdict.corrections.get(verdict.metric), f"{len(verdict.matrix.questions):,} questions"
    basis += f" with {people.labels} labels a config" if people else ""
    text = (
        f"no other config is shown better{_limits(verdict)}" if some
        else f"{basis} cannot separate these {configs:,} configs{_limits(verdict)}"
    )  # fmt: skip
    lead = float(verdict.ranked[found.best] - verdict.ranked[0])
    highest = f"the highest is {name(verdict, found.best)}, {change(verdict, found.best)}"
    if verdict.differences.by_labels:
        return f"{text}; {highest}; more labels would narrow this"
    if needed := questions_needed(lead, float(verdict.power.spread[found.best]), level=verdict.power.level):
        rounded = round(needed, -max(len(str(needed)) - 2, 0))  # two digits: it rests on an estimate
        return f"{text}; {highest}; about {rounded:,} questions would show a lead as large as that"
    return f"{text}; {highest}"


def _decide(verdict: SweepComparison) -> str:
    """Name the cost of each length of the context."""
    keys = " and ".join(verdict.recommendation.decide_by)
    costs = [
        f"{WORDS[cost]} ({number(float(np.nanmin(values)), '-')} to {number(float(np.nanmax(values)), '-')})"
        for cost, values in verdict.costs.items()
        if np.nanmin(values) < np.nanmax(values)
    ]
    by = " or ".join(costs) or "tokens, cost or latency"
    return f"{verdict.metric} can only rise with {keys}, so it cannot decide: choose {keys} by {by}"


def _shown_better(verdict: SweepComparison) -> Iterator[str]:
    """Yield sentences for a config that is shown better than the baseline."""
    found, row = verdict.recommendation, verdict.recommendation.config or 0
    yield f"{_figure(verdict)} is better than {name(verdict, 0)} in {verdict.metric}: {change(verdict, row)}."
    if (apart := found.from_best) is not None:
        distance = between(verdict, apart.estimate, apart.low, apart.high)
        yield f"The highest is {name(verdict, found.best)}; the difference from it is {distance}{_limits(verdict)}."
    yield from _costs(verdict, row)
    if found.decide_by:
        yield _choose(verdict)


def _costs(verdict: SweepComparison, row: int) -> Iterator[str]:
    """Yield what a better config costs against the baseline, and the best cheaper one that is shown better as well."""
    ratios = {cost: float(values[row] / values[0]) for cost, values in verdict.costs.items() if values[0] > 0}
    notable = [cost for cost, ratio in ratios.items() if max(ratio, 1 / ratio if ratio else math.inf) >= NOTABLE]
    if notable:
        listed = [
            f"{number(verdict.costs[cost][row], '-')} {WORDS[cost]} instead of {number(verdict.costs[cost][0], '-')}"
            f" (x {ratios[cost]:{',.0f' if ratios[cost] >= 10 else '.2g'}})"
            for cost in notable
        ]
        yield f"It takes {', '.join(listed)}."
    dearer = [cost for cost in notable if ratios[cost] > 1]
    if dearer:
        values = verdict.costs[dearer[0]]
        cheaper = np.flatnonzero(verdict.differences.better & (values * NOTABLE <= values[row])).tolist()
        if cheaper:
            other = max(cheaper, key=lambda one: float(verdict.ranked[one]))
            found = f"{name(verdict, other)} is better than {name(verdict, 0)}, too: {change(verdict, other)}"
            yield f"{found}; it takes {number(values[other], '-')} {WORDS[dearer[0]]}."


def _highest(verdict: SweepComparison) -> Iterator[str]:
    """Yield sentences for a sweep whose metric a longer context can only raise."""
    top = verdict.recommendation.best
    lead = f": {change(verdict, top)} against {name(verdict, 0)}" if top else ""
    beyond = ", more than chance explains" if verdict.differences.better[top] else ""
    yield f"{name(verdict, top)} has the highest {verdict.metric}{lead}{beyond}."
    yield _choose(verdict)


def _choose(verdict: SweepComparison) -> str:
    decided = _decide(verdict).partition(": ")[2]
    keys = " and ".join(verdict.recommendation.decide_by)
    rising = f"That alone is no reason to ship it: a higher {keys} can only raise {verdict.metric}."
    return f"{rising} {decided[0].upper()}{decided[1:]}."


def _figure(verdict: SweepComparison) -> str:
    row = verdict.recommendation.config or 0
    own = verdict.recommended.summaries[verdict.metric] if verdict.recommended else None
    value = score(verdict, float(verdict.means[row]))
    corrected = verdict.metric in verdict.corrections
    if own is None or corrected or math.isnan(own.low) or len(verdict.matrix.questions) != own.n_scored:
        return f"{name(verdict, row)} ({value})"
    return (
        f"{name(verdict, row)} ({value} [{score(verdict, own.low, bare=True)}, {score(verdict, own.high, bare=True)}])"
    )


def _limits(verdict: SweepComparison) -> str:
    limits = verdict.recommendation.limits
    return f" within {_bounds(limits)}" if limits else ""


def _bounds(limits: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {limit:g}" for name, limit in limits.items())
