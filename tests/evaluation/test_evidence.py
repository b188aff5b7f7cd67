"""Labels survive re-chunking: the array code against plain loops, and the laws that hold for any chunking."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.types import Chunks, Corpus, Evidence, GoldenSet, Question, Rankings, Spans
from ragsweep.evaluation.evidence import Coverage, cover, credit, view
from ragsweep.parts import tokens

WORDS = "alpha beta gamma delta epsilon"


def chunks_of(texts: list[str], spans: list[tuple[int, int, int]], titles: list[str] | None = None) -> Chunks:
    corpus = Corpus([f"d{n}" for n in range(len(texts))], titles or [""] * len(texts), texts)
    document, start, end = np.array(sorted(spans), dtype=np.int64).reshape(-1, 3).T
    return Chunks(corpus, Spans(document.astype(np.int32), start, end), "here")


def rankings_of(*rows: list[int]) -> Rankings:
    depth = max(map(len, rows))
    positions = np.array([row + [-1] * (depth - len(row)) for row in rows], dtype=np.int32).reshape(len(rows), depth)
    return Rankings(positions, np.where(positions < 0, -np.inf, -np.arange(depth)).astype(np.float32), "here")


def ask(*evidence: Evidence) -> GoldenSet:
    return GoldenSet((Question("q", "", evidence=evidence),))


def covering(coverage: Coverage) -> list[tuple[int, int]]:
    return list(zip(coverage.evidence.tolist(), coverage.chunk.tolist(), strict=True))


# --- who covers what ---------------------------------------------------------------------------------------------


def test_chunk_covers_an_anchor_from_half_of_its_characters_on() -> None:
    cut = chunks_of([WORDS], [(0, 0, 8), (0, 8, 16), (0, 16, 30)])
    golden = ask(Evidence("d0", "beta"), Evidence("d0", "alpha beta"))  # characters 6-10 and 0-10
    assert covering(cover(cut, golden)) == [(0, 0), (0, 1), (1, 0)]
    assert covering(cover(cut, golden, threshold=0.8)) == [(0, 0), (0, 1), (1, 0)]  # no chunk has 4/5 of "beta"
    assert covering(cover(cut, golden, threshold=0.2)) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_start_chooses_among_equal_passages_and_without_it_all_count() -> None:
    cut = chunks_of(["cat dog cat"], [(0, 0, 4), (0, 4, 8), (0, 8, 11)])
    assert covering(cover(cut, ask(Evidence("d0", "cat", start=8)))) == [(0, 2)]
    assert covering(cover(cut, ask(Evidence("d0", "cat")))) == [(0, 0), (0, 2)]


def test_repeated_passage_counts_in_other_documents_only_when_the_golden_set_says_so() -> None:
    cut = chunks_of(["see the cat", "no", "a  the\ncat"], [(0, 0, 11), (1, 0, 2), (2, 0, 10)])
    question = Question("q", "", evidence=(Evidence("d0", "the cat"),))
    assert covering(cover(cut, GoldenSet((question,)))) == [(0, 0)]
    repeated = cover(cut, GoldenSet((question,), repeated_passages=True))
    assert covering(repeated) == [(0, 0), (0, 2)]
    looked = view(repeated, rankings_of([2, 0]), 2)
    assert looked.first_rank.tolist() == [1]  # credited once, wherever it is found first
    assert looked.evidence_covered.tolist() == [1.0]


def test_start_keeps_its_meaning_in_the_labelled_document_where_passages_are_repeated() -> None:
    cut = chunks_of(["cat dog cat", "cat"], [(0, 0, 4), (0, 4, 8), (0, 8, 11), (1, 0, 3)])
    golden = GoldenSet((Question("q", "", evidence=(Evidence("d0", "cat", start=8),)),), repeated_passages=True)
    assert covering(cover(cut, golden)) == [(0, 2), (0, 3)]


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.1])
def test_threshold_out_of_range_is_an_error(threshold: float) -> None:
    with pytest.raises(ConfigError, match=f"got {threshold}"):
        cover(chunks_of([WORDS], [(0, 0, 30)]), ask(), threshold)


def test_all_labels_that_cannot_be_placed_are_named_at_once() -> None:
    golden = ask(Evidence("d7", where="golden.jsonl:3"), Evidence("d0", "omega"), Evidence("d0", "beta", start=1))
    with pytest.raises(InputError) as caught:
        cover(chunks_of([WORDS], [(0, 0, 30)]), golden)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert 'golden.jsonl:3: the label names the document "d7", which is not in the corpus; correct the label' in lines
    assert 'question "q": the anchor "omega" does not occur in "d0"; quote the passage again' in lines
    assert 'question "q": the anchor "beta" does not occur in "d0" at character 1; quote the passage again' in lines


def test_chunker_that_loses_the_text_of_an_anchor_is_found_out() -> None:
    with pytest.raises(InputError, match='no chunk contains any part of "delta" in "d0"'):
        cover(chunks_of([WORDS], [(0, 0, 10)]), ask(Evidence("d0", "delta")))


def test_rankings_of_another_chunking_are_refused() -> None:
    coverage = cover(chunks_of([WORDS], [(0, 0, 30)]), ask(Evidence("d0")))
    with pytest.raises(AssertionError, match="rankings must be of this chunking"):
        coverage.first_ranks(Rankings(np.zeros((1, 1), np.int32), np.zeros((1, 1), np.float32), "elsewhere"))


# --- credit ------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1.0, 2.0, 3.0]), st.integers(0, 6)), max_size=12))
def test_credited_ranks_follow_their_definition(rows: list[tuple[int, float, int]]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    expected = [0] * len(rows)
    before: dict[int, int] = {}
    for n in sorted(range(len(rows)), key=lambda n: (rows[n][2], -rows[n][1], n)):
        question, _, first = rows[n]
        if first:
            before[question] = expected[n] = max(first, before.get(question, 0) + 1)
    table = np.array(rows, dtype=np.float64).reshape(-1, 3)
    credited = credit(table[:, 0].astype(np.int64), table[:, 1], table[:, 2].astype(np.int64))
    assert credited.tolist() == expected


# --- the context -------------------------------------------------------------------------------------------------


def test_tokens_of_the_context_count_title_and_cut_words_and_each_evidence_token_once() -> None:
    cut = chunks_of([WORDS], [(0, 0, 13), (0, 13, 30)], titles=["On letters."])  # "gam|ma"
    golden = ask(Evidence("d0", "beta gamma"), Evidence("d0", "gamma delta"))
    looked = view(cover(cut, golden), rankings_of([1, 0]), 3)
    assert looked.context_tokens.tolist() == [[3 + 3, 3 + 3, 0]]
    assert looked.context_evidence_tokens.tolist() == [[2, 2, 0]]
    assert looked.context_relevant.tolist() == [[True, True, False]]


# --- any chunking: plain loops say the same ----------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn) -> tuple[Chunks, GoldenSet, Rankings]:
    texts = draw(st.lists(st.text(alphabet="ab c.", min_size=4, max_size=16), min_size=1, max_size=3))
    spans = [span for n, text in enumerate(texts) for span in _draw_spans(draw, n, text)]
    cut = chunks_of(texts, spans)
    questions = []
    for number in range(draw(st.integers(1, 3))):
        evidence = [_draw_evidence(draw, texts) for _ in range(draw(st.integers(0, 4)))]
        questions.append(Question(f"q{number}", "", evidence=tuple(evidence)))
    rows = [draw(st.permutations(range(len(cut))))[: draw(st.integers(0, len(cut)))] for _ in questions]
    return cut, GoldenSet(tuple(questions)), rankings_of(*[list(row) for row in rows])


def _draw_spans(draw: st.DrawFn, document: int, text: str) -> list[tuple[int, int, int]]:
    cuts = sorted({0, len(text), *draw(st.lists(st.integers(1, len(text) - 1), max_size=4))})
    overlap = draw(st.integers(0, 3))
    whole = [(document, 0, len(text))] if draw(st.booleans()) else []  # a parent beside its children
    return whole + [(document, max(0, low - overlap), high) for low, high in pairwise(cuts)]


def _draw_evidence(draw: st.DrawFn, texts: list[str]) -> Evidence:
    document = draw(st.integers(0, len(texts) - 1))
    grade = draw(st.sampled_from([0.0, 1.0, 2.0]))
    text = texts[document]
    letters = [n for n, letter in enumerate(text) if letter != " "]
    if not letters or draw(st.booleans()):
        return Evidence(f"d{document}", grade=grade)
    start = draw(st.sampled_from(letters))
    end = draw(st.sampled_from([n for n in letters if n >= start])) + 1
    return Evidence(f"d{document}", text[start:end], start, grade)


def _passage(cut: Chunks, evidence: Evidence) -> tuple[int, set[int]]:
    document = cut.corpus.position[evidence.document]
    start = evidence.start or 0
    end = len(cut.corpus.texts[document]) if evidence.anchor is None else start + len(evidence.anchor)
    return document, set(range(start, end))


def _held(cut: Chunks, n: int, document: int) -> set[int]:
    inside = range(int(cut.spans.start[n]), int(cut.spans.end[n])) if cut.spans.document[n] == document else ()
    return set(inside)


def _covers(cut: Chunks, evidence: Evidence) -> list[int]:
    document, passage = _passage(cut, evidence)
    if evidence.anchor is None:
        return [n for n in range(len(cut)) if cut.spans.document[n] == document]
    shared = [len(_held(cut, n, document) & passage) for n in range(len(cut))]
    limit = min(0.5 * len(passage), max(shared))
    return [n for n, length in enumerate(shared) if length >= limit]


@given(cases())
def test_coverage_and_first_ranks_equal_plain_loops(case: tuple[Chunks, GoldenSet, Rankings]) -> None:
    cut, golden, rankings = case
    coverage = cover(cut, golden)
    asked = [(n, e) for n, question in enumerate(golden.questions) for e in question.evidence if e.grade > 0]
    assert covering(coverage) == [(number, n) for number, (_, e) in enumerate(asked) for n in _covers(cut, e)]
    expected = []
    for number, evidence in asked:
        row = rankings.positions[number].tolist()
        expected.append(min((row.index(n) + 1 for n in _covers(cut, evidence) if n in row), default=0))
    assert coverage.first_ranks(rankings).tolist() == expected


@given(cases(), st.integers(1, 9))
def test_ranks_do_not_depend_on_how_many_are_compared_at_once(
    case: tuple[Chunks, GoldenSet, Rankings], block: int
) -> None:
    cut, golden, rankings = case
    coverage = cover(cut, golden)
    whole = coverage.ranks(rankings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ragsweep.evaluation.evidence.BLOCK", block)
        assert coverage.ranks(rankings).tolist() == whole.tolist()


@given(cases(), st.integers(1, 8))
def test_context_equals_plain_loops(case: tuple[Chunks, GoldenSet, Rankings], top_k: int) -> None:
    cut, golden, rankings = case
    looked = view(cover(cut, golden), rankings, top_k)
    covered = iter(looked.evidence_covered.tolist())
    for number, question in enumerate(golden.questions):
        context = [n for n in rankings.positions[number].tolist()[:top_k] if n >= 0]
        relevant = [evidence for evidence in question.evidence if evidence.grade > 0]
        for evidence in relevant:
            document, passage = _passage(cut, evidence)
            seen = set().union(*(_held(cut, n, document) for n in context))
            whole = any(cut.spans.document[n] == document for n in context)
            assert next(covered) == (float(whole) if evidence.anchor is None else len(seen & passage) / len(passage))
        padding = [0] * (top_k - len(context))
        assert looked.context_tokens[number].tolist() == [tokens.count(cut.text(n)) for n in context] + padding
        assert looked.context_evidence_tokens[number].tolist() == [_marked(cut, n, relevant) for n in context] + padding
        hits = [any(n in _covers(cut, evidence) for evidence in relevant) for n in context]
        assert looked.context_relevant[number].tolist() == hits + [False] * len(padding)


def _marked(cut: Chunks, n: int, relevant: list[Evidence]) -> int:
    """Count the tokens of a chunk that hold any character, within the chunk, of an evidence."""
    document = int(cut.spans.document[n])
    offsets = tokens.locate(cut.corpus.texts[document])
    passages = [passage for place, passage in (_passage(cut, evidence) for evidence in relevant) if place == document]
    inside = set().union(*passages) & _held(cut, n, document)
    words = zip(offsets.start.tolist(), offsets.end.tolist(), strict=True)
    return sum(bool(inside & set(range(start, end))) for start, end in words)


@given(cases(), st.data())
def test_rechunking_changes_no_denominator_and_loses_no_label(
    case: tuple[Chunks, GoldenSet, Rankings], data: st.DataObject
) -> None:
    cut, golden, _ = case
    texts = list(cut.corpus.texts)
    other = chunks_of(texts, [span for n, text in enumerate(texts) for span in _draw_spans(data.draw, n, text)])
    one, two = cover(cut, golden), cover(other, golden)
    assert one.question.tolist() == two.question.tolist()
    assert one.grade.tolist() == two.grade.tolist()
    for coverage in (one, two):
        assert set(coverage.evidence.tolist()) == set(range(len(coverage.grade)))
