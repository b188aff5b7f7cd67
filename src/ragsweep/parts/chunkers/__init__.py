"""Chunkers: cut documents into chunks, the units of retrieval."""

from ragsweep.parts.chunkers.markdown import Markdown
from ragsweep.parts.chunkers.pauses import Recursive, Semantic
from ragsweep.parts.chunkers.windows import FixedSize, NoChunker, ParentChild, SentenceWindow, Tokens
