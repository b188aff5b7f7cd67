"""Small chunks inside larger ones."""

from dataclasses import dataclass
from typing import ClassVar

from ragsweep.core.spans import cut_within
from ragsweep.core.types import Chunker, Corpus, PartTraits, Spans


@dataclass(frozen=True)
class ParentChild:
    """Cut each chunk of ``parent`` with ``child``.

    The small chunks are searched; the context contains the larger chunks around those that were found, each once.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    parent: Chunker
    child: Chunker

    def split(self, corpus: Corpus) -> Spans:
        """Return the spans of the small chunks in their documents."""
        return cut_within(corpus, self.parent.split(corpus), self.child)
