"""Small chunks inside larger ones."""

from dataclasses import dataclass
from typing import ClassVar

from ragsweep.core.spans import cut_within
from ragsweep.core.types import Chunker, Corpus, PartTraits, Spans


@dataclass(frozen=True)
class ParentChild:
    """Search the chunks that ``child`` cuts from those of ``parent``; the context contains the parents, each once."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    parent: Chunker
    child: Chunker

    def split(self, corpus: Corpus) -> Spans:
        """Return the small chunks for the search."""
        return cut_within(corpus, self.parent.split(corpus), self.child)
