"""Metrics: one definition each, evaluated for every question."""

from __future__ import annotations

from ragsweep.parts.metrics.answer_properties import (
    AnswerLanguage,
    AnswerLength,
    AnswerSupport,
    AnswerTokensIn,
    AnswerTokensOut,
    CostPer1000,
)
from ragsweep.parts.metrics.answerability import AnswerFate, Refusal, SuccessRate
from ragsweep.parts.metrics.approximation import AnnEvidenceLost, AnnRecall
from ragsweep.parts.metrics.citations import CitationRecall, CitationsCorrect
from ragsweep.parts.metrics.context import (
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
from ragsweep.parts.metrics.entailment import FaithfulnessNli
from ragsweep.parts.metrics.exactness import ExactMatch, TokenF1
from ragsweep.parts.metrics.expected import DistractorRate, SectionHit
from ragsweep.parts.metrics.grounding import GroundingLexical, GroundingSemantic
from ragsweep.parts.metrics.judge_checks import JudgeSpread, JudgeSuspicious, JudgeSwayed
from ragsweep.parts.metrics.keywords import KeywordCoverage
from ragsweep.parts.metrics.latency import Latency
from ragsweep.parts.metrics.overlap import Bleu, RougeL
from ragsweep.parts.metrics.ragas_by_text import (
    RagasIdBasedContextPrecision,
    RagasIdBasedContextRecall,
    RagasNonLlmContextPrecision,
    RagasNonLlmContextRecall,
)
from ragsweep.parts.metrics.ragas_judged import (
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
from ragsweep.parts.metrics.ranking import F1, HitRate, MeanAveragePrecision, Mrr, Ndcg, Precision, Recall
from ragsweep.parts.metrics.routing import MissedSearch, NeedlessSearch, RouterAccuracy
from ragsweep.parts.metrics.similarity import SemanticSimilarity

__all__ = [
    "F1",
    "AnnEvidenceLost",
    "AnnRecall",
    "AnswerFate",
    "AnswerLanguage",
    "AnswerLength",
    "AnswerSupport",
    "AnswerTokensIn",
    "AnswerTokensOut",
    "Bleu",
    "CitationRecall",
    "CitationsCorrect",
    "ContextNdcg",
    "ContextPrecision",
    "ContextRecall",
    "ContextTokenPrecision",
    "ContextTokens",
    "CostPer1000",
    "DistractorRate",
    "EmptyRate",
    "EvidenceCoverage",
    "ExactMatch",
    "FaithfulnessNli",
    "GroundingLexical",
    "GroundingSemantic",
    "HitRate",
    "JudgeSpread",
    "JudgeSuspicious",
    "JudgeSwayed",
    "KeywordCoverage",
    "Latency",
    "MeanAveragePrecision",
    "MissedSearch",
    "Mrr",
    "Ndcg",
    "NeedlessSearch",
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
    "Refusal",
    "Results",
    "RougeL",
    "RouterAccuracy",
    "SectionHit",
    "SemanticSimilarity",
    "SuccessRate",
    "TokenF1",
    "TopScore",
]
