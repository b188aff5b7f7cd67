"""Similarity of a question and its context: by hand, and of a config without labels or answers."""

from pathlib import Path

import pytest

from ragsweep.core.types import Case
from ragsweep.parts.metrics import ContextSimilarity
from ragsweep.sweep.running.session import Session
from ragsweep.testing.contract import collect
from support.commands import evaluate, write_dataset
from support.parts import Letters


@pytest.mark.parametrize(
    ("question", "contexts", "cosine"),
    [
        ("ab", ["aabb"], 1.0),
        ("ab", ["aabb", "c"], 0.5),
        ("ab", ["a"], 2**-0.5),
        ("ab", ["a", "b", "abc"], (2 * 2**-0.5 + 2 / 6**0.5) / 3),
        ("ab", ["a", "a"], 2**-0.5),  # a chunk that is there twice counts twice
    ],
)
def test_similarity_is_the_mean_cosine_of_the_question_and_each_chunk(
    question: str, contexts: list[str], cosine: float
) -> None:
    cases = [Case(question="zz", contexts=("zz",)), Case(question=question, contexts=tuple(contexts))]
    judged = collect(ContextSimilarity(Letters()).judge, cases)
    assert [one.value for one in judged] == pytest.approx([1.0, cosine], abs=1e-6)


def test_config_without_labels_or_answers_is_measured_by_its_own_embedder(cwd: Path) -> None:
    asked = [{"id": "a", "question": "the cat sleeps"}, {"id": "b", "question": "zebra"},
             {"id": "c", "question": "thanks", "needs_retrieval": False}]  # fmt: skip
    documents = [{"id": "cat", "text": "the cat sleeps"}, {"id": "dog", "text": "a dog barks"}]
    typed = write_dataset(cwd, asked, documents)
    chosen = ["chunker=none", "embedder=hashing", "metrics=[unlabelled,similarity]"]
    result = evaluate(Session(folder=cwd), *typed, *chosen)
    scores, reasons = result.questions["context_similarity"], result.questions.unscored
    assert scores[0] == pytest.approx(1.0, abs=1e-6)
    assert [one.get("context_similarity") for one in reasons] == [None, "nothing retrieved", "conversational"]
    assert result.questions["searched"] == [True, True, False]
