"""Rank chunks, or other texts, by the words that they share with a query (BM25)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.types import NO_CHUNK, Arrays, PartTraits, Rankings
from ragsweep.core.words import pattern, search_form, with_ascii_digits, without_optional_marks
from ragsweep.parts.libraries import versions
from ragsweep.parts.limits import check_at_least, check_between
from ragsweep.parts.ranking import best_chunks, check_min_score, empty_rankings
from ragsweep.parts.retrievers import postings

BACKENDS = ("bm25s", "rank_bm25")
LANGUAGES = (
    "danish", "dutch", "english", "french", "german", "italian", "norwegian", "portuguese", "russian", "spanish",
    "swedish", "turkish", "none",
)  # fmt: skip
"""Values of ``language``: languages with a stemmer in PyStemmer and stop words in bm25s; "none" uses neither."""

TURKISH = str.maketrans({"\u0130": "i", "I": "\u0131"})
"""The Turkish letters I, with and without a dot, and their lower-case forms; ``str.lower`` gets them wrong."""

MARKED = ("russian", "none")
"""Values of ``language`` for which marks that are optional in writing, and the script of digits, are ignored.

Arabic texts need "none", because LANGUAGES does not contain Arabic.
"""

Score = Callable[[list[int]], NDArray[Any]]
"""A function from the indices of a query's words in the index's vocabulary to the scores of all chunks."""


@dataclass(eq=False)
class Bm25:
    """A retriever that ranks chunks by BM25 over stemmed words of at least two characters, without stop words.

    Words are in lower case, ligatures and other compatibility forms are replaced by the letters that they represent,
    and soft hyphens are ignored. In scripts without spaces, and in Hangul, words are pairs of adjacent characters; a
    query of a single character finds only chunks in which this character has no neighbour.

    The backend ``bm25s`` uses Lucene's formula, called "lucene (accurate)" by Kamphuis et al., "Which BM25 do you
    mean?", ECIR 2020. A word that occurs ``f`` times in a chunk, and in ``n`` of ``N`` chunks, adds ``idf * f / (f + k1
    (1 - b + b length / average))`` to the chunk's score, with ``idf = ln(1 + (N - n + .5) / (n + .5))``. ``length`` is
    the number of words in the chunk, and ``average`` is the mean of ``length`` over all chunks. The backend
    ``rank_bm25`` uses BM25Okapi from the rank_bm25 library. Chunks that score 0 or less, or below ``min_score``, are
    dropped.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(
        version="2", filtering=frozenset({"min_score"}), bounds=(0.0, None), languages=LANGUAGES
    )

    k1: float = 1.5
    b: float = 0.75
    backend: str = "bm25s"
    language: str = "english"
    min_score: float | None = None

    def __post_init__(self) -> None:
        check_at_least("retriever", 0, k1=self.k1)
        if self.k1 == 0 and self.backend == "rank_bm25":
            raise ConfigError("retriever.k1 is 0, for which rank_bm25 divides by zero; use retriever.backend=bm25s")
        check_between("retriever", 0, 1, b=self.b)
        for key, value, known in (("backend", self.backend, BACKENDS), ("language", self.language, LANGUAGES)):
            if value not in known:
                raise ConfigError(f"retriever.{key} is {value!r}{nearest(str(value), known)}")
        check_min_score(self.min_score)
        self._loaded: tuple[Any, Mapping[str, int], Score] | None = None

    def fingerprint(self) -> Mapping[str, str]:
        """Return the versions of the libraries and, for some languages, of the additional steps that split texts."""
        libraries = {"bm25s", "PyStemmer", self.backend.replace("_", "-")}
        # "letters" is the version of the steps in ``_split`` that only these languages need.
        letters = {"letters": "2"} if self.language in ("turkish", *MARKED) else {}
        return versions(sorted(libraries)) | letters

    def build(self, texts: Sequence[str]) -> Arrays:
        """Return the index of all chunks, as named arrays; it is built shard by shard, to save memory."""
        shards = self.shards([len(text) for text in texts])
        return self.assemble((n, self.count(texts[shard])) for n, shard in enumerate(shards))

    def shards(self, lengths: Sequence[int]) -> list[slice]:
        """Divide chunks into shards to be counted separately; ``lengths`` are the chunks' lengths in characters."""
        shards, start, characters = [], 0, 0
        for end, length in enumerate(lengths, 1):
            characters += length
            if end - start == postings.TEXTS or characters >= postings.CHARACTERS or end == len(lengths):
                shards.append(slice(start, end))
                start, characters = end, 0
        return shards

    def count(self, texts: Sequence[str]) -> Arrays:
        """Return the word counts of the given chunks, as named arrays.

        For the backend rank_bm25, which counts words itself, return the words of the chunks in text order.
        """
        words = postings.words_of(*self._split(texts))
        return (postings.count(words) if self.backend == "bm25s" else words)._asdict()

    def assemble(self, shards: Iterable[tuple[int, Arrays]]) -> Arrays:
        """Merge the results of ``count`` into the index; ``shards`` yields pairs of a shard's number and its result."""
        if self.backend == "bm25s":
            words, state = postings.index(((n, postings.Counts(**shard)) for n, shard in shards), self.k1, self.b)
        else:
            words, state = _assemble_rank_bm25({n: postings.Words(**shard) for n, shard in shards})
        return {**state, "vocabulary": postings.packed(words)}

    def retrieve(self, index: Arrays, queries: Sequence[str], depth: int) -> Rankings:
        """Return, for each query, a ranking of at most ``depth`` chunks that score above 0, padded to ``depth``.

        The caller applies ``min_score``.
        """
        number, score = self._load(index)
        ids, meaning = self._split(queries)
        result = empty_rankings(len(queries), depth)
        for row, words in enumerate(ids):
            if numbers := [number[meaning[word]] for word in words if meaning[word] in number]:
                positions, scores = best_chunks(score(numbers), depth)
                result.positions[row, : len(positions)] = positions
                result.scores[row, : len(positions)] = scores
        return result

    def _split(self, texts: Sequence[str]) -> tuple[list[list[int]], list[str]]:
        """Return the words of each text, as indices into the vocabulary of all texts, and this vocabulary."""
        import bm25s
        import Stemmer

        none = self.language == "none"
        forms = [search_form(text) for text in texts]
        if self.language == "turkish":
            forms = [form.translate(TURKISH) for form in forms]
        if self.language in MARKED:
            forms = [form if form.isascii() else with_ascii_digits(without_optional_marks(form)) for form in forms]
        ids, vocabulary = bm25s.tokenize(
            forms,
            token_pattern=pattern("search").pattern,
            stopwords=None if none else self.language,
            stemmer=None if none else Stemmer.Stemmer(self.language),
            show_progress=False,
        )
        return ids, sorted(vocabulary, key=vocabulary.__getitem__)

    def _load(self, index: Arrays) -> tuple[Mapping[str, int], Score]:
        """Return the index's vocabulary (word -> index) and its scoring function.

        The last index is cached, because each call of ``retrieve`` may have a single query.
        """
        if self._loaded is None or self._loaded[0] is not index["vocabulary"]:
            words = postings.unpacked(index["vocabulary"])
            load = _load_bm25s if self.backend == "bm25s" else _load_rank_bm25
            number = {word: n for n, word in enumerate(words)}
            score = load(index, self.k1, self.b) if words else np.zeros  # never called: no query contains a known word
            self._loaded = (index["vocabulary"], number, score)
        return self._loaded[1], self._loaded[2]


