"""Rerankers read question and chunk together and put the best candidates in a new order."""

from ragsweep.rerankers.api import ApiReranker
from ragsweep.rerankers.cross_encoder import CrossEncoder
from ragsweep.rerankers.late_interaction import LateInteraction
from ragsweep.rerankers.none import NoReranker

__all__ = ["ApiReranker", "CrossEncoder", "LateInteraction", "NoReranker"]
