"""Metrics: a definition each, and its value for one question."""

from __future__ import annotations

from ragsweep.metrics.approximation import AnnEvidenceLost, AnnRecall
from ragsweep.metrics.context import (
    ContextNdcg,
    ContextPrecision,
    ContextRecall,
    ContextTokenPrecision,
    ContextTokens,
    EmptyRate,
    EvidenceCoverage,
    Results,
    TopScore,
)
from ragsweep.metrics.judge_flags import JudgeSpread, JudgeSuspicious
from ragsweep.metrics.latency import Latency
from ragsweep.metrics.ragas_by_text import (
    RagasIdBasedContextPrecision,
    RagasIdBasedContextRecall,
    RagasNonLlmContextPrecision,
    RagasNonLlmContextRecall,
)
from ragsweep.metrics.ragas_judged import (
    RagasAnswerCorrectness,
    RagasAnswerRelevancy,
    RagasContextPrecision,
    RagasContextPrecisionWithoutReference,
    RagasContextRecall,
    RagasFactualCorrectness,
    RagasFaithfulness,
    RagasNoiseSensitivity,
    RagasSemanticSimilarity,
)
from ragsweep.metrics.ranking import F1, HitRate, MeanAveragePrecision, Mrr, Ndcg, Precision, Recall

__all__ = [
    "F1",
    "AnnEvidenceLost",
    "AnnRecall",
    "ContextNdcg",
    "ContextPrecision",
    "ContextRecall",
    "ContextTokenPrecision",
    "ContextTokens",
    "EmptyRate",
    "EvidenceCoverage",
    "HitRate",
    "JudgeSpread",
    "JudgeSuspicious",
    "Latency",
    "MeanAveragePrecision",
    "Mrr",
    "Ndcg",
    "Precision",
    "RagasAnswerCorrectness",
    "RagasAnswerRelevancy",
    "RagasContextPrecision",
    "RagasContextPrecisionWithoutReference",
    "RagasContextRecall",
    "RagasFactualCorrectness",
    "RagasFaithfulness",
    "RagasIdBasedContextPrecision",
    "RagasIdBasedContextRecall",
    "RagasNoiseSensitivity",
    "RagasNonLlmContextPrecision",
    "RagasNonLlmContextRecall",
    "RagasSemanticSimilarity",
    "Recall",
    "Results",
    "TopScore",
]
