"""Routers: which questions need the corpus."""

from ragsweep.routers.llm import Llm
from ragsweep.routers.none import NoRouter
from ragsweep.routers.rule import Rule
from ragsweep.routers.similarity import Similarity

__all__ = ["Llm", "NoRouter", "Rule", "Similarity"]
