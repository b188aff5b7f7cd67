"""Embedders turn texts into vectors."""

from ragsweep.embedders.api import ApiEmbedder
from ragsweep.embedders.sentence_transformer import SentenceTransformerEmbedder

__all__ = ["ApiEmbedder", "SentenceTransformerEmbedder"]
