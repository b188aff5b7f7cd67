"""Metrics: each computes one number per question."""

from ragsweep.parts.metrics.answer_words import ContainsAnswer, ExactMatch, TokenF1, TokenRecall
from ragsweep.parts.metrics.bases import AnswerMetric
from ragsweep.parts.metrics.context import (
    ContextNdcg,
    ContextPrecision,
    ContextRecall,
    ContextTokenPrecision,
    ContextTokens,
    DistractorRate,
    EmptyRate,
    EvidenceCoverage,
    ExpectedCountMet,
    Results,
    SectionHit,
    TopScore,
)
from ragsweep.parts.metrics.decisions import (
    AnswerFate,
    MissedSearch,
    NeedlessSearch,
    Refusal,
    RouterAccuracy,
    SearchRate,
    SuccessRate,
)
from ragsweep.parts.metrics.entailment import FaithfulnessNli
from ragsweep.parts.metrics.grounding import (
    CitationRecall,
    CitationsCorrect,
    GroundingLexical,
    GroundingRougeL,
    GroundingSemantic,
)
from ragsweep.parts.metrics.judge_checks import JudgeSpread, JudgeSuspicious, JudgeSwayed
from ragsweep.parts.metrics.properties import (
    AnswerLanguage,
    AnswerLength,
    AnswerSpeed,
    AnswerSupport,
    AnswerTokensIn,
    AnswerTokensOut,
    CostPer1000,
    Latency,
)
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
from ragsweep.parts.metrics.ranking import (
    F1,
    AnnEvidenceLost,
    AnnRecall,
    HitRate,
    MeanAveragePrecision,
    Mrr,
    Ndcg,
    Precision,
    Recall,
)
from ragsweep.parts.metrics.right_answers import Bleu, ContextSimilarity, KeywordCoverage, RougeL, SemanticSimilarity
from ragsweep.parts.metrics.tasks import TaskMetric, TaskSuccess, UnreadableOutput, WeightedSum
