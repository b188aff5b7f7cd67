"""The conclusion of a sweep: the choice, then the evidence, as sentences and in JSON types."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.plurals import counted
from ragsweep.core.results import Result
from ragsweep.report.evidence import evidence_sentences
from ragsweep.report.numbers import change_with_interval, number, with_interval
from ragsweep.report.verdict import in_order, name, plain_size, score, size
from ragsweep.stats.choice import Against
from ragsweep.stats.comparison import NoComparison, SweepComparison
from ragsweep.stats.context_effect import refuses_all
from ragsweep.stats.context_length import LENGTHENING, longer_context
from ragsweep.stats.fusion_audit import better_leg

WORDS = {
    "cost_per_1000": "money for 1,000 questions",
    "context_tokens": "context tokens",
    "latency_p95_ms": "ms at p95",
}
"""Cost metric -> its unit in a sentence."""
SURE = 0.999
"""Probability above which the sentence omits the loss."""
NOTABLE = 1.5
"""Least ratio of two costs that the choice mentions."""
BETTER, KEEP, UNDECIDED, CHOICE, NONE = "better", "keep", "open", "choice", "none"
"""Kinds of a result: better than the declared baseline, the baseline itself, neither; no baseline; no choice."""


class Decision(NamedTuple):
    """The basis of a sweep's result: the scores of its own configs, or those of a search's finalists."""

    verdict: SweepComparison | NoComparison
    where: str = ""  # the deciding questions, if they are not the sweep's own

    @property
    def kind(self) -> str:
        """The kind of the result."""
        if isinstance(self.verdict, NoComparison) or self.verdict.choice.row is None:
            return NONE
        if self.verdict.baseline is None:
            return CHOICE
        if self.verdict.choice.row == self.verdict.baseline:
            return KEEP
        return BETTER if self.verdict.is_better else UNDECIDED

    @property
    def chosen(self) -> str | None:
        """The name of the choice; None if there is none."""
        if isinstance(self.verdict, NoComparison) or self.verdict.choice.row is None:
            return None
        return self.verdict.matrix.configs[self.verdict.choice.row]

    @property
    def sentence(self) -> str:
        """The choice as one text."""
        return " ".join(self.choice())

    def choice(self) -> Iterator[str]:
        """Yield the recommended config and its expected gains."""
        if isinstance(self.verdict, NoComparison):
            why = self.verdict.why
            yield f"No choice: {why}{f', {self.where}' if self.where else ''}."
            return
        yield from choice_sentences(self.verdict)
        if self.where:
            yield f"Decided {self.where}."

    def evidence(self) -> Iterator[str]:
        """Yield the significant and the open findings."""
        if isinstance(self.verdict, SweepComparison):
            yield from evidence_sentences(self.verdict)


def choice_sentences(verdict: SweepComparison) -> Iterator[str]:
    """Yield the choice: the config, its expected gains over baseline and runner-up, and its costs."""
    choice = verdict.choice
    if choice.row is None:
        highest = f"{name(verdict, choice.best)} ({score(verdict, float(verdict.means[choice.best]))})"
        yield f"None: no config is known to be within {_bounds(choice.limits)}; without that, {highest}."
        yield from _replaced(verdict)
        return
    yield _headline(verdict, choice.row)
    yield from _replaced(verdict)
    yield from _refusing(verdict, choice.row)
    if choice.runner_up is not None and (choice.baseline is None or choice.runner_up.row != choice.baseline.row):
        runner_up = name(verdict, choice.runner_up.row)
        yield f"Against the runner-up, {runner_up}, it is {_expected(verdict, choice.runner_up)}."
    if choice.sacrificed is not None and choice.cost and verdict.differences.apart.any():
        yield _cheaper(verdict, choice.sacrificed)
    elif choice.baseline is not None:
        yield from _costs(verdict, choice.row, choice.baseline.row)
    if verdict.rises_with:
        yield _rises(verdict, choice.row)
    yield from _falls(verdict, choice.row)
    yield from _confounded(verdict, choice.row)
    if chosen := verdict.chosen:
        yield from _leg_alone(chosen)


def _replaced(verdict: SweepComparison) -> Iterator[str]:
    """Yield why another metric than the objective decides, where one does."""
    if why := verdict.skipped.get(verdict.objective):
        yield f"The objective, {verdict.objective}, does not decide: {why}; {verdict.metric} replaces it."


def _refusing(verdict: SweepComparison, row: int) -> Iterator[str]:
    """Yield the configs that refuse everything, noting a score higher than that of the choice."""
    for other in verdict.choice.refusing:
        if other == row:
            yield f"It refuses all {refuses_all(verdict.results[other]):,} answerable questions, as all others do."
            return
        higher = verdict.ranked[other] > verdict.ranked[row]
        mean = score(verdict, float(verdict.means[other]))
        weigh = "set success.unanswerable to the share of unanswerable questions in use"
        better = f"; refusing scores {mean}, more than the choice: {weigh}" if higher else ""
        refused = refuses_all(verdict.results[other])
        yield f"{name(verdict, other)} refuses all {refused:,} answerable questions and is not chosen{better}."


def _headline(verdict: SweepComparison, row: int) -> str:
    choice, config = verdict.choice, name(verdict, row)
    if not verdict.differences.apart.any():
        configs = counted(len(verdict.results), "config")
        cost = verdict.costs.deciding(range(len(verdict.results)))
        cheapest = f": the cheapest, with {_priced(verdict, cost, row)}" if cost else ""
        same = f"{verdict.metric} cannot decide: all {configs} have the same score on every question"
        return f"{config}{cheapest}; {same}."
    value = score(verdict, float(verdict.means[row]))
    within = f", within {_bounds(choice.limits)}" if choice.limits else ""
    if row == verdict.baseline:
        why = f"no config is likely better, and none that loses less than {size(verdict, choice.loss)} is cheaper"
        why = f"it has the highest expected {verdict.metric}" if row == choice.best else why
        return f"Keep {config}, the baseline: {why} (mean {value}{within})."
    if choice.baseline is not None:
        found = _expected(verdict, choice.baseline)
        doubt = _doubt(verdict, row)
        return f"{config}: against {name(verdict, choice.baseline.row)}, the baseline, {found}{within}{doubt}."
    expected = "highest expected" if choice.sacrificed is None else "expected"
    answering = " of the configs that answer" if choice.refusing else ""
    return f"{config}: {expected} {verdict.metric}{answering}, {value}{within}."


def _doubt(verdict: SweepComparison, row: int) -> str:
    """Return the reason why the choice is not called better than the baseline; "" if it is."""
    if verdict.is_better:
        return ""
    losses = verdict.verdicts[row].is_better
    return "; rare large losses cannot be excluded" if losses else "; not enough to call it better"


def _expected(verdict: SweepComparison, found: Against) -> str:
    """Write the probability of being better, the expected gain, and the expected loss otherwise."""
    gain = size(verdict, found.gain)
    if math.isnan(found.probability):
        return f"better by {gain} in the mean; too few independent questions for a probability"
    lost = f"; if wrong, it loses {size(verdict, found.lost)} on average" if found.probability < SURE else ""
    return f"better with {percent(found.probability)} probability, expected gain {gain}{lost}"


def percent(probability: float) -> str:
    """Write a probability: ``71 %``, ``99.4 %``, ``more than 99.9 %``."""
    if probability > SURE:
        return "more than 99.9 %"
    return f"{100 * probability:.1f} %" if probability > 0.99 else f"{100 * probability:.0f} %"


def _cheaper(verdict: SweepComparison, best: Against) -> str:
    choice = verdict.choice
    assert choice.row is not None
    values = verdict.costs.values[choice.cost]
    saving = f"{_priced(verdict, choice.cost, choice.row)} instead of {number(values[best.row], '-')}"
    lost = size(verdict, verdict.beliefs.expected_loss(choice.row, best.row))
    limit = size(verdict, choice.loss)
    return (
        f"The cheapest of those that lose less than {limit} on average against the best, {name(verdict, best.row)}:"
        f" it loses {lost}, and takes {saving}."
    )


def _priced(verdict: SweepComparison, cost: str, row: int) -> str:
    return f"{number(verdict.costs.values[cost][row], '-')} {WORDS[cost]}"


def _costs(verdict: SweepComparison, row: int, other: int) -> Iterator[str]:
    """Yield notable cost differences between two configs."""
    listed = []
    for cost, values in verdict.costs.values.items():
        if not values[other] > 0 or math.isnan(values[row]):
            continue
        ratio = float(values[row] / values[other])
        apart = verdict.costs.saves(cost, row, other) or verdict.costs.saves(cost, other, row)
        if apart and max(ratio, 1 / ratio if ratio else math.inf) >= NOTABLE:
            times = f"{ratio:{',.0f' if ratio >= 10 else '.2g'}}"
            listed.append(
                f"{number(values[row], '-')} {WORDS[cost]} instead of {number(values[other], '-')} (x {times})"
            )
    if listed:
        yield f"It takes {', '.join(listed)}."


def _rises(verdict: SweepComparison, row: int) -> str:
    keys = " and ".join(verdict.rises_with)
    shown = [
        f"{WORDS[cost]} ({number(float(values.min()), '-')} to {number(float(values.max()), '-')})"
        for cost, values in verdict.costs.values.items()
        if cost != "latency_p95_ms" and values.min() < values.max()
    ]
    by = " or ".join(shown) or "tokens, cost or latency"
    return (
        f"A higher {keys} can only raise {verdict.metric}, whatever it does to answers: choose {keys} by {by}, or set"
        " constraints.context_tokens."
    )


def _falls(verdict: SweepComparison, row: int) -> Iterator[str]:
    """Yield further metrics in which the choice is shown worse than the reference, or another config better."""
    for metric, (matrix, found) in verdict.others.items():
        if metric in verdict.costs.values or metric.startswith(("latency", "cost")):
            continue
        shown = found.worse if row != verdict.reference else found.better
        rows = [row] if row != verdict.reference else np.argsort(-matrix.better.mean(axis=1), kind="stable").tolist()
        other = next((one for one in rows if shown[one]), None)
        if other is None:
            continue
        unit = verdict.results[row].summaries[metric].unit
        ends = (float(one[other]) for one in (found.estimate, found.low, found.high))
        estimate, low, high = ends
        difference = change_with_interval(estimate, low, high, unit, found.ratios)
        reference = name(verdict, verdict.reference)
        who = (
            f"It is shown worse than {reference}"
            if row != verdict.reference
            else f"{name(verdict, other)} is shown better"
        )
        yield f"{who} in {metric}: {difference}."
        return


def _confounded(verdict: SweepComparison, row: int) -> Iterator[str]:
    """Yield a warning if the choice's context is longer than that of the config it leads over."""
    lead = verdict.choice.baseline or verdict.choice.runner_up
    others = [lead.row] if lead else []
    others += [one for one in in_order(verdict, range(len(verdict.results))) if one not in (row, *others)]
    chosen = verdict.results[row]
    for other in others:
        found = longer_context(verdict.results[other], chosen, verdict.metric)
        if found is None or set(found.keys) <= set(LENGTHENING):
            continue
        equal = f"; compare at equal length: {' '.join(found.equal)}" if found.equal else ""
        yield (
            f"Against {name(verdict, other)} context tokens rise from {number(found.tokens_before, '-')} to"
            f" {number(found.tokens_after, '-')} with {' and '.join(found.keys)}, and {verdict.metric} rises with"
            f" length{equal}."
        )
        return


