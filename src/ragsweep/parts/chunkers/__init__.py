"""Chunkers cut documents into the units that are retrieved."""

from ragsweep.parts.chunkers.fixed_size import FixedSize
from ragsweep.parts.chunkers.markdown import Markdown
from ragsweep.parts.chunkers.none import NoChunker
from ragsweep.parts.chunkers.parent_child import ParentChild
from ragsweep.parts.chunkers.recursive import Recursive
from ragsweep.parts.chunkers.semantic import Semantic
from ragsweep.parts.chunkers.sentence_window import SentenceWindow
from ragsweep.parts.chunkers.tokens import Tokens

__all__ = ["FixedSize", "Markdown", "NoChunker", "ParentChild", "Recursive", "Semantic", "SentenceWindow", "Tokens"]
