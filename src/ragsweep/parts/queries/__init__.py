"""Queries: the question alone, the conversation, or what a model makes of it."""

from ragsweep.parts.queries.conversation import History, Last
from ragsweep.parts.queries.rewrite import Rewrite

__all__ = ["History", "Last", "Rewrite"]
