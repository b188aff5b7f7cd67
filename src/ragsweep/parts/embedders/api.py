"""Embed texts through a service with OpenAI's protocol, such as OpenAI, vLLM or Ollama."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import numpy as np

from ragsweep.core.types import Embeddings, Floats
from ragsweep.parts.limits import check_at_least
from ragsweep.parts.service_settings import ServiceSettings
from ragsweep.parts.tokens import count
from ragsweep.parts.unit_vectors import unit
from ragsweep.services.endpoint import Endpoint


@dataclass(eq=False)
class ApiEmbedder(ServiceSettings):
    """An embedder behind ``POST {base_url}/embeddings``; :class:`ragsweep.services.endpoint.Endpoint` makes the calls.

    Services do not report the number of tokens of each text. Tokens are therefore counted by
    :mod:`ragsweep.parts.tokens`, and no text counts as truncated. Blank texts are not sent, because services reject
    blank texts; their vectors are zero.
    """

    TRAITS = replace(ServiceSettings.TRAITS.with_operational("batch_size"), version="1")
    KEY = "embedder"

    base_url: str
    model: str
    dimensions: int | None = None
    normalize: bool = True
    query_prompt: str = ""
    document_prompt: str = ""
    batch_size: int = 64
    service: Endpoint = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Create the client of the service, without sending a request."""
        self.service = Endpoint(self.base_url, self.model, deadline=None, **self.call_settings())

    def check(self) -> None:
        """Raise ConfigError for invalid values and for a secret in the config. No call is made."""
        super().check()
        check_at_least("embedder", 1, batch_size=self.batch_size, dimensions=self.dimensions)

    def embed_documents(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of chunks, and the number of tokens of each chunk, including its prompt.

        Raises the same errors as :meth:`ragsweep.services.endpoint.Endpoint.chat`.
        """
        prompted = [self.document_prompt + text for text in texts]
        tokens = np.array(list(map(count, prompted)), dtype=np.int32)
        return Embeddings(self._embed(prompted), tokens, tokens)

    def embed_queries(self, queries: Sequence[str]) -> Floats:
        """Return the vectors of queries, (queries, dimension). Raises the same errors as ``embed_documents``."""
        return self._embed([self.query_prompt + query for query in queries])

    def _embed(self, texts: Sequence[str]) -> Floats:
        rows = [row for row, text in enumerate(texts) if text.strip()]
        vectors = np.zeros((len(texts), self._dimension), dtype=np.float32)
        if rows:
            vectors[rows] = self._call([texts[row] for row in rows], self._dimension)
        return unit(vectors) if self.normalize else vectors

    @cached_property
    def _dimension(self) -> int:
        """The number of values per vector: ``dimensions`` or, if that is None, the length of a vector from one call."""
        return self.dimensions or len(self._call(["dimension"], None)[0])

    def _call(self, texts: Sequence[str], dimension: int | None) -> list[list[float]]:
        batches = [texts[start : start + self.batch_size] for start in range(0, len(texts), self.batch_size)]
        found: dict[int, list[list[float]]] = {}

        async def embed(batch: Sequence[str]) -> list[list[float]]:
            return (await self.service.embed(batch, dimension, self.dimensions))[0]

        self.service.each(batches, embed, found.__setitem__)
        return list(chain.from_iterable(found[number] for number in range(len(batches))))
