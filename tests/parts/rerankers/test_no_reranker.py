"""The reranker that does nothing."""

from ragsweep.parts.rerankers import NoReranker
from ragsweep.testing.rerankers import RerankerContract


class TestNoReranker(RerankerContract):
    part = NoReranker
