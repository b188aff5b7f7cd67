"""Metrics of the context, of distractors and of sections: by hand."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ragsweep.core.missing import SKIPPED
from ragsweep.core.types import (
    Chunks,
    Corpus,
    EvaluationView,
    Evidence,
    GoldenSet,
    Metric,
    Question,
    Rankings,
    Spans,
)
from ragsweep.evaluation.evidence import cover, view
from ragsweep.golden.markdown import section
from ragsweep.parts import metrics
from ragsweep.parts.datasets import PythonReference
from ragsweep.sweep.running.session import Session
from ragsweep.testing.metrics import example
from support.commands import evaluate, prepare, write_dataset
from support.inputs.trec_files import align
from support.metrics import rows

NAMES = [question.id for question in example().questions]


def scores(metric: Metric, case: EvaluationView) -> dict[str, float | str]:
    return dict(zip(NAMES, rows(metric, case), strict=True))


def hand(*evidence: Evidence, ranking: list[int], top_k: int) -> EvaluationView:
    """The document reads "alpha beta gamma delta!", in chunks "alpha beta ", "gamma " and "delta!"."""
    spans = Spans(np.zeros(3, np.int32), np.array([0, 11, 17]), np.array([11, 17, 23]))
    chunks = Chunks(Corpus(["d"], [""], ["alpha beta gamma delta!"]), spans)
    falling = np.arange(len(ranking), 0, -1, dtype=np.float32)[None, :]
    rankings = Rankings(np.array([ranking], np.int32), falling)
    return view(cover(chunks, GoldenSet((Question("q", "", evidence=evidence),))), rankings, top_k)


# The first chunk covers alpha and beta; delta stands in the third, which is ranked behind the context.
CONTEXT = hand(Evidence("d", "alpha"), Evidence("d", "beta"), Evidence("d", "delta"), ranking=[1, 0, 2], top_k=2)
LOG3 = math.log2(3)


def test_budget_lowers_no_credit_of_evidence_that_the_context_contains() -> None:
    """One chunk covers alpha and beta; it ranks first, so its pieces are credited at ranks 1 and 2."""
    case = hand(Evidence("d", "alpha"), Evidence("d", "beta"), Evidence("d", "delta"), ranking=[0, 1, 2], top_k=3)
    cut = {length: replace(case, context_length=np.array([length])) for length in (0, 1, 3)}
    found = {length: metrics.ContextNdcg().score(one).values.tolist() for length, one in cut.items()}
    ideal = 1 + 1 / LOG3 + 1 / 2
    assert found == {0: [0.0], 1: [pytest.approx((1 + 1 / LOG3) / ideal)], 3: [pytest.approx(1)]}


SMALL = hand(Evidence("d", "gamma"), ranking=[1], top_k=1)
LARGE = hand(Evidence("d", "gamma"), ranking=[0, 1, 2], top_k=3)
HALF = hand(Evidence("d", "beta gamma"), Evidence("d", "gamma"), ranking=[1, 0], top_k=1)  # 5 of 10 characters, all


@pytest.mark.parametrize(
    ("metric", "context", "expected"),
    [
        (metrics.ContextRecall(), CONTEXT, 2 / 3),
        (metrics.ContextPrecision(), CONTEXT, 1 / 2),
        (metrics.ContextNdcg(), CONTEXT, (1 / LOG3) / (1 + 1 / LOG3)),  # credited at ranks 2 and 3; it ends at 2
        (metrics.EvidenceCoverage(), CONTEXT, 2 / 3),
        (metrics.ContextTokens(), CONTEXT, 3.0),
        (metrics.ContextTokenPrecision(), CONTEXT, 2 / 3),
        (metrics.EmptyRate(), CONTEXT, 0.0),
        (metrics.Results(), CONTEXT, 3.0),
        (metrics.TopScore(), CONTEXT, 3.0),
        (metrics.ContextRecall(), SMALL, 1),
        (metrics.ContextRecall(), LARGE, 1),
        (metrics.ContextTokenPrecision(), SMALL, 1),
        (metrics.ContextTokenPrecision(), LARGE, 1 / 5),  # what a large context gains in recall it pays here
        (metrics.ContextPrecision(), hand(Evidence("d", "gamma"), ranking=[1, 0], top_k=9), 1 / 2),  # not by top_k
        (metrics.EvidenceCoverage(), HALF, (1 / 2 + 1) / 2),
    ],
    ids=lambda case: getattr(case, "name", ""),
)
def test_hand_computed_values(metric: Metric, context: EvaluationView, expected: float) -> None:
    assert metric.score(context).values.tolist() == [pytest.approx(expected, abs=1e-12)]


@pytest.mark.parametrize("metric", [metrics.ContextRecall(), metrics.ContextPrecision(), metrics.ContextNdcg(),
                                    metrics.EvidenceCoverage(), metrics.ContextTokenPrecision()])  # fmt: skip
def test_empty_context_scores_zero_where_there_was_evidence_to_find(metric: Metric) -> None:
    found = scores(metric, example(empty=True))
    assert found["all found"] == found["a whole document"] == 0.0
    assert (found["unanswerable"], found["conversational"]) == ("unanswerable", "conversational")
    assert found["irrelevant evidence only"] == "no evidence"


def test_tokens_and_empty_rate_are_of_all_questions_that_need_retrieval() -> None:
    empty, counts = scores(metrics.EmptyRate(), example()), scores(metrics.ContextTokens(), example())
    assert {name for name, number in empty.items() if number == 1.0} == {"nothing retrieved"}
    assert (empty["unanswerable"], empty["conversational"]) == (0.0, "conversational")
    assert counts["nothing retrieved"] == 0.0
    assert counts["unanswerable"] == 6.0  # "Letters epsilon zeta" and "four five six"
    assert counts["conversational"] == "conversational"


def test_top_score_of_nothing_is_a_failure_not_a_skip() -> None:
    found = scores(metrics.TopScore(), example())
    assert found["unanswerable"] == pytest.approx(0.9)
    assert found["nothing retrieved"] == "nothing retrieved"
    assert "nothing retrieved" not in SKIPPED
    assert found["conversational"] in SKIPPED


def test_imported_run_has_no_text_and_therefore_no_token_precision() -> None:
    chunks, golden, rankings = align({"q": [("a", 1.0)]}, {"q": {"a": 1}, "r": {"a": 1}})
    assert rows(metrics.ContextTokenPrecision(), view(cover(chunks, golden), rankings, 5)) == ["no text", 0]


def test_latency_sums_the_stages_in_milliseconds_where_all_were_probed() -> None:
    values = scores(metrics.Latency(), example())
    assert values["all found"] == pytest.approx(30.0)
    assert scores(metrics.Latency(stage="rerank"), example())["all found"] == pytest.approx(20.0)
    assert values["conversational"] == "not probed"
    assert set(scores(metrics.Latency(stage="judge"), example()).values()) == {"not probed"}
    partly = replace(SMALL, latency={"retrieve": np.array([0.1]), "rerank": np.array([np.nan])})
    assert metrics.Latency().score(partly).reasons.tolist() == ["not probed"]


@pytest.mark.parametrize(
    ("stage", "seconds"),
    [
        ("retrieve", 0.03),
        ("retrieve/bm25", 0.01),
        ("embed_queries", 0.1),
        ("fuse", 0.5),
        ("retrieval", 0.63),
        (None, 1.63),
    ],
)
def test_latency_of_a_stage_is_the_sum_over_the_legs_of_a_hybrid(stage: str | None, seconds: float) -> None:
    given = {"retrieve/bm25": 0.01, "retrieve/vector": 0.02, "embed_queries/vector": 0.1, "fuse": 0.5, "generate": 1.0}
    view = example([0, 1])
    view = replace(view, latency={name: np.full(2, one) for name, one in given.items()})
    scores = metrics.Latency(stage=stage).score(view)
    assert scores.values.tolist() == pytest.approx([1000 * seconds] * 2)
    assert metrics.Latency(stage="retriev").score(view).reasons.tolist() == ["not probed"] * 2


def test_latency_names_and_quantiles() -> None:
    names = {metrics.Latency(quantile).name: quantile for quantile in (None, 0.5, 0.95, 0.99)}
    assert list(names) == ["latency_mean_ms", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms"]
    assert metrics.Latency(0.95, "rerank").name == "latency_rerank_p95_ms"
    assert metrics.Latency(0.95).quantile == 0.95


GUIDE = "Guide\n=====\n\nIntro.\n\nSet it up\n---------\n\nPip.\n\n### Deep\n\nMore.\n\nRun it\n------\n\nGo.\n"
NOTES = "# Notes\n\nText.\n\n```sh\n# Run it\n```\n\n## Run `it`!\n\nGo on.\n\n# Other\n\nEnd.\n"


@pytest.mark.parametrize(
    ("text", "name", "begins", "ends"),
    [
        (GUIDE, "Guide", "Guide\n", "Go.\n"),
        (GUIDE, "set it up", "Set it up\n---", "More.\n\n"),
        (GUIDE, "Run it", "Run it\n---", "Go.\n"),
        (NOTES, "Run it", "## Run `it`!", "Go on.\n\n"),  # text in a code span is not a heading
        (NOTES, "Notes", "# Notes", "Go on.\n\n"),
        ("Plain\nOne\ntext\n# Two\n", "one", "One\n", "text\n"),  # a line of its own
        ("# One\n---\ntext\n# Two\n", "one", "# One\n", "text\n"),  # a rule below a heading is no second heading
    ],
)
def test_section_is_its_heading_and_all_below(text: str, name: str, begins: str, ends: str) -> None:
    found = section(text, name)
    assert found is not None
    assert text[slice(*found)].startswith(begins)
    assert text[slice(*found)].endswith(ends)


@pytest.mark.parametrize("name", ["Nowhere", "", "?!", "Intro Pip"])
def test_section_that_is_not_there_is_none(name: str) -> None:
    assert section(GUIDE, name) is None


CORPUS = Corpus(["guide", "notes", "blog"], ["", "", "Run it"], [GUIDE, NOTES, "Just run."])
CUTS = {0: [0, GUIDE.index("Set it"), GUIDE.index("Run it"), len(GUIDE)],
        1: [0, NOTES.index("## Run"), len(NOTES)], 2: [0, 9]}  # fmt: skip
ROWS = [(document, low, high) for document, cuts in CUTS.items() for low, high in pairwise(cuts)]
CHUNKS = Chunks(CORPUS, Spans(*(np.array(column) for column in zip(*ROWS, strict=True))))
"""Three chunks of the guide, two of the notes, one of the blog."""


def ranked_score(metric: Metric, question: Question, *ranked: int) -> float | str:
    positions = np.array([[*ranked, *[-1] * (4 - len(ranked))]], dtype=np.int32)
    falling = np.where(positions >= 0, np.linspace(1, 0.1, 4), -np.inf).astype(np.float32)
    return rows(metric, view(cover(CHUNKS, GoldenSet((question,))), Rankings(positions, falling), 3))[0]


@pytest.mark.parametrize(
    ("ranked", "rate"), [((0, 3, 5), 2 / 3), ((0, 1, 2, 3), 0.0), ((3,), 1.0), ((), 0.0), ((0, 5), 0.5)]
)
def test_distractor_rate_is_the_share_of_the_context_that_comes_from_distractors(
    ranked: tuple[int, ...], rate: float
) -> None:
    question = Question("q", "?", answerable=False, distractors=("notes", "blog", "not in the corpus"))
    assert ranked_score(metrics.DistractorRate(), question, *ranked) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("expected", "ranked", "met"),
    [(2, (0, 3), 1.0), (3, (0, 3), 0.0), (1, (0, 3), 0.0), (0, (), 1.0), (0, (1,), 0.0), (4, (0, 1, 2, 3), 1.0)],
)
def test_expected_count_is_met_by_a_ranking_of_just_that_length(
    expected: int, ranked: tuple[int, ...], met: float
) -> None:
    question = Question("q", "?", answerable=False, expected_count=expected)
    assert ranked_score(metrics.ExpectedCountMet(), question, *ranked) == met


def expecting(name: str, *documents: str) -> Question:
    return Question("q", "?", section=name, evidence=tuple(Evidence(one) for one in documents))


@pytest.mark.parametrize(
    ("question", "ranked", "hit"),
    [
        (expecting("Run it", "guide"), (2,), 1.0),
        (expecting("Run it", "guide"), (0, 1, 3, 2), 0.0),  # the fourth is not handed on
        (expecting("Run it", "guide"), (4, 5), 0.0),  # the same heading in documents that are not meant
        (expecting("Run it", "guide", "notes"), (4,), 1.0),
        (expecting("Deep", "guide"), (1,), 1.0),  # the chunk holds the section
        (expecting("Guide", "guide"), (1,), 1.0),  # the section holds the chunk
        (expecting("Run it", "blog"), (5,), 1.0),  # by its title
        (expecting("Run it", "guide"), (), 0.0),
    ],
)
def test_section_is_hit_by_a_chunk_of_the_context_that_stands_in_it(
    question: Question, ranked: tuple[int, ...], hit: float
) -> None:
    assert ranked_score(metrics.SectionHit(), question, *ranked) == hit


def test_section_of_a_document_that_is_judged_not_relevant_is_not_expected() -> None:
    judged = replace(expecting("Run it", "guide"), evidence=(Evidence("guide"), Evidence("notes", grade=0)))
    assert ranked_score(metrics.SectionHit(), judged, 4) == 0
    assert ranked_score(metrics.SectionHit(), judged, 2) == 1


@pytest.mark.parametrize(
    ("metric", "question", "reason"),
    [
        (metrics.DistractorRate(), Question("q", "?"), "no distractors"),
        (metrics.DistractorRate(), Question("q", "?", distractors=("elsewhere",)), "no distractors"),
        (metrics.DistractorRate(), Question("q", "?", needs_retrieval=False), "conversational"),
        (metrics.ExpectedCountMet(), Question("q", "?"), "no expected count"),
        (metrics.ExpectedCountMet(), Question("q", "?", needs_retrieval=False, expected_count=0), "conversational"),
        (metrics.SectionHit(), expecting("", "guide"), "no expected section"),
        (metrics.SectionHit(), expecting("?!", "guide"), "the expected section is not a heading of its documents"),
        (metrics.SectionHit(), expecting("Nowhere", "guide"), "the expected section is not a heading of its documents"),
    ],
)
def test_question_that_says_nothing_of_it_has_a_reason(metric: Metric, question: Question, reason: str) -> None:
    assert ranked_score(metric, question, 0) == reason


def test_most_sections_of_the_built_in_set_are_found() -> None:
    loaded = PythonReference(limit=None, seed=0).load()
    named = [one for one in loaded.golden.questions if one.section]
    documents = {
        one.id: [loaded.corpus.texts[loaded.corpus.position[e.document]] for e in one.evidence] for one in named
    }
    found = [one for one in named if any(section(text, one.section) for text in documents[one.id])]
    assert len(named) == 120
    assert len(found) > 100


WORDS = [{"id": "cat", "text": "cat words"}, {"id": "dog", "text": "dog words"}]


def test_golden_file_decides_and_an_edit_of_it_is_another_sweep(cwd: Path) -> None:
    signatures = []
    for wrong in ("cat", "dog"):
        asked = {"id": "q", "question": "cat", "evidence": [{"document": "cat"}], "distractors": [wrong]}
        typed = [*write_dataset(cwd, [asked], WORDS), "chunker=none", "top_k=1"]
        signatures.append(prepare(Session(folder=cwd), *typed).signature)
        result = evaluate(Session(folder=cwd), *typed)
        assert result.summaries.metrics["distractor_rate"].value == float(wrong == "cat")
    assert signatures[0] != signatures[1]


def test_expected_counts_of_a_golden_file_are_measured_and_tell_sweeps_apart(cwd: Path) -> None:
    signatures = []
    for first in (1, 2):
        rows = [{"id": "a", "question": "cat", "expected_count": first}, {"id": "b", "question": "cat dog"},
                {"id": "c", "question": "dog cat", "expected_count": 2}, {"id": "d", "question": "cat"}]  # fmt: skip
        golden = [{**row, "evidence": [{"document": "cat"}]} for row in rows]
        typed = [*write_dataset(cwd, golden, WORDS), "chunker=none", "metrics=[retrieval,counts]"]
        signatures.append(prepare(Session(folder=cwd), *typed).signature)
        result = evaluate(Session(folder=cwd), *typed)
        assert result.questions["retrieved"] == [1, 2, 2, 1]
        found = result.summaries.metrics["expected_count_met"]
        assert (found.value, found.n_scored, found.reasons) == ((1 + (first == 1)) / 2, 2, {"no expected count": 2})
    assert signatures[0] != signatures[1]
