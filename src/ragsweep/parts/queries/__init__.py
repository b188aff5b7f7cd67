"""Queries: the question alone, the conversation, or a model's rewrite of the question."""

from ragsweep.parts.queries.conversation import History, Last
from ragsweep.parts.queries.rewrite import Rewrite
