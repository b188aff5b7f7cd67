"""Results by question are written as a flat table of texts, and read back."""

import json
import math

import numpy as np
import pytest

from ragsweep.core.question_results import QuestionResults
from ragsweep.core.question_texts import from_texts, to_texts

TABLE = {
    "question_id": ["a", "b", "c"],
    "case_fields": ['{"expected": "é"}', "{}", '{"n": [1, null]}'],
    "mrr": [0.5, 1.0, 0.25],
    "unscored": ["{}", '{"ndcg": "no evidence"}', "{}"],
    "evidence_trace": [
        '{"held":[1,0.5],"legs":{"bm25":[3,0]},"first":[2,0],"ranked":[1,0],"context":[1,0],"top":2.5,'
        '"scores":{"":{"mrr":1},"bm25":{"mrr":0.333333}}}',
        "{}",
        '{"held":[0.123],"legs":{"bm25":[7]},"first":[9],"ranked":[4],"context":[0],"top":3,'
        '"scores":{"":{"mrr":null},"bm25":{"mrr":0}}}',
    ],
    "steps": [
        '{"retrieve":{"ms":1.5},"generate":{"ms":900.0,"tokens_in":12,"tokens_out":0,"money":0.001,"model":"m"}}',
        '{"generate":{"ms":3.0},"judge/solved":{"tokens_in":7,"tokens_out":2,"words":"yes, it is"}}',
        "{}",
    ],
    "answer_repetitions": [
        '{"answers": [0, 0], "scores": {"mrr": [0.5, null]}, "judged": {"solved": [["ab12", 0.1], ["cd34", null]]}}',
        '{"answers": [0, 1], "scores": {"mrr": [1.0, 1.0]}, "judged": {"solved": [["x", 0.0], ["y", 0.2]]}}',
        '{"answers": [0, 1], "scores": {"mrr": [0.25, 0.0]}, "judged": {"solved": [["z", null], ["z", null]]}}',
    ],
}
"""As releases up to record format 2 stored it, and as the tracker's files show it."""


def test_flat_table_is_written_as_it_was_read() -> None:
    assert to_texts(from_texts(TABLE)) == TABLE


def test_texts_are_read_as_typed_columns() -> None:
    found = from_texts(TABLE)
    assert dict(found) == {**{name: TABLE[name] for name in ("question_id", "mrr")},
                           "case_fields": [{"expected": "é"}, {}, {"n": [1, None]}]}  # fmt: skip
    assert list(found.unscored) == [{}, {"ndcg": "no evidence"}, {}]
    assert found.unscored[0] is found.unscored[2]
    ranks = found.evidence
    assert ranks.question.tolist() == [0, 0, 2]
    assert {stage: column.tolist() for stage, column in ranks.stages.items()} == {
        "bm25": [3, 0, 7], "before reranking": [2, 0, 9], "final": [1, 0, 4],
    }  # fmt: skip
    np.testing.assert_array_equal(ranks.scores["bm25"]["mrr"], [0.333333, math.nan, 0])
    assert found.steps["generate"].ms[:2] == [900.0, 3.0]
    assert math.isnan(found.steps["generate"].ms[2])
    assert found.judged == ["solved"]
    assert found.words_of(1) == {"solved": "yes, it is"}
    assert found.words_of(0) == {}
    np.testing.assert_array_equal(found.repetitions.scores["mrr"], [[0.5, math.nan], [1, 1], [0.25, 0]])


def test_evidence_of_lost_questions_is_dropped() -> None:
    ranks = from_texts(TABLE).evidence
    kept = QuestionResults({"question_id": list("abc")}, evidence=ranks.without(np.array([True, False, False])))
    assert to_texts(kept)["evidence_trace"] == ["{}", "{}", TABLE["evidence_trace"][2]]


def test_table_without_nested_columns_has_none() -> None:
    found = from_texts({"question_id": ["a"], "mrr": [1.0]})
    assert (found.evidence, found.repetitions, dict(found.steps), list(found.unscored)) == (None, None, {}, [])
    assert found.steps_of(0) == {}


@pytest.mark.parametrize("column", ["unscored", "evidence_trace", "steps", "answer_repetitions", "case_fields"])
def test_text_that_is_no_json_is_refused(column: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        from_texts({**TABLE, column: ["{", "{}", "{}"]})
