"""Generators answer questions from their context."""

from ragsweep.generators.extractive import Extractive
from ragsweep.generators.none import NoGenerator

__all__ = ["Extractive", "NoGenerator"]
