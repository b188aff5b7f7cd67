"""Indexes find the nearest vectors."""

from ragsweep.indexes.flat import Flat
from ragsweep.indexes.hnsw import Hnsw
from ragsweep.indexes.ivf import Ivf

__all__ = ["Flat", "Hnsw", "Ivf"]
