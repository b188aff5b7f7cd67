"""BM25: both backends against independently written formulas, and against their own libraries."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Arrays
from ragsweep.parts.retrievers import Bm25, postings
from ragsweep.testing.retrievers import QUERIES, TEXTS, CountingRetrieverContract


class TestBm25s(CountingRetrieverContract):
    part = Bm25


class TestRankBm25(CountingRetrieverContract):
    def part(self) -> Bm25:
        return Bm25(backend="rank_bm25")


word = st.sampled_from(["aa", "bb", "cc", "dd", "ee", "ff"])
document = st.lists(word, max_size=9)
collection = st.lists(document, min_size=1, max_size=7)


def lucene(documents: list[list[str]], query: list[str], k1: float, b: float) -> list[float]:
    """Score as Lucene does, by the formula of Kamphuis et al. (2020), without its lossy lengths."""
    average = sum(map(len, documents)) / len(documents)
    scores = []
    for words in documents:
        score = 0.0
        for word in query:
            n = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - n + 0.5) / (n + 0.5))
            f = words.count(word)
            score += idf * f / (f + k1 * (1 - b + b * len(words) / average)) if f else 0.0
        scores.append(score)
    return scores


def found(part: Bm25, documents: list[list[str]], query: list[str]) -> list[float]:
    texts = [" ".join(words) for words in documents]
    ranking = part.retrieve(part.build(texts), [" ".join(query)], len(texts))
    scores = [0.0] * len(texts)
    for position, score in zip(ranking.positions[0].tolist(), ranking.scores[0].tolist(), strict=True):
        if position >= 0:
            scores[position] = score
    return scores


@given(collection, document, st.sampled_from([0.0, 0.9, 1.5]), st.sampled_from([0.0, 0.4, 0.75, 1.0]))
def test_bm25s_scores_are_those_of_lucenes_formula(
    documents: list[list[str]], query: list[str], k1: float, b: float
) -> None:
    expected = lucene(documents, query, k1, b) if any(documents) else [0.0] * len(documents)
    assert found(Bm25(k1, b, language="none"), documents, query) == pytest.approx(expected, rel=1e-5)


@given(collection, document, st.sampled_from([0.9, 1.5]), st.sampled_from([0.0, 0.75, 1.0]))
def test_rank_bm25_scores_are_those_of_the_library(
    documents: list[list[str]], query: list[str], k1: float, b: float
) -> None:
    from rank_bm25 import BM25Okapi

    with np.errstate(invalid="ignore"):
        scores = BM25Okapi(documents, k1=k1, b=b).get_scores(query) if any(documents) else np.zeros(len(documents))
    expected = np.where(scores > 0, scores, 0)  # what scores 0 or less, or is blank (NaN), is not found
    assert found(Bm25(k1, b, "rank_bm25", "none"), documents, query) == pytest.approx(expected.tolist(), rel=1e-6)


@given(
    st.lists(st.lists(word, max_size=9), min_size=1, max_size=20).filter(any),
    st.sampled_from([(1.5, 0.75), (0.9, 0.4), (0.0, 1.0), (1.2, 0.0)]),
    st.integers(1, 8),
    st.integers(1, 60),
)
def test_arrays_are_those_of_bm25s_to_the_bit_however_texts_fall_into_blocks(
    documents: list[list[str]], formula: tuple[float, float], texts: int, characters: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "TEXTS", texts)
        patch.setattr(postings, "CHARACTERS", characters)
        patch.setattr(postings, "PAIRS", texts)
        index = Bm25(*formula, language="none").build([" ".join(words) for words in documents])
    assert_those_of_bm25s(index, documents, *formula)


@pytest.mark.parametrize(("repeats", "texts"), [(255, 1), (256, 3), (65_536, 3)])
def test_a_word_may_occur_often(repeats: int, texts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "TEXTS", texts)
    documents = [["cc"], ["aa"] * repeats, ["bb", "aa"]]
    assert_those_of_bm25s(Bm25(language="none").build([" ".join(words) for words in documents]), documents, 1.5, 0.75)


def assert_those_of_bm25s(index: Arrays, documents: list[list[str]], k1: float, b: float) -> None:
    import bm25s

    vocabulary = sorted({one for words in documents for one in words})
    number = {one: n for n, one in enumerate(vocabulary)}
    model = bm25s.BM25(k1=k1, b=b, method="lucene")
    numbers = [[number[one] for one in words] for words in documents]
    model.index((numbers, number), create_empty_token=False, show_progress=False)
    assert json.loads(index["vocabulary"].tobytes()) == vocabulary
    assert index["size"].tolist() == [len(documents)]
    for ours, theirs in (("weights", "data"), ("chunks", "indices"), ("starts", "indptr")):
        assert index[ours].dtype == model.scores[theirs].dtype
        assert index[ours].tobytes() == model.scores[theirs].tobytes(), ours


def test_an_index_in_a_file_is_searched_where_it_lies(tmp_path: Path) -> None:
    index = Bm25().build(TEXTS)
    for name, array in index.items():
        np.save(tmp_path / name, array)
    mapped = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in index}
    one, other = Bm25().retrieve(mapped, QUERIES, 5), Bm25().retrieve(index, QUERIES, 5)
    np.testing.assert_array_equal(one.positions, other.positions)
    np.testing.assert_array_equal(one.scores, other.scores)


def test_words_are_stemmed_and_stop_words_dropped_by_language() -> None:
    english = Bm25()
    ranking = english.retrieve(english.build(["the runner", "He was running home", "the"]), ["the runs"], 3)
    assert ranking.positions.tolist() == [[1, -1, -1]]
    french = Bm25(language="french")
    index = french.build(["les chevaux et les étoiles", "une maison", "et"])
    ranking = french.retrieve(index, ["un cheval", "une étoile", "les"], 3)
    assert ranking.positions.tolist() == [[0, -1, -1], [0, -1, -1], [-1, -1, -1]]


@pytest.mark.parametrize("backend", ["bm25s", "rank_bm25"])
def test_capitals_with_and_without_a_dot_are_turkish_letters_in_turkish(backend: str) -> None:
    """Turkish has the pairs \u0130 and i, and I and \u0131."""
    texts = ["\u0130ZM\u0130R liman", "I\u0307stanbul deniz", "ISPARTA g\u00fcl", "kedi", "k\u00f6pek", "ku\u015f"]
    part = Bm25(language="turkish", backend=backend)
    queries = ["izmir", "istanbul", "\u0131sparta", "isparta"]
    found = part.retrieve(part.build(texts), queries, 1).positions[:, 0]
    assert found.tolist() == [0, 1, 2, -1]
    english = Bm25(language="english", backend=backend)
    assert english.retrieve(english.build(texts), ["isparta"], 1).positions.tolist() == [[2]]
    assert part.fingerprint() == {**english.fingerprint(), "letters": "2"}


@pytest.mark.parametrize(
    ("language", "text", "query"),
    [
        ("none", "شكر\u064b\u0627 جزيلا", "شكرا"),
        ("none", "عام \u0662\u0660\u0662\u0664", "2024"),
        ("russian", "Пу\u0301шкин", "Пушкин"),
    ],
)
def test_words_are_found_without_optional_marks_and_digits_in_every_script(
    language: str, text: str, query: str
) -> None:
    part = Bm25(language=language)
    for document, asked in ((text, query), (query, text)):
        assert part.retrieve(part.build([document, "كتاب", "книга"]), [asked], 1).positions.tolist() == [[0]]


def test_accents_are_kept_however_they_are_written() -> None:
    part = Bm25(language="french")
    ranking = part.retrieve(part.build(["le pe\u0302cheur", "le pécheur"]), ["pêcheur", "PÉCHEUR"], 2)
    assert ranking.positions.tolist() == [[0, -1], [1, -1]]


@pytest.mark.parametrize("backend", ["bm25s", "rank_bm25"])
@pytest.mark.parametrize(
    ("documents", "query"),
    [
        (["可以在三十天内报销费用。", "会议室在二楼。", "其他规定见附录。"], "报销要几天\uff1f"),
        (["The of\ufb01ce pays.", "Other rules.", "The end."], "office"),
        (["The com\u00adpany pays.", "Other rules.", "The end."], "company"),
        (["कीमत दस रुपये है", "यह एक घर है", "मौसम ठंडा है"], "कीमत"),
        (["ค่าใช้จ่ายเบิกได้", "ห้องประชุม", "ภาคผนวก"], "เบิกค่าใช้จ่าย"),
    ],
)
def test_words_of_every_script_are_found(backend: str, documents: list[str], query: str) -> None:
    part = Bm25(backend=backend)
    assert part.retrieve(part.build(documents), [query], 1).positions.tolist() == [[0]]


def test_blank_corpus_finds_nothing() -> None:
    for backend in ("bm25s", "rank_bm25"):
        part = Bm25(backend=backend)
        assert (part.retrieve(part.build(["", " "]), QUERIES, 2).positions == -1).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k1": -1.0}, r"retriever\.k1 must be .*, got -1\.0"),
        ({"k1": float("nan")}, r"retriever\.k1 must be .*, got nan"),
        ({"k1": 0, "backend": "rank_bm25"}, r"use retriever\.backend=bm25s"),
        ({"b": 1.5}, r"retriever\.b must be .*, got 1\.5"),
        (
            {"backend": "bm25"},
            r'retriever\.backend is .bm25.; did you mean "(bm25s|rank_bm25)"\? known: bm25s, rank_bm25',
        ),
        ({"language": "englisch"}, r'did you mean "english"\? known: danish, dutch, english, french, .*none'),
    ],
)
def test_wrong_parameters_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Bm25(**arguments)