def _load_bm25s(index: Arrays, k1: float, b: float) -> Score:
    """Return bm25s's scoring function; it adds up the weights of a query's words in an array of all chunks.

    Adding only over the chunks that contain the words would be slower if the words have more than about 5,000 postings.
    """
    import bm25s

    model = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy")
    model.scores = {
        "data": np.asarray(index["weights"]),  # a plain view of a memory-mapped array
        "indices": np.asarray(index["chunks"]),
        "indptr": np.asarray(index["starts"]),
        "num_docs": int(index["size"][0]),
    }
    model.nonoccurrence_array = None  # not used by this variant of the formula
    score: Score = model.get_scores_from_ids
    return score


def _assemble_rank_bm25(shards: Mapping[int, postings.Words]) -> tuple[list[str], Arrays]:
    known: dict[str, int] = {}
    numbers = {n: postings.number_words(shard.vocabulary, known)[shard.numbers] for n, shard in shards.items()}
    words, places = postings.in_order(known)
    if not words:
        return words, {}
    lengths = np.concatenate([shards[n].lengths for n in sorted(shards)]).astype(np.int64)
    return words, {"words": places[np.concatenate([numbers[n] for n in sorted(shards)])], "lengths": lengths}


def _load_rank_bm25(index: Arrays, k1: float, b: float) -> Score:
    from rank_bm25 import BM25Okapi

    documents = np.split(index["words"], np.cumsum(index["lengths"])[:-1])
    model = BM25Okapi([document.tolist() for document in documents], k1=k1, b=b)

    def score(words: list[int]) -> NDArray[Any]:
        with np.errstate(invalid="ignore"):  # with b = 1, a blank chunk scores 0 / 0 = NaN and is not found
            scores: NDArray[Any] = model.get_scores(words)
        return scores

    return score


STEMMED = {"en": "english", "fr": "french"}
"""Languages in which ``rank_texts`` stems words and omits stop words; it does neither in other languages."""


def rank_texts(queries: Sequence[str], texts: Sequence[str], code: str, depth: int) -> list[list[int]]:
    """Return, for each query, the indices of at most ``depth`` texts that share words with the query, best first.

    ``code`` is the two-letter code of the texts' language, such as "en".
    """
    retriever = Bm25(language=STEMMED.get(code, "none"))
    found = retriever.retrieve(retriever.build(texts), queries, depth).positions
    return [[int(one) for one in row if one != NO_CHUNK] for row in found]
