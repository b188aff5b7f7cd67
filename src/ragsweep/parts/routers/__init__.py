"""Routers decide which questions need the corpus."""

from ragsweep.parts.routers.llm import Llm
from ragsweep.parts.routers.none import NoRouter
from ragsweep.parts.routers.rule import Rule
from ragsweep.parts.routers.similarity import Similarity
