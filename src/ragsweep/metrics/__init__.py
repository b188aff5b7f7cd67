"""Metrics: a definition each, and its value for one question."""

from __future__ import annotations

from ragsweep.metrics.amounts import AnswerLength, AnswerSupport, AnswerTokensIn, AnswerTokensOut, CostPer1000
from ragsweep.metrics.answer_language import AnswerLanguage
from ragsweep.metrics.answerability import AnswerFate, Refusal, SuccessRate
from ragsweep.metrics.approximation import AnnEvidenceLost, AnnRecall
from ragsweep.metrics.citations import CitationRecall, CitationsCorrect
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
from ragsweep.metrics.entailment import FaithfulnessNli
from ragsweep.metrics.exactness import ExactMatch, TokenF1
from ragsweep.metrics.expected import DistractorRate, SectionHit
from ragsweep.metrics.grounding import GroundingLexical, GroundingSemantic
from ragsweep.metrics.judge_flags import JudgeSpread, JudgeSuspicious
from ragsweep.metrics.judge_swayed import JudgeSwayed
from ragsweep.metrics.keywords import KeywordCoverage
from ragsweep.metrics.latency import Latency
from ragsweep.metrics.overlap import Bleu, RougeL
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
from ragsweep.metrics.routing import MissedSearch, NeedlessSearch, RouterAccuracy
from ragsweep.metrics.similarity import SemanticSimilarity

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
