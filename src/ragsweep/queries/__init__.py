"""What is searched with: the question alone, the conversation, or a query that a model makes of it."""

from ragsweep.queries.history import History
from ragsweep.queries.last import Last
from ragsweep.queries.rewrite import Rewrite

__all__ = ["History", "Last", "Rewrite"]
