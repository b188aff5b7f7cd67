"""Queries: search with the question, with the conversation, or with a question rewritten by a model."""

from ragsweep.parts.queries.writers import History, Last, Rewrite
