"""Indexes find the nearest vectors."""

from ragsweep.indexes.flat import Flat
from ragsweep.indexes.hnsw import Hnsw
from ragsweep.indexes.ivf import Ivf
from ragsweep.indexes.pq import Pq
from ragsweep.indexes.qdrant import Qdrant
from ragsweep.indexes.sq import Sq

__all__ = ["Flat", "Hnsw", "Ivf", "Pq", "Qdrant", "Sq"]
