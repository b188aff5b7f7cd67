"""Routers: decide which questions need a search of the corpus."""

from ragsweep.parts.routers.llm import Llm
from ragsweep.parts.routers.rules import NoRouter, Rule, Similarity
