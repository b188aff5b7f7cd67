"""Compare the configs of a sweep by scores and costs: choose a config, and collect the evidence on the others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ragsweep.core.results import COMPLETE, DROPPED, PARTIAL, Failure, Result, judged_metrics, objectives, shown_metrics
from ragsweep.stats.choice import Choice, ConfigCosts, choose, find_tolerance
from ragsweep.stats.comparable import is_complete, is_mean, is_scored, labels_of
from ragsweep.stats.comparison import ExcludedConfig, NoComparison, SweepComparison, count_reasons
from ragsweep.stats.context_effect import refuses_all
from ragsweep.stats.context_length import length_keys, rises_with
from ragsweep.stats.inference.best import amounts_bias
from ragsweep.stats.inference.differences import all_pairs, compare_amounts, compare_parts
from ragsweep.stats.inference.estimates import Differences, RareLosses
from ragsweep.stats.inference.matrix import Matrix, score_matrix, transform_amounts
from ragsweep.stats.inference.power import each_level, estimate_power
from ragsweep.stats.inference.rare_losses import largest_loss, rare_losses
from ragsweep.stats.inference.shrinkage import posterior
from ragsweep.stats.inference.slices import by_slice, reversals
from ragsweep.stats.repetition import VarianceShares, variance_shares
from ragsweep.stats.verdict import Beliefs

SLICED = 20
"""Maximum number of configs compared by slice: the reference and the best others; more would widen all intervals."""
SET_LEVEL = 0.975
"""Level of ``all_pairs`` if a baseline is declared.

The intervals against the baseline exclude the best config by mistake in up to 2.5 % of sweeps, and the comparison of
all pairs does so in up to another 2.5 %.
"""


def compare_configs(
    results: Sequence[Result],
    failures: Sequence[Failure] = (),
    set_aside: Sequence[ExcludedConfig] = (),
    baseline: str | None = None,
    reference: str | None = None,
) -> SweepComparison | NoComparison:
    """Compare the configs of a sweep by the first objective, the other objectives, and headline and judged metrics.

    ``baseline`` names the config in production, if one is declared. Without a baseline, differences refer to
    ``reference``, by default the choice. Configs that a race dropped, that failed, or that have too few scores of the
    deciding metric (``coverage``) are left out; ``set_aside`` lists other excluded configs, which are not in
    ``results``. Any other metric with too few scores in a compared config is skipped. The next comparable metric
    replaces an objective that is not a mean with a direction (a quantile, for example), that was not measured for every
    config, or for which fewer than two configs have enough scores.
    """
    left_out = [ExcludedConfig(result.name, "dropped by the race") for result in results if result.run.state == DROPPED]
    left_out += [*(ExcludedConfig(failure.name, "failed") for failure in failures), *set_aside]
    results = [result for result in results if result.run.state in (COMPLETE, PARTIAL)]
    if reason := _reason_incomparable(results, left_out):
        return NoComparison(reason)
    measured = _measured_in_all(results)
    skipped = {name: why for name in measured if (why := _reason_not_compared(results, name))}
    usable = [name for name in measured if name not in skipped]
    partly = (name for one in results for name in _named(one) if name in one.summaries.metrics)
    for name in dict.fromkeys([*objectives(results[0].run.config), *partly]):
        if name not in measured:
            skipped[name] = "it was not measured for every config"
    if not usable:
        return NoComparison("; ".join(f"{name} is not compared: {why}" for name, why in skipped.items()))
    metric = usable[0]
    scored = [result for result in results if is_scored(result, metric)]  # at least two configs
    unscored = [result for result in results if not is_scored(result, metric)]
    left_out[:0] = [ExcludedConfig(result.name, PARTIAL) for result in unscored if not is_complete(result, metric)]
    left_out += [ExcludedConfig(result.name, "not measured") for result in unscored if is_complete(result, metric)]
    partial = [name for name in usable if not all(is_scored(result, name) for result in scored)]
    skipped |= dict.fromkeys(partial, "some configs have too few scored questions")
    kept = [name for name in usable if name not in partial]
    return _compare(scored, kept, skipped, tuple(left_out), (baseline, reference))


def deciding_metric(results: Sequence[Result]) -> str:
    """Return the metric by which a sweep decides: the first comparable one, else the first objective, else ""."""
    results = [result for result in results if result.run.state in (COMPLETE, PARTIAL)]
    if not results:
        return ""
    usable = (name for name in _measured_in_all(results) if not _reason_not_compared(results, name))
    return next(usable, next(iter(objectives(results[0].run.config)), ""))


def _measured_in_all(results: Sequence[Result]) -> list[str]:
    """Return the metrics that every config has: first the objectives of any config, then ``_named`` metrics."""
    names = dict.fromkeys([*(name for one in results for name in objectives(one.run.config)), *_named(results[0])])
    return [name for name in names if name and all(name in result.summaries.metrics for result in results)]


def _named(result: Result) -> list[str]:
    """Return the metrics by which a config is to be compared: objectives, headline and judged metrics."""
    return list(dict.fromkeys([*shown_metrics(result.run.config), *judged_metrics(result)]))


def _compare(
    results: Sequence[Result],
    metrics: Sequence[str],
    skipped: Mapping[str, str],
    left_out: tuple[ExcludedConfig, ...],
    against: tuple[str | None, str | None],
) -> SweepComparison | NoComparison:
    matrix = score_matrix(results, metrics[0])
    if not matrix.questions:
        return NoComparison(f"no question has a score for {metrics[0]} in all {len(results)} configs")
    units = {metric: results[0].summaries.metrics[metric].unit for metric in metrics}
    unit, compared = units[metrics[0]], transform_amounts(matrix, units[metrics[0]])
    baseline, reference = (matrix.configs.index(one) if one in matrix.configs else None for one in against)
    costs, beliefs = ConfigCosts(results), posterior(compared)
    choice = decide(results, matrix, beliefs, costs, baseline)
    reference = find_reference(choice, baseline) if baseline is not None or reference is None else reference
    pairs = all_pairs(compared, SET_LEVEL if baseline is not None else 0.95)
    differences = compare_amounts(matrix, reference, unit, None if baseline is not None else pairs.largest)
    by_mean = np.argsort(-compared.better.mean(axis=1), kind="stable").tolist()
    rows = (reference, *[row for row in by_mean if row != reference][: SLICED - 1])
    safe = np.array([bool(length_keys(results[row], results[reference], matrix)) for row in rows])
    slices = by_slice(compared.select_configs(rows), labels_of(results[0], matrix.questions), rising=safe)
    others = {name: other for name in metrics[1:] if (other := score_matrix(results, name)).questions}
    return SweepComparison(
        matrix=matrix,
        compared=compared,
        objective=(*objectives(results[0].run.config), metrics[0])[0],
        unit=unit,
        baseline=baseline,
        reference=reference,
        beliefs=beliefs,
        choice=choice,
        differences=differences,
        pairs=pairs,
        selection_bias=amounts_bias(matrix, unit),
        power=estimate_power(compared, reference, level=each_level(differences)),
        margin=find_tolerance(results[0].run.config, "margin", matrix, unit),
        results=results,
        costs=costs,
        sliced=rows,
        slices=slices,
        reversals=reversals(differences, sorted(slices, key=lambda part: -part.questions), rows),
        rises_with=() if choice.row is None else rises_with(results[choice.row], results, matrix),
        others={name: (other, _beside(other, reference, units[name], baseline)) for name, other in others.items()},
        skipped=skipped,
        left_out=left_out,
        declared=against[0],
        concentration=compare_parts(matrix, reference, unit, baseline is not None),
        variance=_variances(results, matrix, reference),
    )


def decide(
    results: Sequence[Result], matrix: Matrix, beliefs: Beliefs, costs: ConfigCosts, baseline: int | None
) -> Choice:
    """Choose a config, by the first config's ``constraints`` and ``recommend.loss``; add the effect of rare losses."""
    config, unit = results[0].run.config, results[0].summaries.metrics[matrix.metric].unit
    loss = find_tolerance(config, "loss", matrix, unit)
    refusing = [row for row, result in enumerate(results) if refuses_all(result)]
    choice = choose(beliefs, costs, config.get("constraints") or {}, loss, refusing, baseline)
    if choice.row is None or choice.baseline is None:
        return choice
    return replace(choice, losses=guard(results, transform_amounts(matrix, unit), choice.row, choice.baseline.row))


