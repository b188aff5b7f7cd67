"""Small chunks inside larger ones."""

from dataclasses import dataclass
from typing import ClassVar

from ragsweep.core.spans import cut_within
from ragsweep.core.types import Chunker, Corpus, PartTraits, Spans


@dataclass(frozen=True)
class ParentChild:
    """Cut the chunks of ``parent`` by ``child`` for the search; the context contains the parents found, each once."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    parent: Chunker
    child: Chunker

    def split(self, corpus: Corpus) -> Spans:
        """Return the small chunks, which are searched."""
        return cut_within(corpus, self.parent.split(corpus), self.child)
