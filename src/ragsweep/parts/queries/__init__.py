"""What is searched with: the question alone, the conversation, or a query that a model makes of it."""

from ragsweep.parts.queries.history import History
from ragsweep.parts.queries.last import Last
from ragsweep.parts.queries.rewrite import Rewrite

__all__ = ["History", "Last", "Rewrite"]
