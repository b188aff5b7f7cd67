"""An existing system's context is found in the corpus, and what is not found is counted and covers nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.types import NO_CHUNK, Chunks, Corpus, Evidence, GoldenSet, Passage, Question
from ragsweep.evaluation.evidence import cover
from ragsweep.evaluation.external_system import UNKNOWN, ContextPlace, align_contexts

CORPUS = Corpus(
    ["a", "b", "a:0-5", "pdf", "web", "page", "caf\u00e9", "the\u0301"],
    ["Alpha", *[""] * 7],
    [
        "one two\n  three four five",
        "six seven eight nine",
        "ten eleven twelve",
        "The o\ufb03ce opens at nine.",
        "Cafe\u0301 and be\u00adliev\u00adable terms.",
        "# Fees\n\nIt is **[ten](x)** `euros`.",
        "six seven",
        "ten eleven",
    ],
)
UNICODE = [
    ("pdf", "office opens", ContextPlace(3, 4, 14)),  # a ligature
    ("web", "Caf\u00e9 and", ContextPlace(4, 0, 9)),  # a decomposed accent
    ("web", "believable terms", ContextPlace(4, 10, 28)),  # soft hyphens
]


def place(name: str, text: str) -> ContextPlace | None:
    """Locate one context; None where the corpus does not hold it."""
    found = align_contexts(CORPUS, [[Passage(name, text)]])
    document, start, end = (int(column[0]) for column in found.spans)
    return None if found.unknown else ContextPlace(document, start, end)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("b:4-9", "whatever", ContextPlace(1, 4, 9)),  # a span
        ("b:4-900", "seven", None),  # beyond the document
        ("a:0-5", "eleven", ContextPlace(2, 4, 10)),  # an id that looks like a span
        ("b", "", ContextPlace(1, 0, 20)),  # a whole document
        ("a", "two three", ContextPlace(0, 4, 15)),  # whatever its blanks
        ("", "two three", ContextPlace(0, 4, 15)),
        ("unheard of", " six\nseven ", ContextPlace(1, 0, 9)),
        ("a", "Alpha one two", ContextPlace(0, 0, 7)),  # behind its title
        ("", "four five six", None),  # over the end of a document
        ("a", "six seven", None),  # of another document
        *((named, text, found) for name, text, found in UNICODE for named in (name, "")),
        ("page", "It is ten euros.", ContextPlace(5, 8, 35)),  # without Markdown
        ("cafe\u0301", "", ContextPlace(6, 0, 9)),  # an id with a decomposed accent
        ("cafe\u0301", "six seven", ContextPlace(6, 0, 9)),  # and a text that an earlier document contains
        ("cafe\u0301:4-9", "", ContextPlace(6, 4, 9)),
        *((name, "", ContextPlace(7, 0, 10)) for name in ("the\u0301", "th\u00e9")),  # the corpus may have such an id
        ("the\u0301:4-10", "", ContextPlace(7, 4, 10)),
    ],
)
def test_context_is_found_by_name_and_text(name: str, text: str, expected: ContextPlace | None) -> None:
    assert place(name, text) == expected


def test_what_is_not_found_is_a_document_of_its_own_that_covers_nothing() -> None:
    found = align_contexts(CORPUS, [[Passage("", "never written"), Passage("b", "six seven eight nine")]])
    assert found.unknown == 1
    assert found.corpus.ids[-1].startswith(UNKNOWN)
    assert found.corpus.texts[-1] == "never written"
    question = Question("q", "?", evidence=(Evidence("b", "seven"),))
    coverage = cover(Chunks(found.corpus, found.spans, "x"), GoldenSet((question,)), 0.5)
    assert coverage.first_ranks(found.rankings([0], 4, "x")).tolist() == [2]


def test_a_context_twice_counts_once_and_rankings_are_padded() -> None:
    twice = [Passage("b", "six"), Passage("b", "nine"), Passage("b", "six")]
    found = align_contexts(CORPUS, [twice, []])
    ranked = found.rankings([1, 0], 3, "address")
    assert ranked.positions.tolist() == [[NO_CHUNK] * 3, [0, 1, NO_CHUNK]]
    assert ranked.scores[1].tolist() == [1.0, 0.5, -np.inf]
    assert ranked.chunks == "address"


@given(st.lists(st.lists(st.sampled_from([("a", ""), ("b", "six"), ("", "ten eleven"), ("", "no"), ("b:0-3", "")]))))
def test_every_context_has_its_place_in_the_order_of_the_system(contexts: list[list[tuple[str, str]]]) -> None:
    found = align_contexts(CORPUS, [[Passage(*one) for one in some] for some in contexts])
    documents = {("a", ""): 0, ("b", "six"): 1, ("", "ten eleven"): 2, ("", "no"): len(CORPUS.ids), ("b:0-3", ""): 1}
    for row, some in zip(found.positions, contexts, strict=True):
        expected = [(documents[one], one) for one in dict.fromkeys(some)]
        merged = list(dict.fromkeys((d, "b six" if d == 1 else o) for d, o in expected))
        assert [int(found.spans.document[n]) for n in row[row != NO_CHUNK]] == [document for document, _ in merged]
    ordered = list(zip(*(column.tolist() for column in found.spans), strict=True))
    assert ordered == sorted(set(ordered))


def test_scores_of_a_system_stay_with_their_contexts() -> None:
    """Law: a context has the score of its first place; a question without scores has 1, 1/2, ... ."""
    d1, d2, strange = Passage("a", ""), Passage("b", ""), Passage("", "nowhere")
    aligned = align_contexts(CORPUS, [[d2, d1, d2, strange], [d1], []], scores=[[0.9, 0.5, 0.4, 0.1], [], []])
    ranked = aligned.rankings([0, 1, 2], 4, "address")
    names = [[aligned.corpus.ids[aligned.spans.document[n]] for n in row if n >= 0] for row in ranked.positions]
    assert [name[:2] for name in names] == [["b", "a"], ["a"], []]
    assert [[round(float(score), 6) for score in row if score > -1] for row in ranked.scores] == [
        [0.9, 0.5, 0.1],
        [1.0],
        [],
    ]
    assert aligned.rising == 0


def test_scores_that_rise_along_a_list_are_not_kept() -> None:
    d1, d2 = Passage("a", ""), Passage("b", "")
    aligned = align_contexts(CORPUS, [[d1, d2], [d2, d1]], scores=[[0.1, 0.7], [0.7, 0.1]])
    assert (aligned.scores, aligned.rising) == (None, 1)
    assert aligned.rankings([0], 2, "address").scores.tolist() == [[1.0, 0.5]]
