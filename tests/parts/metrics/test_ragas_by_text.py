"""RAGAS's context metrics that ask no judge, against ragas' own (deprecated) classes."""

import asyncio
import importlib
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.missing import SKIPPED
from ragsweep.core.types import (
    Answer,
    Answers,
    Chunks,
    Corpus,
    EvaluationView,
    Evidence,
    GoldenSet,
    Judgement,
    Passage,
    Question,
    Rankings,
    Spans,
)
from ragsweep.evaluation.evidence import cover, view
from ragsweep.parts.metrics import (
    JudgeSpread,
    JudgeSuspicious,
    RagasFaithfulness,
    RagasIdBasedContextPrecision,
    RagasIdBasedContextRecall,
    RagasNonLlmContextPrecision,
    RagasNonLlmContextRecall,
)
from ragsweep.parts.metrics.ragas_by_text import evidence_quotes, similarity
from ragsweep.testing.metrics import example
from support.metrics import rows

DOCUMENTS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]


def theirs(name: str) -> Any:
    """Find a class that ragas has in its deprecated modules only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = "recall" if "Recall" in name else "precision"
        return getattr(importlib.import_module(f"ragas.metrics._context_{kind}"), name)


def sampled(**texts: list[str]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ragas.dataset_schema import SingleTurnSample
    return SingleTurnSample(**texts)


def scored(metric: Any, sample: Any) -> float:
    return float(asyncio.run(metric._single_turn_ascore(sample, [])))


def by_document(relevant: list[int], found: list[int], top_k: int) -> EvaluationView:
    """Look at one question whose evidences are whole documents, each one chunk."""
    corpus = Corpus(DOCUMENTS, [""] * 6, DOCUMENTS)
    ends = np.array([len(text) for text in DOCUMENTS])
    spans = Spans(np.arange(6, dtype=np.int32), np.zeros(6, np.int64), ends)
    question = Question("q", "", evidence=tuple(Evidence(DOCUMENTS[n]) for n in relevant))
    positions = np.full((1, 6), -1, np.int32)
    positions[0, : len(found)] = found
    scores = np.where(positions >= 0, -np.arange(6.0), -np.inf).astype(np.float32)
    return view(cover(Chunks(corpus, spans), GoldenSet((question,))), Rankings(positions, scores), top_k)


@pytest.mark.parametrize("seed", range(5))
def test_by_id_they_are_those_of_ragas(seed: int) -> None:
    chance = np.random.default_rng(seed)
    relevant = chance.choice(6, chance.integers(1, 5), replace=False).tolist()
    found = chance.permutation(6)[: chance.integers(1, 7)].tolist()
    top_k = int(chance.integers(1, 7))
    looked = by_document(relevant, found, top_k)
    ids = {
        "retrieved_context_ids": [DOCUMENTS[n] for n in found[:top_k]],
        "reference_context_ids": [DOCUMENTS[n] for n in relevant],
    }
    for ours, name in (
        (RagasIdBasedContextPrecision(), "IDBasedContextPrecision"),
        (RagasIdBasedContextRecall(), "IDBasedContextRecall"),
    ):
        expected = scored(theirs(name)(), sampled(**ids))
        assert ours.score(looked).values[0] == pytest.approx(expected, abs=1e-12)


def test_a_context_that_is_empty_or_that_the_token_budget_empties_has_recall_and_no_precision() -> None:
    emptied = replace(by_document([0, 1], [0], 3), context_length=np.zeros(1, np.int64))
    for looked in (by_document([0, 1], [], 3), emptied):
        assert rows(RagasIdBasedContextPrecision(), looked) == ["nothing retrieved"]
        assert rows(RagasIdBasedContextRecall(), looked) == [0]


# --- by text ------------------------------------------------------------------------------------------------------


def by_text(contexts: list[str], quotes: list[str]) -> EvaluationView:
    """Look at one question with quoted evidence, and what its generator was given."""
    corpus = Corpus(["d"], [""], [" ".join(quotes)])
    spans = Spans(np.zeros(1, np.int32), np.zeros(1, np.int64), np.array([len(corpus.texts[0])]))
    question = Question("q", "", evidence=tuple(Evidence("d", quote) for quote in quotes))
    looked = view(
        cover(Chunks(corpus, spans), GoldenSet((question,))),
        Rankings(np.zeros((1, 1), np.int32), np.ones((1, 1), np.float32)),
        1,
    )
    given = tuple(Passage(str(n), text) for n, text in enumerate(contexts))
    return replace(looked, answers=Answers([Answer("a")], [given], np.zeros(1, np.int64)))


def plain_distance(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for n, character in enumerate(one, 1):
        above, row = row, [n]
        for m, against in enumerate(other, 1):
            row.append(min(above[m] + 1, row[-1] + 1, above[m - 1] + (character != against)))
    return row[-1]


@given(st.text("abcé", max_size=70), st.text("abcé", max_size=90))
def test_likeness_is_one_minus_the_normalised_edit_distance(one: str, other: str) -> None:
    longest = max(len(one), len(other))
    expected = 1 - plain_distance(one, other) / longest if longest else 1.0
    assert similarity(one, other) == pytest.approx(expected, abs=1e-12)
    assert similarity(one, other) == similarity(other, one)


TEXTS = ["Alice wrote the letter.", "Alice wrote a letter", "the mill is old", "The mill is very old.", "nothing"]


@pytest.mark.parametrize("seed", range(5))
def test_by_text_they_are_those_of_ragas(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ragas.metrics.base import SingleTurnMetric

    class Likeness(SingleTurnMetric):
        """Take the place of a distance whose library ragas does not install."""

        name = "similarity"

        async def single_turn_ascore(self, sample: Any, callbacks: Any = None, timeout: Any = None) -> float:
            return similarity(sample.reference, sample.response)

        init = _single_turn_ascore = _ascore = NotImplemented

    chance = np.random.default_rng(seed)
    contexts = [TEXTS[n] for n in chance.integers(0, 5, chance.integers(1, 5))]
    quotes = [TEXTS[n] for n in chance.permutation(5)[: chance.integers(1, 4)]]
    looked, sample = by_text(contexts, quotes), sampled(retrieved_contexts=contexts, reference_contexts=quotes)
    precision = theirs("NonLLMContextPrecisionWithReference")(distance_measure=Likeness())
    recall = theirs("NonLLMContextRecall")(_distance_measure=Likeness())
    assert RagasNonLlmContextPrecision().score(looked).values[0] == pytest.approx(scored(precision, sample), abs=1e-9)
    assert RagasNonLlmContextRecall().score(looked).values[0] == pytest.approx(scored(recall, sample), abs=1e-12)


def test_without_quotes_texts_or_answers_there_is_a_reason() -> None:
    metric, looked = RagasNonLlmContextRecall(), by_text(["Alice wrote a letter"], ["Alice wrote the letter."])
    assert rows(metric, looked) == [1]
    assert rows(metric, replace(looked, answers=None)) == ["no answers asked for"]
    assert rows(metric, by_text([], ["Alice wrote"])) == ["nothing retrieved"]
    assert evidence_quotes(Question("q", "", evidence=(Evidence("d", "a"), Evidence("d")))) == []
    assert evidence_quotes(Question("q", "", evidence=(Evidence("d", "a"), Evidence("d", grade=0)))) == ["a"]


# --- properties of judgements


def test_flags_and_spread_are_those_of_any_metric() -> None:
    judgements = {
        "a": [Judgement(1.0, spread=0.2), Judgement(0.5, suspicious=True), Judgement(reason="no reference answer")],
        "b": [Judgement(0.0, spread=0.4), Judgement(reason="timed out"), Judgement(reason="no reference answer")],
    }
    looked = replace(example([0, 1, 2]), judgements=judgements)
    assert rows(JudgeSuspicious(), looked) == [0, 1, "no reference answer"]
    assert rows(JudgeSpread(), looked) == [pytest.approx(0.3), "judged once", "no reference answer"]
    assert rows(JudgeSuspicious(), replace(looked, judgements={})) == ["nothing judged"] * 3
    failed = {"a": [Judgement(reason="abstained")] * 3, "b": [Judgement(reason="timed out")] * 3}
    assert rows(JudgeSuspicious(), replace(looked, judgements=failed)) == ["timed out"] * 3
    assert {"nothing judged", "judged once"} <= SKIPPED


def test_an_answer_that_declines_and_conversation_have_no_score() -> None:
    questions = (Question("q", ""), Question("r", ""), Question("s", "", needs_retrieval=False))
    answers = Answers([Answer("no", abstained=True), Answer("yes"), Answer("hello")], [()] * 3, np.zeros(3, np.int64))
    looked = replace(
        example([0, 1, 2]),
        questions=questions,
        answers=answers,
        judgements={"ragas_faithfulness": [Judgement(0.5)] * 3},
    )
    assert rows(RagasFaithfulness(None), looked) == ["abstained", 0.5, "conversational"]  # type: ignore[arg-type]
