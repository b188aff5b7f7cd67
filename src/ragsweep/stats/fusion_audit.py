"""Compare a hybrid with its legs: where fusion gains or loses, and the score of the best leg for each question."""

import math
from dataclasses import replace

import numpy as np

from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.question_results import Flags
from ragsweep.core.results import Result
from ragsweep.stats.audits import BetterLeg, DegradedSlices, FusionAudit, LegComparison, UniqueRecall
from ragsweep.stats.comparable import labels_of
from ragsweep.stats.evidence_traces import Traces, read_traces
from ragsweep.stats.inference.differences import compare_with_baseline
from ragsweep.stats.inference.estimates import Differences, Slice
from ragsweep.stats.inference.matrix import Matrix, score_matrix
from ragsweep.stats.inference.slices import by_slice


def audited_metrics(result: Result) -> tuple[str, ...]:
    """List the metrics by which a result's legs were scored, starting with the objective if it is among them."""
    traces = read_traces(result)
    return tuple(dict.fromkeys(metric for scores in traces.scores.values() for metric in scores)) if traces else ()


@memoize_by_identity  # the terminal, the page and the parent run's tags use the same audit
def fusion_audit(result: Result, metric: str | None = None, reranked: bool = False) -> FusionAudit | None:
    """Compare a hybrid with each of its legs at the same ``top_k`` and budget; the legs are not reranked.

    Args:
        result: Result of a hybrid. With a reranker, the fused ranking before reranking is audited.
        metric: One of :func:`audited_metrics`, by default the first.
        reranked: Whether to audit the hybrid's ranking after the reranker instead.

    Returns:
        The comparison; None if the config is not a hybrid, if no question has a score in all rankings, or if the result
        has no scores of the legs. Older results, and results without a headline metric that needs only evidence, lack
        these scores.
    """
    traces = read_traces(result)
    if traces is None or not traces.scores:
        return None
    legs = list(traces.legs)
    metric = metric or next(iter(traces.scores[legs[0]]))
    matrix = _matrix(result, traces, metric, reranked)
    if not matrix.questions:
        return None
    means = matrix.values.mean(axis=1)
    best = legs[int(matrix.better[1:].mean(axis=1).argmax())]
    oracle = matrix.sign * float(matrix.better[1:].max(axis=0).mean())
    rows, labels = range(1, len(matrix.configs)), labels_of(result, matrix.questions)
    overall, everything = compare_with_baseline(matrix, 0), np.ones(len(matrix.questions), dtype=bool)
    return FusionAudit(
        config=result.name,
        metric=metric,
        top_k=traces.top_k,
        questions=len(matrix.questions),
        hybrid=float(means[0]),
        legs=dict(zip(legs, means[1:].tolist(), strict=True)),
        best_leg=best,
        oracle=oracle,
        headroom=matrix.sign * (oracle - float(means[0])),
        differences=tuple(_compared(matrix, everything, row, overall) for row in rows),
        slices=tuple(
            _compared(matrix, np.array([value == part.value for value in labels[part.label]]), row, part)
            for part in by_slice(matrix, labels)
            for row in rows
        ),
        unique=_unique(traces),
        by_question={
            question: dict(zip(matrix.configs, scores, strict=True))
            for question, scores in zip(matrix.questions, matrix.scores.T.tolist(), strict=True)
        },
    )


def better_leg(result: Result) -> BetterLeg | None:
    """Return a hybrid's best leg if this leg is notably better than the hybrid's final ranking; else None.

    ``LegComparison.notable`` defines "notably". Also return None if there is no :func:`fusion_audit`. The leg has the
    same ``top_k`` and budget and no reranker.
    """
    audit = fusion_audit(result, None, True)
    if audit is None:
        return None
    one = next(each for each in audit.differences if each.leg == audit.best_leg)
    if not (one.lead > 0 and one.notable):
        return None
    ends = (-one.difference, -one.high, -one.low)
    return BetterLeg(one.leg, audit.metric, one.questions, one.alone, one.hybrid, *ends, _alone(result, one.leg))


