"""Embedders: convert texts to vectors."""

from ragsweep.parts.embedders.api import ApiEmbedder
from ragsweep.parts.embedders.hashing import HashingEmbedder
from ragsweep.parts.embedders.packaged import UseMultilingualEmbedder, WordLlamaEmbedder
from ragsweep.parts.embedders.sentence_transformer import SentenceTransformerEmbedder
