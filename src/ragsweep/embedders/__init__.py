"""Embedders turn texts into vectors."""

from ragsweep.embedders.sentence_transformer import SentenceTransformerEmbedder

__all__ = ["SentenceTransformerEmbedder"]
