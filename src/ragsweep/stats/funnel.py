"""Find the stage at which each piece of evidence is lost, and the effects of changing single stages."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np

from ragsweep.core.question_results import Flags, Numbers
from ragsweep.core.results import Result
from ragsweep.stats.answer_outcomes import success_of
from ragsweep.stats.evidence_traces import Traces, read_traces

CORPUS, CHUNKING, INDEX, RETRIEVAL, FUSION = "corpus", "chunking", "index", "retrieval", "fusion"
RERANKING, TOP_K, BUDGET, ANSWER = "reranking", "top_k", "budget", "answer"
STAGES = (CORPUS, CHUNKING, INDEX, RETRIEVAL, FUSION, RERANKING, TOP_K, BUDGET)
"""The stages that can lose evidence, in order."""


@dataclass(frozen=True)
class StageLoss:
    """The number of pieces of evidence that a stage loses, and the number left after this stage."""

    stage: str
    lost: int
    left: int


@dataclass(frozen=True)
class Counterfactual:
    """The effect of changing one stage, computed from stored ranks.

    ``recall`` is the recall at ``cutoff`` after the change, and ``gain`` is the amount that the change adds to the
    recall. ``recovered`` and ``dropped`` count the pieces of evidence that would be gained and lost. With ``bound``,
    the gain is an upper bound that a config with this change may not reach.
    """

    change: str  # the stage that changes
    to: str  # its new value: a leg, a number, or "none", "whole" or "perfect"
    cutoff: int
    recovered: int
    dropped: int
    recall: float
    gain: float
    bound: bool = False


@dataclass(frozen=True)
class PhantomHit:
    """A question whose first chunk is irrelevant but scores above the median of relevant first chunks."""

    question: str
    chunk: str
    score: float
    usual: float  # the median score of relevant first chunks


@dataclass(frozen=True)
class Funnel:
    """The path of one config's evidence, as plain data (``dataclasses.asdict`` gives JSON types).

    ``fates`` lists, for each question with evidence, the stage that lost each piece; "" if the piece is in the context.
    ``lost_by`` has the first of these stages per question, or "answer" if all evidence is in the context and the answer
    does not solve the question; "" if nothing was lost. Of the questions with all their evidence in the context,
    ``solved`` counts the solved questions and ``unsolved`` the unsolved ones; both are 0 if no answer is scored.
    """

    config: str
    top_k: int
    questions: int
    evidences: int
    recall: float  # recall of the context
    stages: tuple[StageLoss, ...]
    fates: Mapping[str, tuple[str, ...]]
    lost_by: Mapping[str, str]
    split: int  # pieces that chunks contain only in part; if not in the context, they are lost by chunking
    solved: int = 0
    unsolved: int = 0
    counterfactuals: tuple[Counterfactual, ...] = ()
    phantoms: tuple[PhantomHit, ...] = ()
    recall_by_top_k: Mapping[int, float] = field(default_factory=dict)  # cutoff -> recall of the final ranking


def funnel(result: Result) -> Funnel | None:
    """Follow the evidence of a result from the corpus to the context and the answer.

    Return None for a result without evidence, and for older records without paths. Evidence in the context is not lost.
    Any other piece was lost by the first stage of ``STAGES`` whose condition holds:

    - corpus: no chunk has any of it; chunking: no chunk has enough of it (``evidence.threshold``);
    - index: exact search has it among its candidates, but no leg does; or exact search has it in its first ``top_k``,
      but neither a leg nor the fused ranking does;
    - retrieval: no leg has it among its candidates;
    - fusion: a leg has it, but the fused ranking does not; or a leg has it in its first ``top_k``, but neither the
      fused nor the final ranking does;
    - reranking: the ranking before the reranker has it, but the ranking after the reranker does not; or the ranking
      before has it in its first ``top_k``, but the ranking after does not;
    - top_k: no ranking has it in its first ``top_k``;
    - budget: the final ranking has it in its first ``top_k``, but beyond the token budget.
    """
    traces = read_traces(result)
    if traces is None:
        return None
    stage = _lost_at(traces)
    lost = np.bincount(stage, minlength=len(STAGES) + 1)[: len(STAGES)].tolist()
    left = [len(stage) - gone for gone in accumulate(lost)]
    names = np.array([*STAGES, ""])[stage].tolist()
    fates: dict[str, tuple[str, ...]] = {}
    for row, name in zip(traces.question.tolist(), names, strict=True):
        fates[traces.questions[row]] = (*fates.get(traces.questions[row], ()), name)
    lost_by = {name: min(filter(None, all_), key=STAGES.index, default="") for name, all_ in fates.items()}
    unsolved = _unsolved(result, lost_by)
    absent = {  # corpus, chunking, retrieval and top_k are stages of every config
        INDEX: not traces.exact,
        FUSION: not traces.legs,
        RERANKING: not traces.candidates,
        BUDGET: bool((traces.in_context == traces.within(traces.ranked)).all()),
    }
    changes = sorted((one for one in _changes(traces) if one.recovered), key=lambda one: -one.gain)
    cutoffs = np.unique(traces.ranked[traces.ranked > 0]).tolist()
    return Funnel(
        config=result.name,
        top_k=traces.top_k,
        questions=len(fates),
        evidences=len(stage),
        recall=traces.recall(traces.in_context),
        stages=tuple(StageLoss(*row) for row in zip(STAGES, lost, left, strict=True) if not absent.get(row[0])),
        fates=fates,
        lost_by=lost_by | {name: ANSWER for name, failed in unsolved.items() if failed},
        split=int(((traces.held > 0) & (traces.held < 1)).sum()),
        solved=sum(not failed for failed in unsolved.values()),
        unsolved=sum(unsolved.values()),
        counterfactuals=tuple(changes),
        phantoms=tuple(_phantoms(traces, result.questions)),
        recall_by_top_k={cutoff: traces.recall(traces.within(traces.ranked, cutoff)) for cutoff in cutoffs},
    )


def _lost_at(traces: Traces) -> Numbers:
    """Return, for each piece of evidence, the index of the stage that lost it; one past the last stage if none did."""
    within, legs, exact = traces.within, list(traces.legs.values()) or [traces.first], list(traces.exact.values())
    found, near = np.any([leg > 0 for leg in legs], axis=0), np.any([within(leg) for leg in legs], axis=0)
    first, missed = within(traces.first), np.zeros_like(found)
    if exact:
        near_exact = np.any([within(leg) for leg in exact], axis=0)
        missed = (np.any([leg > 0 for leg in exact], axis=0) & ~found) | (near_exact & ~near & ~first)
    conditions = {
        CORPUS: traces.held == 0,
        CHUNKING: traces.held < 1,
        INDEX: missed,
        RETRIEVAL: ~found,
        FUSION: (traces.first == 0) | (near & ~first & ~within(traces.ranked)),
        RERANKING: (traces.ranked == 0) | (first & ~within(traces.ranked)),
        TOP_K: ~within(traces.ranked),
        BUDGET: ~traces.in_context,
    }
    lost = np.select([traces.in_context, *conditions.values()], [len(STAGES), *range(len(STAGES))], len(STAGES))
    return np.asarray(lost, dtype=np.int64)


def _unsolved(result: Result, lost_by: Mapping[str, str]) -> dict[str, bool]:
    """Map each question with a scored answer and all its evidence in the context to whether it remains unsolved.

    Return {} if the result has no answers, or no scores of the success metric.
    """
    questions, success = result.questions, success_of(result)
    if "answer" not in questions or success.metric not in questions:
        return {}
    scores = zip(questions["question_id"], questions[success.metric], strict=True)
    return {
        name: not success.solves(score) for name, score in scores if lost_by.get(name) == "" and not math.isnan(score)
    }


# --- effects of changing one stage --------------------------------------------------------------------------


def _changes(traces: Traces) -> Iterator[Counterfactual]:
    """Yield the effect of each change of a single stage that can be computed from the stored ranks.

    With a token budget, changes of the context are bounds, because the lengths of chunks are not stored.
    """
    context, budgeted = traces.in_context, traces.budgeted
    if (split := (traces.held > 0) & (traces.held < 1)).any():
        yield _change(traces, CHUNKING, "whole", context | split, context, bound=True)
    for leg, exact in traces.exact.items():
        own = traces.legs.get(leg, traces.first)
        yield _change(traces, INDEX, leg, traces.within(exact), traces.within(own))
    for leg, ranks in traces.legs.items():
        yield _change(traces, FUSION, leg, traces.within(ranks), traces.within(traces.first))
    now = traces.within(traces.ranked)
    if traces.candidates:
        yield _change(traces, RERANKING, "none", traces.within(traces.first), context, budgeted)
    seen = traces.within(traces.first, traces.candidates or int(traces.first.max()))
    yield _change(traces, RERANKING, "perfect", _best_order(traces, seen), context, bound=True)
    more = traces.within(traces.ranked, 2 * traces.top_k)
    if (more & ~now).any():
        top_k = int(traces.ranked[more].max())  # the remaining chunks, up to twice ``top_k``, have no evidence
        after = traces.within(traces.ranked, top_k)
        yield replace(_change(traces, TOP_K, str(top_k), after, now, budgeted), cutoff=top_k)
    yield _change(traces, BUDGET, "none", now, context)


def _change(traces: Traces, change: str, to: str, after: Flags, before: Flags, bound: bool = False) -> Counterfactual:
    recall = traces.recall(after)
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    return Counterfactual(change, to, traces.top_k, gained, lost, recall, recall - traces.recall(before), bound)


def _best_order(traces: Traces, seen: Flags) -> Flags:
    """Flag the ``seen`` pieces that would be within ``top_k`` if chunks were ranked by their number of these pieces."""
    stride = int(traces.first.max()) + 1
    place = np.where(seen, traces.question * stride + traces.first, -1)
    chunks, back, covers = np.unique(place, return_inverse=True, return_counts=True)
    order = np.lexsort((-covers, chunks // stride))
    owner = (chunks // stride)[order]
    kept = np.empty(len(chunks), dtype=bool)
    kept[order] = np.arange(len(owner)) - np.searchsorted(owner, owner) < traces.top_k
    return np.asarray(seen & kept[back])


def _phantoms(traces: Traces, outcomes: Mapping[str, Any]) -> Iterator[PhantomHit]:
    """Yield the phantom hits of a config, highest score first; the first chunk is the first after reranking."""
    number = np.bincount(traces.question, minlength=len(traces.questions))
    relevant = np.bincount(traces.question, traces.ranked == 1, len(traces.questions)) > 0
    known = (number > 0) & ~np.isnan(traces.top)
    if not (known & relevant).any():
        return
    usual = float(np.median(traces.top[known & relevant]))
    high = np.flatnonzero(known & ~relevant & (traces.top > usual))
    for row in high[np.argsort(-traces.top[high], kind="stable")].tolist():
        context = outcomes["context"][row]
        yield PhantomHit(traces.questions[row], context[0] if context else "", float(traces.top[row]), usual)
