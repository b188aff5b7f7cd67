"""A retriever of someone's own inherits the contract in two lines; and one that breaks it is caught."""

from collections.abc import Sequence

import numpy as np
import pytest

from ragsweep.core.types import Arrays, Rankings
from ragsweep.parts.ranking import arrange
from ragsweep.parts.retrievers import NoRetriever
from ragsweep.testing.retrievers import TextRetrieverContract


class SharedLetters:
    """Rank by how many different letters a chunk shares with the query."""

    def build(self, texts: Sequence[str]) -> Arrays:
        return {"letters": np.array([self._letters(text) for text in texts])}

    def retrieve(self, index: Arrays, queries: Sequence[str], depth: int) -> Rankings:
        wanted = np.array([self._letters(query) for query in queries]).reshape(len(queries), 26)
        scores = wanted.astype(int) @ index["letters"].T.astype(int)
        positions = np.where(scores > 0, np.arange(scores.shape[1]), -1)
        return arrange(positions, scores, depth)

    def _letters(self, text: str) -> list[bool]:
        return [chr(ord("a") + n) in text.lower() for n in range(26)]


class TestSharedLetters(TextRetrieverContract):
    part = SharedLetters


class TestNoRetriever(TextRetrieverContract):
    part = NoRetriever


class KeepsStateToItself(SharedLetters):
    def build(self, texts: Sequence[str]) -> Arrays:
        self.kept = super().build(texts)
        return {"texts": np.array(texts, dtype=object)}

    def retrieve(self, index: Arrays, queries: Sequence[str], depth: int) -> Rankings:
        return super().retrieve(self.kept, queries, depth)


class TiesBackwards(SharedLetters):
    def retrieve(self, index: Arrays, queries: Sequence[str], depth: int) -> Rankings:
        found = super().retrieve({"letters": index["letters"][::-1]}, queries, depth)
        last = len(index["letters"]) - 1
        return found._replace(positions=np.where(found.positions >= 0, last - found.positions, -1).astype(np.int32))


class DependsOnCompany(SharedLetters):
    def retrieve(self, index: Arrays, queries: Sequence[str], depth: int) -> Rankings:
        found = super().retrieve(index, queries, depth)
        return found._replace(scores=found.scores * np.float32(len(queries)))


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (KeepsStateToItself, "test_a_stored_index_serves_another_instance"),
        (KeepsStateToItself, "test_an_instance_serves_two_indexes"),
        (TiesBackwards, "test_rankings_are_sorted_unique_and_padded"),
        (DependsOnCompany, "test_a_query_is_ranked_alike_in_any_batch"),
    ],
)
def test_contract_catches_a_retriever_that_breaks_a_law(broken: type[SharedLetters], law: str) -> None:
    suite = type("Suite", (TextRetrieverContract,), {"part": broken})()
    with pytest.raises(AssertionError):
        getattr(suite, law)()
