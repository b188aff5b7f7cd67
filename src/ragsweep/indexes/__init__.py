"""Indexes find the nearest vectors."""

from ragsweep.indexes.flat import Flat

__all__ = ["Flat"]
