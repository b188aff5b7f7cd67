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
from ragsweep.metrics.latency import Latency
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
    "Latency",
    "MeanAveragePrecision",
    "Mrr",
    "Ndcg",
    "Precision",
    "Recall",
    "Results",
    "TopScore",
]