def _alone(result: Result, leg: str) -> tuple[str, ...]:
    """Return the overrides that run a leg as the only retriever, with the same settings and without a reranker."""
    inside = f"retriever.legs.{leg}"
    given = {line.partition("=")[0]: line for line in result.run.overrides}
    option = given.pop(f"retriever@{inside}", "").partition("=")[2] or leg
    own = (_outside(key, inside) + line[len(key) :] for key, line in given.items() if f"{inside}." in key)
    return (f"retriever={option}", *own, *(["reranker=none"] if result.summaries.reranking else []))


def _outside(key: str, inside: str) -> str:
    group, _, package = key.replace(inside, "retriever").partition("@")
    # A group in its own package is named without the package: retriever/index, not retriever/index@retriever.index.
    return group if package in ("", group.replace("/", ".")) else f"{group}@{package}"


def _matrix(result: Result, traces: Traces, metric: str, reranked: bool) -> Matrix:
    """Return the scores of the hybrid (row 0, named "") and of its legs as a matrix."""
    # Scores of legs have six digits: more digits for the hybrid would make equal scores differ.
    own = [float(f"{score:.6g}") for score in result.questions[metric]]
    alone = {leg: scores[metric].tolist() for leg, scores in traces.scores.items() if leg or not reranked}
    rankings = [
        replace(result.renamed(leg), questions=result.questions.with_columns({metric: column}))
        for leg, column in ({"": own} | alone).items()
    ]
    return score_matrix(rankings, metric)


def _compared(matrix: Matrix, chosen: Flags, row: int, found: Differences | Slice) -> LegComparison:
    """Turn the difference (leg minus hybrid) on the ``chosen`` questions into a comparison of hybrid and leg."""
    weights = matrix.weights_or_ones[chosen]
    hybrid, alone = (float(np.average(matrix.scores[n][chosen], weights=weights)) for n in (0, row))
    change = matrix.better[0][chosen] - matrix.better[row][chosen]
    part = found if isinstance(found, Slice) else None
    p_holm = found.p_holm if isinstance(found, Slice) else found.randomisation_holm
    return LegComparison(
        leg=matrix.configs[row],
        questions=int(chosen.sum()),
        hybrid=hybrid,
        alone=alone,
        difference=-float(found.estimate[row]),
        low=-float(found.high[row]),
        high=-float(found.low[row]),
        p_holm=float(p_holm[row]),
        worse=bool(found.better[row]),
        better=bool(found.worse[row]),
        wins=int((change > 0).sum()),
        losses=int((change < 0).sum()),
        label=part.label if part else "",
        value=part.value if part else "",
        small=part.small if part else False,
        higher_is_better=matrix.higher_is_better,
    )


def _unique(traces: Traces) -> tuple[UniqueRecall, ...]:
    near = {leg: traces.within(ranks) for leg, ranks in traces.legs.items()}
    number = np.sum(list(near.values()), axis=0)
    kept = traces.within(traces.first)
    return tuple(
        UniqueRecall(leg, int(alone.sum()), float(alone.mean()) if len(alone) else math.nan, int((alone & kept).sum()))
        for leg, mine in near.items()
        for alone in [mine & (number == 1)]
    )


def degraded_slices(result: Result) -> DegradedSlices | None:
    """Return the worst slices where a leg alone is notably better than the config.

    The metric is the first of :func:`audited_metrics` with such a slice. At most three slices are returned, the worst
    first; those after the first are significant. Return None if no metric has such a slice.
    """
    for metric in audited_metrics(result):
        audit = fusion_audit(result, metric, True)
        if audit and (worst := [one for one in audit.lost_slices if one.notable]):
            return DegradedSlices(result.name, metric, [one for one in worst[:3] if one.worse or one is worst[0]])
    return None
