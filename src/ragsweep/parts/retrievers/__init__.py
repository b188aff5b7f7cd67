"""Retrievers: rank chunks by words or by vectors, or fuse the rankings of other retrievers."""

from ragsweep.parts.retrievers.bm25 import Bm25
from ragsweep.parts.retrievers.hybrids import HybridConvex, HybridRrf
from ragsweep.parts.retrievers.vector import NoRetriever, Vector