def guard(results: Sequence[Result], compared: Matrix, row: int, other: int) -> RareLosses | None:
    """Return the effect of rare large losses on the lead of ``row`` over ``other``.

    Return None if the configs differ only in the length of their contexts, and a longer context can only raise the
    metric (see ``length_keys``).
    """
    if length_keys(results[row], results[other], compared):
        return None
    gains = compared.better[row] - compared.better[other]
    largest = largest_loss(compared.scores[other], compared.unit, falls=compared.higher_is_better)
    return rare_losses(gains, compared.clusters, largest, compared.weights)


def find_reference(choice: Choice, baseline: int | None) -> int:
    """Return the row to which differences refer: the baseline, else the choice, else the best row."""
    if baseline is not None:
        return baseline
    return choice.best if choice.row is None else choice.row


def _beside(matrix: Matrix, reference: int, unit: str, baseline: int | None) -> Differences:
    largest = None if baseline is not None else all_pairs(transform_amounts(matrix, unit)).largest
    return compare_amounts(matrix, reference, unit, largest)


def _variances(results: Sequence[Result], matrix: Matrix, reference: int) -> dict[int, VarianceShares]:
    """Return, by row, the variance shares of the difference from the reference; {} if nothing is repeated."""
    found = {
        row: variance_shares([results[reference], results[row]], matrix.select_configs((reference, row)))
        for row in range(len(results))
        if row != reference
    }
    return {row: shares for row, shares in found.items() if shares}


def _reason_incomparable(results: Sequence[Result], left_out: Sequence[ExcludedConfig]) -> str:
    """Return why configs cannot be compared at all; "" if they can."""
    what = f"remains ({count_reasons(left_out)})" if left_out else "was evaluated"
    if not results:
        return f"no config {what}, so there is nothing to compare"
    if len(results) == 1:
        one = f"only one config, {results[0].name}," if left_out else "only one config"
        return f"{one} {what}, so there is nothing to compare it with"
    if len({result.run.dataset.golden_digest for result in results}) > 1:
        return "the configs have different questions, so they cannot be compared; sweep over one golden set"
    return ""


def _reason_not_compared(results: Sequence[Result], metric: str) -> str:
    """Return why configs cannot be compared by a metric; "" if they can."""
    if results[0].summaries.metrics[metric].higher_is_better is None:
        return "neither higher nor lower values are better"
    if not all(is_mean(result, metric) for result in results):
        return "it is not a mean over questions"
    if sum(is_scored(result, metric) for result in results) < 2:
        return "fewer than two configs have enough scored questions"
    return ""
