"""What a judgement of an unjudged chunk could change, against values by hand and all possible judgements."""

import math
from itertools import product

import numpy as np
import pytest

from ragsweep.core.types import Chunks, Corpus, Evidence, GoldenSet, Question, Rankings, Spans
from ragsweep.evaluation.evidence import cover, view
from ragsweep.evaluation.evidence_places import copied_places
from ragsweep.golden.anchors import resolve
from ragsweep.golden.judged_spans import (
    DocumentSpan,
    JudgedSpan,
    difference_bounds,
    is_judged,
    judged_share,
    locate_labels,
    ndcg,
)
from ragsweep.parts.metrics import Ndcg
from ragsweep_golden.commands.pool import as_row, collect, find_holes

TEXTS = [f"Tree {n} is old. The bark of tree {n} is grey and thick. Nobody cuts it." for n in range(8)]
CORPUS = Corpus([f"t{n}" for n in range(8)], [""] * 8, TEXTS)
SECOND = 1 / math.log2(3)  # what the second rank counts


def whole(n: int) -> DocumentSpan:
    return DocumentSpan(f"t{n}", 0, len(TEXTS[n]))


def relevant(n: int) -> JudgedSpan:
    return locate_labels([Evidence(f"t{n}", f"bark of tree {n}")], [], CORPUS)[0]


def test_the_impact_is_the_largest_change_of_a_difference_between_two_configs() -> None:
    found = {"a": [whole(0), whole(1)], "b": [whole(2), whole(0)], "c": [whole(1), whole(2)]}
    holes = find_holes("q", "Is the bark grey?", found, [relevant(0)], CORPUS)
    assert [(one.chunk, one.ranks) for one in holes] == [(whole(1), {"a": 2, "c": 1}), (whole(2), {"b": 1, "c": 2})]
    ideal = 1 + SECOND  # of two relevant passages
    changes = {"a": 0, "b": SECOND / ideal - SECOND, "c": 1 / ideal}  # if t1 is relevant
    assert holes[0].impact == pytest.approx(changes["c"] - changes["b"])
    changes = {"a": 1 / ideal - 1, "b": 1 - SECOND, "c": SECOND / ideal}  # if t2 is
    assert holes[1].impact == pytest.approx(changes["c"] - changes["a"])


def test_a_passage_in_the_chunks_of_two_chunkers_is_judged_once_and_is_the_sentence_nearest_to_the_question() -> None:
    found = {"large": [whole(1)], "small": [DocumentSpan("t1", 10, len(TEXTS[1]))]}
    (hole,) = find_holes("q", "Which colour has the bark?", found, [], CORPUS)
    assert hole.ranks == {"large": 1, "small": 1}
    row = as_row(hole, "Which colour has the bark?", CORPUS)
    assert row["sentence"] == "The bark of tree 1 is grey and thick."
    (span,) = resolve(TEXTS[1], row["anchor"])
    assert hole.place.start <= span[0] <= span[1] <= hole.place.end


def test_blank_chunks_are_no_passages_to_judge() -> None:
    corpus = Corpus(["bark", "empty", "spaces"], [""] * 3, ["The bark is grey.\n\n", "", " \n"])
    blank = [DocumentSpan("bark", 17, 19), DocumentSpan("empty", 0, 0), DocumentSpan("spaces", 0, 2)]
    chunks = [DocumentSpan("bark", 0, 17), *blank]
    holes = find_holes("q", "Is it grey?", {"a": chunks, "b": chunks[::-1]}, [], corpus)
    assert [as_row(one, "Is it grey?", corpus)["sentence"] for one in holes] == ["The bark is grey."]
    assert holes[0].ranks == {"a": 1, "b": 4}  # blank chunks still count in a ranking


