"""Chunkers cut documents into the units that are retrieved."""

from ragsweep.chunkers.fixed_size import FixedSize
from ragsweep.chunkers.markdown import Markdown
from ragsweep.chunkers.none import NoChunker
from ragsweep.chunkers.parent_child import ParentChild
from ragsweep.chunkers.recursive import Recursive
from ragsweep.chunkers.semantic import Semantic
from ragsweep.chunkers.sentence_window import SentenceWindow
from ragsweep.chunkers.tokens import Tokens

__all__ = ["FixedSize", "Markdown", "NoChunker", "ParentChild", "Recursive", "Semantic", "SentenceWindow", "Tokens"]
