"""Rerankers: score pairs of a question and a chunk; the pipeline reorders rankings by these scores."""

from ragsweep.parts.rerankers.api import ApiReranker
from ragsweep.parts.rerankers.cross_encoder import CrossEncoder
from ragsweep.parts.rerankers.late_interaction import LateInteraction, NoReranker