def _leg_alone(chosen: Result) -> Iterator[str]:
    """Yield a notable lead of a leg alone over the choice."""
    if (found := better_leg(chosen)) is None:
        return
    chance = "" if found.shown else "; chance may explain it"
    yield (
        f"Its leg {found.leg} alone has {found.metric} {number(found.alone)} instead of {number(found.hybrid)}:"
        f" {with_interval(found.difference, found.low, found.high)}{chance}; to run it: {' '.join(found.overrides)}."
    )


def _bounds(limits: Mapping[str, float]) -> str:
    return ", ".join(f"{cost} {limit:g}" for cost, limit in limits.items())


# --- in JSON types -------------------------------------------------------------------------------------------------


def result_facts(decision: Decision) -> dict[str, Any]:
    """Return the conclusion in JSON types: the choice with its figures, its expected gains, and the evidence."""
    verdict, where = decision
    texts: dict[str, Any] = {"kind": decision.kind, "choice": decision.chosen, "sentence": decision.sentence}
    texts |= {"evidence": list(decision.evidence()), "where": where}
    if isinstance(verdict, NoComparison):
        return texts
    choice, configs = verdict.choice, verdict.matrix.configs
    return texts | {
        "metric": verdict.metric,
        "baseline": None if verdict.baseline is None else configs[verdict.baseline],
        "reference": configs[verdict.reference],
        "best": configs[choice.best],
        "against_baseline": _against_facts(verdict, choice.baseline),
        "against_runner_up": _against_facts(verdict, choice.runner_up),
        "against_best": _against_facts(verdict, choice.sacrificed),
        "cost": choice.cost or None,
        "loss": plain_size(verdict, choice.loss),
        "margin": plain_size(verdict, verdict.margin),
        "limits": dict(choice.limits),
        "rises_with": list(verdict.rises_with),
        "rare_losses": None if choice.losses is None else vars(choice.losses),
        "figures": _figures(verdict),
        "from_reference": None if choice.row is None else from_reference(verdict, choice.row),
    }


