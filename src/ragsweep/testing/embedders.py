"""The contract of an embedder, as tests: ``class TestMine(EmbedderContract): part = Mine``."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from ragsweep.core.types import Embedder
from ragsweep.testing.contract import Contract

LONG = "many words " * 700
TEXTS = ("The cat sat on the mat.", "", "Stars, planets and moons", "café", LONG, "The cat sat on the mat.")


class EmbedderContract(Contract):
    """The contract of an embedder: set ``part`` to your class, or to a method that returns an instance.

    ``tolerance`` is the largest accepted difference of a value between batches; set a larger one for half precision.
    """

    tolerance: ClassVar[float] = 1e-5

    part: Callable[[], Embedder]  # it may return the same instance for every test

    def test_satisfies_the_protocol(self) -> None:
        """Check the methods by which the pipeline recognises this kind of part."""
        assert isinstance(self.part(), Embedder)

    def test_documents_and_queries_get_finite_vectors_of_one_length(self) -> None:
        """Check that vectors are finite, of one length, and float32 whatever the model's dtype.

        An empty list must be accepted.
        """
        part = self.part()
        vectors, queries = part.embed_documents(TEXTS).vectors, part.embed_queries(TEXTS)
        assert vectors.dtype == queries.dtype == np.float32
        assert vectors.shape == queries.shape == (len(TEXTS), vectors.shape[1])
        assert np.isfinite(vectors).all()
        assert np.isfinite(queries).all()
        assert part.embed_documents([]).vectors.shape == part.embed_queries([]).shape == (0, vectors.shape[1])

    def test_no_more_tokens_are_read_than_there_are(self) -> None:
        """Check that no more tokens of a text are read than it has, and that a long text has more than a short one."""
        _, tokens, read = self.part().embed_documents(TEXTS)
        assert tokens.shape == read.shape == (len(TEXTS),)
        assert tokens.dtype == read.dtype == np.int32
        assert (read <= tokens).all()
        assert tokens[4] > tokens[0]

    def test_a_text_is_embedded_alike_in_any_batch(self) -> None:
        """Check that a text has the same vector, within the tolerance, in any batch and order.

        The same batch must give identical vectors.
        """
        part = self.part()
        together = part.embed_documents(TEXTS).vectors
        np.testing.assert_array_equal(part.embed_documents(TEXTS).vectors, together)
        np.testing.assert_allclose(part.embed_documents(TEXTS[::-1]).vectors[::-1], together, atol=self.tolerance)
        queries = part.embed_queries(TEXTS)
        for row, text in enumerate(TEXTS):
            np.testing.assert_allclose(part.embed_queries([text])[0], queries[row], atol=self.tolerance)
