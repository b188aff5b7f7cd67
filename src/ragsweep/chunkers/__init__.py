"""Chunkers cut documents into the units that are retrieved."""

from ragsweep.chunkers.fixed_size import FixedSize
from ragsweep.chunkers.none import NoChunker
from ragsweep.chunkers.recursive import Recursive

__all__ = ["FixedSize", "NoChunker", "Recursive"]
