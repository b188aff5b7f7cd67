"""The conclusion of a sweep in JSON types: the choice with its figures, the evidence, and the comparison."""

import math
from typing import Any

import numpy as np

from ragsweep.report.choice import choice_statements
from ragsweep.report.document import texts
from ragsweep.report.evidence import evidence_statements
from ragsweep.report.sweep_document import limit_statements
from ragsweep.report.verdict import verdict_word
from ragsweep.stats.choice import Against
from ragsweep.stats.comparison import SweepComparison, plain_lead, plain_size
from ragsweep.stats.conclusion import SweepConclusion
from ragsweep.stats.inference.matrix import ratio_of


def result_texts(conclusion: SweepConclusion) -> list[str]:
    """Return the sentences on the choice, then the sentences on the evidence."""
    return [*texts(choice_statements(conclusion)), *texts(evidence_statements(conclusion))]


def result_facts(conclusion: SweepConclusion) -> dict[str, Any]:
    """Return the result in JSON types: the choice with its figures and its sentences, and the evidence.

    Without a comparison, ``choice`` is None, and the only other keys are ``kind``, ``where`` (the deciding questions of
    a search), ``sentence`` and ``evidence``.
    """
    sentence, evidence = texts(choice_statements(conclusion)), texts(evidence_statements(conclusion))
    facts: dict[str, Any] = {"kind": conclusion.kind, "choice": conclusion.chosen, "where": conclusion.where}
    if isinstance(conclusion.deciding, SweepComparison):
        facts |= _comparison_facts(conclusion.deciding)
    return {**facts, "sentence": " ".join(sentence), "evidence": evidence}


def _comparison_facts(verdict: SweepComparison) -> dict[str, Any]:
    choice, configs, losses = verdict.choice, verdict.matrix.configs, verdict.choice.losses
    return {
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
        "rare_losses": losses and {**vars(losses), "size": -plain_lead(verdict, -losses.size)},
        "figures": _figures(verdict),
        "from_reference": None if choice.row is None else from_reference(verdict, choice.row),
    }


def _against_facts(verdict: SweepComparison, found: Against | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "config": verdict.matrix.configs[found.row],
        "probability_better": found.probability,
        "expected_gain": plain_lead(verdict, found.gain),
        "lost_if_wrong": -plain_lead(verdict, -found.lost),
    }


def _figures(verdict: SweepComparison) -> dict[str, Any]:
    """Map the metric and each cost to the choice's value and interval; None without a measurement or a choice."""
    chosen, figures = verdict.chosen, dict[str, Any]()
    for metric in (verdict.metric, *verdict.costs.values):
        own = chosen and chosen.summaries.metrics.get(metric)
        figures[metric] = own and {"value": own.value, "low": own.low, "high": own.high}
    if verdict.choice.row is not None and verdict.metric in verdict.corrections:
        corrected = float(verdict.means[verdict.choice.row])
        figures[verdict.metric] = {"value": corrected, "low": math.nan, "high": math.nan}  # no interval
    return figures


def from_reference(verdict: SweepComparison, row: int) -> dict[str, float]:
    """Return a config's lead over the reference (positive if better) and its interval: ``estimate``, ``low``, ``high``.

    If amounts are compared by ratios, ``low`` and ``high`` are NaN, and ``ratio``, ``ratio_low`` and ``ratio_high`` are
    added: the ratio of the config to the reference, with its interval.
    """
    found, sign = verdict.differences, verdict.matrix.sign
    if found.ratios:
        gained = sign * float(verdict.means[row] - verdict.means[verdict.reference])
        ratios = zip(("ratio", "ratio_low", "ratio_high"), map(ratio_of, found.interval(row)), strict=True)
        return {"estimate": gained, "low": math.nan, "high": math.nan, **dict(ratios)}
    estimate, *ends = (sign * end for end in found.interval(row))
    return {"estimate": estimate, "low": min(ends), "high": max(ends)}


def verdict_facts(conclusion: SweepConclusion) -> dict[str, Any]:
    """Return the comparison in JSON types, without the configs' scores.

    Without a comparison, return only the sentences of the conclusion as ``lines``, and ``metric`` as None.
    """
    lines, verdict = [*result_texts(conclusion), *texts(limit_statements(conclusion))], conclusion.compared
    if verdict is None:
        return {"lines": lines, "metric": None}
    configs = verdict.matrix.configs
    labels = {name: _correction(verdict, name) for name in verdict.corrections}
    variance = {configs[row]: vars(one) for row, one in verdict.variance.items()}
    return {
        "lines": lines,
        "metric": verdict.metric,
        "reference": configs[verdict.reference],
        "best": configs[verdict.selection_bias.winner],
        "best_set": conclusion.best_set,
        "configs": {
            config: {"verdict": verdict_word(verdict, row), "probability_better": verdict.verdicts[row].probability}
            for row, config in enumerate(configs)
            if row != verdict.reference
        },
        "optimism": verdict.selection_bias.optimism,
        "expected": verdict.selection_bias.crossfitted,
        **({"optimism_is_lower_bound": True} if verdict.adaptive else {}),
        "detectable": plain_size(verdict, verdict.power.typical),
        "detectable_alone": plain_size(verdict, verdict.power.alone),
        "ratios": verdict.differences.ratios,
        "questions": len(verdict.matrix.questions),
        "asked": verdict.matrix.asked,
        "clusters": len(np.unique(verdict.matrix.clusters)),
        **({"labels": labels} if labels else {}),
        **({"variance": variance} if variance else {}),
        "left_out": [one._asdict() for one in verdict.left_out],
        "not_compared": dict(verdict.skipped),
    }


def _correction(verdict: SweepComparison, metric: str) -> dict[str, Any]:
    """Return the correction of a metric by labels, in JSON types: each config's numbers as judged and as corrected."""
    found = verdict.corrections[metric]
    matrix, corrected = verdict.others.get(metric, (verdict.matrix, verdict.differences))
    ends = (("judged", found.judged, matrix.values.mean(axis=1)), ("corrected", corrected, found.means))
    configs: dict[str, Any] = {config: {} for config in matrix.configs}
    for kind, one, means in ends:
        for row, config in enumerate(matrix.configs):
            difference, low, high = one.interval(row)
            configs[config][kind] = {"mean": float(means[row]), "difference": difference, "low": low, "high": high}
    return {"labels": found.labels, "note": found.note, "configs": configs}