def _against_facts(verdict: SweepComparison, found: Against | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "config": verdict.matrix.configs[found.row],
        "probability_better": found.probability,
        "expected_gain": plain_size(verdict, found.gain),
        "lost_if_wrong": plain_size(verdict, found.lost),
    }


def _figures(verdict: SweepComparison) -> dict[str, Any]:
    """Return the metric and the costs of the choice, with their intervals."""
    chosen, figures = verdict.chosen, dict[str, Any]()
    for metric in (verdict.metric, *verdict.costs.values):
        own = chosen and chosen.summaries.get(metric)
        figures[metric] = own and {"value": own.value, "low": own.low, "high": own.high}
    if verdict.choice.row is not None and verdict.metric in verdict.corrections:
        corrected = float(verdict.means[verdict.choice.row])
        figures[verdict.metric] = {"value": corrected, "low": math.nan, "high": math.nan}
    return figures


def from_reference(verdict: SweepComparison, row: int) -> dict[str, float]:
    """Return a config's improvement on the reference: positive is better, for either direction of the metric."""
    found, sign = verdict.differences, 1.0 if verdict.matrix.higher_is_better else -1.0
    if found.ratios:
        ratio, low, high = (math.exp(one[row]) for one in (found.estimate, found.low, found.high))
        gained = sign * float(verdict.means[row] - verdict.means[verdict.reference])
        ratios = {"ratio": ratio, "ratio_low": low, "ratio_high": high}
        return {"estimate": gained, "low": math.nan, "high": math.nan, **ratios}
    low, high = sorted((sign * float(found.low[row]), sign * float(found.high[row])))
    return {"estimate": sign * float(found.estimate[row]), "low": low, "high": high}
