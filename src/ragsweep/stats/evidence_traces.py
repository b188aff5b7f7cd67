"""The path of each piece of evidence through the stages of a config, from the stored ranks of its questions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ragsweep.core.question_results import Doubles, Flags, Numbers
from ragsweep.core.results import Result


@dataclass(frozen=True, eq=False)
class Traces:
    """The path of each piece of evidence through the stages. Ranks count from 1; 0 means absent.

    Arrays have one entry per piece, unless noted. ``held`` is 1 if a single chunk contains enough of the piece, and
    otherwise the largest share of the piece in any chunk. ``top`` and the arrays in ``scores`` have one entry per
    question, NaN if unknown.
    """

    questions: Sequence[str]  # question ids
    question: Numbers  # the row of each piece's question
    weights: Doubles  # (questions,)
    held: Doubles
    legs: Mapping[str, Numbers]  # leg of a hybrid -> ranks
    exact: Mapping[str, Numbers]  # ranks by exact search, for legs with an approximate index
    first: Numbers  # ranks after fusion, before reranking
    ranked: Numbers  # final ranks, after reranking if there is a reranker
    in_context: Flags
    top: Doubles  # the score of the first chunk after reranking
    scores: Mapping[str, Mapping[str, Doubles]]  # leg -> metric -> scores; "" is the fused ranking before a reranker
    top_k: int
    candidates: int  # number of reranked candidates; 0 without a reranker
    budgeted: bool  # whether the context has a token budget

    def recall(self, found: Flags) -> float:
        """Return the (weighted) mean over questions of the share of ``found`` pieces; NaN without evidence."""
        number = np.bincount(self.question, minlength=len(self.questions))
        share = np.bincount(self.question, found, len(self.questions)) / np.maximum(number, 1)
        weights = np.where(number > 0, self.weights, 0.0)
        return float(share @ weights / weights.sum()) if weights.sum() else math.nan

    def within(self, ranks: Numbers, cutoff: int | None = None) -> Flags:
        """Flag the ranks from 1 to ``cutoff``, by default ``top_k``."""
        return (ranks > 0) & (ranks <= (self.top_k if cutoff is None else cutoff))


def read_traces(result: Result) -> Traces | None:
    """Read the paths of a result's evidence; return None without evidence, or for an older record without paths."""
    ranks, config = result.questions.evidence, result.run.config
    if ranks is None or not len(ranks.ranked):
        return None
    # an external system uses all that it retrieved
    external = result.run.parameters.get("system", "pipeline") != "pipeline"
    top_k = int(config.get("depth" if external else "top_k") or ranks.ranked.max())
    in_context = (ranks.ranked > 0) & (ranks.ranked <= top_k) if ranks.context is None else ranks.context > 0
    is_reranked = ranks.first is not None
    return Traces(
        questions=result.questions["question_id"],
        question=ranks.question,
        weights=np.array(result.questions.get("weight") or [1.0] * result.questions.rows, dtype=np.float64),
        held=ranks.held,
        legs=ranks.legs,
        exact=ranks.exact,
        first=ranks.ranked if ranks.first is None else ranks.first,
        ranked=ranks.ranked,
        in_context=in_context,
        top=np.full(result.questions.rows, math.nan) if ranks.top is None else ranks.top,
        scores=ranks.scores,
        top_k=top_k,
        candidates=int((config.get("reranker") or {}).get("candidates") or 0) if is_reranked else 0,
        budgeted=ranks.context is not None,
    )
