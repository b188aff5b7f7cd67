"""Embedders: convert texts to vectors."""

from ragsweep.parts.embedders.api import ApiEmbedder
from ragsweep.parts.embedders.hashing import HashingEmbedder
from ragsweep.parts.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragsweep.parts.embedders.use_multilingual import UseMultilingualEmbedder
from ragsweep.parts.embedders.wordllama import WordLlamaEmbedder
