"""Retrievers rank chunks: by words, by vectors, or by fusing the rankings of others."""

from ragsweep.retrievers.bm25 import Bm25
from ragsweep.retrievers.hybrid_convex import HybridConvex
from ragsweep.retrievers.hybrid_rrf import HybridRrf
from ragsweep.retrievers.none import NoRetriever
from ragsweep.retrievers.vector import Vector

__all__ = ["Bm25", "HybridConvex", "HybridRrf", "NoRetriever", "Vector"]