def test_evidence_negatives_and_distractors_are_judged_and_nothing_else() -> None:
    labels = locate_labels(
        [Evidence("t0", "bark of tree 0"), Evidence("t1", "bark of tree 1", grade=0), Evidence("gone", "x")],
        ["t2"], CORPUS,
    )  # fmt: skip
    assert [is_judged(whole(n), labels) for n in range(4)] == [True, True, True, False]
    assert not is_judged(DocumentSpan("t0", 0, 12), labels)  # another part of the document
    assert judged_share([[whole(0), whole(3)], [whole(2)]], labels) == (2, 3)
    assert ndcg([whole(1), whole(2), whole(0)], labels, 10) == pytest.approx(1 / 2)  # the negatives gain nothing


def test_the_gain_is_that_of_the_evaluations_metric() -> None:
    draw = np.random.default_rng(1)
    half = len(TEXTS[0]) // 2
    chunks = [DocumentSpan(f"t{n}", start, end) for n in range(8) for start, end in ((0, half), (half, len(TEXTS[n])))]
    spans = Spans(*(np.array(column) for column in zip(*((int(c[0][1]), *c[1:]) for c in chunks), strict=True)))
    for _ in range(20):
        quotes = [(n, quote) for n in draw.permutation(8)[:3] for quote in (f"Tree {n} is", "is old", "cuts it", None)]
        evidence = [Evidence(f"t{n}", quote, grade=float(draw.integers(0, 3))) for n, quote in quotes]
        found = draw.permutation(16)[:6]
        golden = GoldenSet((Question("q", "How old?", evidence=tuple(evidence)),))
        rankings = Rankings(found[None].astype(np.int32), np.arange(6, 0, -1, dtype=np.float32)[None])
        expected = Ndcg(6).score(view(cover(Chunks(CORPUS, spans), golden), rankings, 6)).values
        labels = locate_labels(evidence, [], CORPUS)
        assert ndcg([chunks[n] for n in found], labels, 6) == pytest.approx(np.nan_to_num(expected[0]))


@pytest.mark.parametrize("count", [True, False])
def test_an_equal_passage_in_another_document_is_judged_as_in_the_evaluation(count: bool) -> None:
    corpus = Corpus(["a", "a (copy)", "b"], [""] * 3, [TEXTS[0], f"Copied. {TEXTS[0]}", TEXTS[1]])
    places = [DocumentSpan(name, 0, len(text)) for name, text in zip(corpus.ids, corpus.texts, strict=True)]
    evidence = (Evidence("a", "bark of tree 0"),)
    golden = GoldenSet((Question("q", "How thick?", evidence=evidence),), repeated_passages=count)
    spans = Spans(np.arange(3), np.zeros(3, int), np.array([len(text) for text in corpus.texts]))
    rankings = Rankings(np.array([[1, 2, 0]], np.int32), np.array([[3, 2, 1]], np.float32))
    expected = Ndcg(3).score(view(cover(Chunks(corpus, spans), golden), rankings, 3)).values
    found = [places[n] for n in (1, 2, 0)]
    pooled = collect(golden, {"#1": {"q": found}, "#2": {"q": found[::-1]}}, corpus)
    assert (pooled.judged, len(pooled.holes)) == ((4, 1) if count else (2, 2))
    labels = locate_labels(evidence, [], corpus, copied_places(corpus, golden))
    assert ndcg(found, labels, 3) == pytest.approx(expected[0]) == (1 if count else 0.5)


def test_the_bounds_of_a_difference_are_those_of_all_possible_judgements() -> None:
    draw = np.random.default_rng(0)
    for _ in range(30):
        first, second = ([whole(int(n)) for n in draw.permutation(6)[:4]] for _ in range(2))
        labels = [relevant(int(n)) for n in draw.permutation(8)[: draw.integers(0, 4)]]
        unjudged = [one for one in dict.fromkeys([*first, *second]) if not is_judged(one, labels)]
        differences = []
        for chosen in product((0, 1), repeat=len(unjudged)):
            more = [*labels, *(JudgedSpan(one, 1.0) for one, use in zip(unjudged, chosen, strict=True) if use)]
            differences.append(ndcg(second, more, 4) - ndcg(first, more, 4))
        assert difference_bounds(first, second, labels, 4) == pytest.approx((min(differences), max(differences)))
