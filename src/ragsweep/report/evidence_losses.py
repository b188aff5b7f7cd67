"""The evidence that a config loses at each stage, and the effects of its fusion, as a table and sentences."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ragsweep.core.plurals import counted
from ragsweep.core.results import Result
from ragsweep.report.document import Statement
from ragsweep.report.naming import short
from ragsweep.report.numbers import number, signed
from ragsweep.stats import funnel as stages
from ragsweep.stats.audits import DegradedSlices, FusionAudit, LegComparison
from ragsweep.stats.funnel import Counterfactual, Funnel, funnel
from ragsweep.stats.fusion_audit import audited_metrics, fusion_audit

MOST = 3
"""Maximum number of sentences of each kind: on changes with a gain, on other changes to a single leg, and on slices."""

PASSED = {
    stages.CORPUS: "in the corpus",
    stages.CHUNKING: "whole in one chunk",
    stages.INDEX: "kept by the index",
    stages.RETRIEVAL: "among the candidates",
    stages.FUSION: "kept by fusion",
    stages.RERANKING: "kept by the reranker",
    stages.TOP_K: "in the first top_k",
    stages.BUDGET: "within the budget",
}
"""Stage -> description of the evidence that the stage did not lose."""


def loss_facts(result: Result) -> dict[str, Any]:
    """Return a config's losses of evidence by stage, and the comparisons of a hybrid with its legs, as plain dicts.

    ``funnel`` is ``stats.funnel.Funnel`` as a dict (None for a result without evidence, or for an older record), with
    ``sentences``; ``audits`` maps each audited metric to ``stats.audits.FusionAudit`` as a dict, with ``sentences``,
    and is empty for a config that is not a hybrid. Numbers may be NaN.
    """
    found = funnel(result)
    audits = {metric: audit for metric in audited_metrics(result) if (audit := fusion_audit(result, metric))}
    return {
        "funnel": found and {**asdict(found), "sentences": list(funnel_sentences(found))},
        "audits": {
            metric: {**asdict(audit), "sentences": list(audit_sentences(audit))} for metric, audit in audits.items()
        },
    }


def funnel_rows(found: Funnel) -> list[list[str]]:
    """Return one row per stage (description, evidence left, evidence lost), and one on solved questions, if known."""
    rows = [[PASSED[one.stage], f"{one.left:,}", f"{one.lost:,}" if one.lost else ""] for one in found.stages]
    if found.solved or found.unsolved:
        total = found.solved + found.unsolved
        whole = f"solved, of {total:,} questions with all evidence"
        rows.append([whole, f"{found.solved:,}", f"{found.unsolved:,}" if found.unsolved else ""])
    return rows


def funnel_sentences(found: Funnel) -> Iterator[str]:
    """Yield sentences on the effect that a change of one stage would have, and a sentence on phantom hits, if any.

    At most three changes with a gain come first, the largest gain first. At most three other changes from fusion to a
    single leg follow, with or without a gain. All other changes are omitted. A phantom hit is an irrelevant chunk that
    the reranker puts first with a high score.
    """
    gaining = [one for one in found.counterfactuals if one.gain > 0]
    yield from (_counterfactual(one) for one in gaining[:MOST])
    demoting = [one for one in found.counterfactuals if one.change == stages.FUSION and one not in gaining[:MOST]]
    yield from (_demoted(one) for one in demoting[:MOST])
    if found.phantoms:
        first = found.phantoms[0]
        yield (
            f"The reranker puts {counted(len(found.phantoms), 'irrelevant chunk')} first with a score above"
            f" {number(first.usual)}, the median of relevant first chunks; the highest is {number(first.score)}, for"
            f" question {first.question}."
        )


def _counterfactual(one: Counterfactual) -> str:
    gain = f"{signed(one.gain)} recall@{one.cutoff}"
    count = f"{counted(one.recovered, 'piece')} of evidence"
    most = "at most " if one.bound else ""
    leave = f", and {one.dropped:,} would leave" if one.dropped else ""  # otherwise the gain would seem too small
    sentences: Mapping[tuple[str, str], str] = {
        (stages.CHUNKING, "whole"): f"Not splitting {count} into several chunks would bring at most {gain}.",
        (stages.RERANKING, "perfect"): f"A perfect reranker would bring {count} into the context"
        f"{leave and f'{leave} the context'}: at most {gain}.",
        (stages.RERANKING, "none"): f"Without the reranker, {most}{count} would enter the context"
        f"{'' if one.bound else f' and {one.dropped:,} would leave the context'}: {most}{gain}.",
        (stages.BUDGET, "none"): f"Without the budget, {count} more would be in the context: {gain}.",
    }
    if (one.change, one.to) in sentences:
        return sentences[one.change, one.to]
    if one.change == stages.INDEX:
        first = f"the first {one.cutoff} of {one.to or 'the retriever'}"
        return f"Exact search would bring {count} into {first}{leave and f'{leave} them'}: {gain}."
    if one.change == stages.TOP_K:
        return f"top_k={one.to} would recover {most}{count}: recall {most}{signed(one.gain)}."
    return _demoted(one)


def _demoted(one: Counterfactual) -> str:
    return (
        f"Fusion demoted {counted(one.recovered, 'piece')} of evidence that {one.to} had in its first {one.cutoff}, and"
        f" promoted {one.dropped:,} that {one.to} lacked: {one.to} alone would have {signed(one.gain)}"
        f" recall@{one.cutoff}."
    )


def audit_sentences(audit: FusionAudit) -> Iterator[str]:
    """Yield sentences that compare the fused ranking of a hybrid with the rankings of its legs."""
    legs = ", ".join(f"{leg} {number(mean)}" for leg, mean in audit.legs.items())
    yield f"{audit.metric} is {number(audit.hybrid)} fused; each leg alone has: {legs}."
    best = next(one for one in audit.differences if one.leg == audit.best_leg)
    found = "be worse than" if best.worse else "be better than" if best.better else "differ from"
    word = f"{'' if best.worse or best.better else 'not '}shown to {found}"
    yield (
        f"The fusion is {word} its best leg, {best.leg}: {signed(best.difference)} [{signed(best.low)},"
        f" {signed(best.high)}]; better on {counted(best.wins, 'question')}, worse on {best.losses:,}."
        if not math.isnan(best.low)
        else f"The fusion differs from its best leg, {best.leg}, by {signed(best.difference)}; there are too few"
        " questions to judge this difference."
    )
    yield (
        f"Choosing the best leg for each question would give {number(audit.oracle)},"
        f" {signed(audit.oracle - audit.hybrid)} compared with the fusion."
    )
    unique = [one for one in audit.unique if one.evidences]
    if unique:
        counts = "; ".join(f"{one.leg} {one.evidences:,}, of which fusion keeps {one.kept:,}" for one in unique)
        yield f"Pieces of evidence that only one leg has in its first {audit.top_k}: {counts}."
    yield from (slice_sentence(audit.metric, one, "the fusion") for one in audit.lost_slices[:MOST])


def slice_sentence(metric: str, one: LegComparison, hybrid: str) -> str:
    """Describe a leg's lead over its hybrid on a slice, and whether the lead may be due to chance.

    ``hybrid`` is the name of the hybrid in the sentence.
    """
    chance = "is larger than chance explains" if one.worse else "may be due to chance"
    questions = counted(one.questions, "question")
    return (
        f"In {one.label} {one.value} ({questions}), {metric} is {number(one.hybrid)} for {hybrid}"
        f" but {number(one.alone)} for its {one.leg} retriever alone; the difference {chance}."
    )


def degraded_statements(found: DegradedSlices | None) -> Iterator[Statement]:
    """Yield a sentence on each slice in ``found``: a slice on which one leg alone is notably better than the config.

    Yield nothing if ``found`` is None.
    """
    if found:
        for one in found.slices:
            yield Statement("", slice_sentence(found.metric, one, short(found.config)), vars(one))
