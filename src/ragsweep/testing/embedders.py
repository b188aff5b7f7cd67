"""Contract tests for an embedder; to apply them, write ``class TestMine(EmbedderContract): part = Mine``."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from ragsweep.core.types import Embedder
from ragsweep.testing.contract import Contract

LONG = "many words " * 700
TEXTS = ("The cat sat on the mat.", "", "Stars, planets and moons", "café", LONG, "The cat sat on the mat.")


class EmbedderContract(Contract):
    """Contract tests for an embedder: set ``part`` to your class, or to a method that returns an instance.

    ``tolerance`` is the largest accepted difference between the values of a text's vector in different batches.
    Increase it for a model in half precision.
    """

    tolerance: ClassVar[float] = 1e-5

    part: Callable[[], Embedder]  # it may return the same instance for every test

    def test_satisfies_the_protocol(self) -> None:
        """Check that the part has all members of the protocol ``Embedder``."""
        assert isinstance(self.part(), Embedder)

    def test_documents_and_queries_get_finite_vectors_of_one_length(self) -> None:
        """Check that the vectors of documents and queries are finite, of the same length, and float32.

        For an empty list of texts, the result must be an array without rows.
        """
        part = self.part()
        vectors, queries = part.embed_documents(TEXTS).vectors, part.embed_queries(TEXTS)
        assert vectors.dtype == queries.dtype == np.float32
        assert vectors.shape == queries.shape == (len(TEXTS), vectors.shape[1])
        assert np.isfinite(vectors).all()
        assert np.isfinite(queries).all()
        assert part.embed_documents([]).vectors.shape == part.embed_queries([]).shape == (0, vectors.shape[1])

    def test_no_more_tokens_are_read_than_there_are(self) -> None:
        """Check that no more tokens are read than a text has, and that a long text has more tokens than a short one."""
        _, tokens, read = self.part().embed_documents(TEXTS)
        assert tokens.shape == read.shape == (len(TEXTS),)
        assert tokens.dtype == read.dtype == np.int32
        assert (read <= tokens).all()
        assert tokens[4] > tokens[0]

    def test_a_text_is_embedded_alike_in_any_batch(self) -> None:
        """Check that a text has the same vector, within ``tolerance``, in any batch and order.

        Embedding the same batch again must give identical vectors.
        """
        part = self.part()
        together = part.embed_documents(TEXTS).vectors
        np.testing.assert_array_equal(part.embed_documents(TEXTS).vectors, together)
        np.testing.assert_allclose(part.embed_documents(TEXTS[::-1]).vectors[::-1], together, atol=self.tolerance)
        queries = part.embed_queries(TEXTS)
        for row, text in enumerate(TEXTS):
            np.testing.assert_allclose(part.embed_queries([text])[0], queries[row], atol=self.tolerance)
