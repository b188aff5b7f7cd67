"""Contract tests for text retrievers; to apply them, write ``class TestMine(TextRetrieverContract): part = Mine``."""

from collections.abc import Callable
from itertools import pairwise

from ragsweep.core.types import Arrays, CountingRetriever, Rankings, TextRetriever
from ragsweep.testing.contract import RankingContract, assert_equal, assert_lawful, store_and_load

TEXTS = (
    "The cat sat on the mat.",
    "A dog chased the cat over the mat and the fence",
    "",
    "The cat sat on the mat.",
    "Über den Fluss: naïve café",
    "   \n",
    "stars and planets and moons",
    "The cat sat on the mat.",
    "a mat, a mat, a mat!",
    "planets moons stars, planets moons stars",
)
QUERIES = ("cat on a mat", "planets", "", "café", "quite unknown words: zyzzyva", "dog dog fence")


class TextRetrieverContract(RankingContract):
    """Contract tests for a text retriever: set ``part`` to your class, or to a method that returns an instance."""

    part: Callable[[], TextRetriever]

    def chunks(self) -> tuple[str, ...]:
        """Return texts, including repeated and blank texts, and a text with diacritics."""
        return TEXTS

    def queries(self) -> tuple[str, ...]:
        """Return queries; one is empty, and another has only words that occur in no text."""
        return QUERIES

    def rank(
        self, part: TextRetriever, index: Arrays, chunks: object, queries: tuple[str, ...], depth: int
    ) -> Rankings:
        """Return the rankings of the indexed texts for all queries."""
        return part.retrieve(index, queries, depth)

    def test_satisfies_the_protocol(self) -> None:
        """Check that the part has all members of the protocol ``TextRetriever``."""
        assert isinstance(self.part(), TextRetriever)

    def test_one_chunk_is_enough(self) -> None:
        """Check the rankings of an index of one chunk with text, and of an index of one empty chunk."""
        for text in ("one text about a cat", ""):
            part = self.part()
            assert_lawful(part.retrieve(part.build([text]), QUERIES, 4), 4, 1)

    def test_a_shorter_depth_is_the_beginning_of_a_longer_one(self) -> None:
        """Check that the ranking at depth 2 is the beginning of the ranking at depth 8."""
        assert_equal(self.rank_anew(QUERIES, 2), self.rank_anew(QUERIES, 8).first(2))


class CountingRetrieverContract(TextRetrieverContract):
    """Contract tests for a text retriever that can count words in shards of the chunks, in any process."""

    part: Callable[[], CountingRetriever]

    def test_satisfies_the_protocol(self) -> None:
        """Check that the part has all members of the protocol ``CountingRetriever``."""
        assert isinstance(self.part(), CountingRetriever)

    def test_shards_are_all_chunks_in_order(self) -> None:
        """Check that the shards contain every chunk once, in order, and that an empty list of chunks has no shards."""
        texts = self.chunks()
        shards = self.part().shards([len(text) for text in texts])
        assert [text for shard in shards for text in texts[shard]] == list(texts)
        assert self.part().shards([]) == []

    def test_an_index_is_the_same_however_and_wherever_its_words_were_counted(self) -> None:
        """Check that ``assemble`` gives the same index as ``build``.

        The shards are counted by several instances, stored, and assembled in reverse order.
        """
        texts, whole = self.chunks(), self.part().build(self.chunks())
        for cuts in ((0, 3, 4, len(texts)), range(len(texts) + 1), (0, len(texts))):
            shards = [texts[start:end] for start, end in pairwise(cuts)]
            counted = [(n, store_and_load(self.part().count(shard))) for n, shard in enumerate(shards)]
            assembled = self.part().assemble(reversed(counted))
            assert assembled.keys() == whole.keys()
            for name, array in whole.items():
                assert (assembled[name].dtype, assembled[name].tobytes()) == (array.dtype, array.tobytes()), name
