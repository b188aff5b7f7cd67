"""Queries: the question alone, the conversation, or a model's rewrite of the question."""

from ragsweep.parts.queries.writers import History, Last, Rewrite
