"""Routers decide which questions need the corpus."""

from ragsweep.parts.routers.llm import Llm
from ragsweep.parts.routers.rules import NoRouter, Rule, Similarity
