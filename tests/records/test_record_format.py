"""Encoding and decoding preserve any record, and a damaged record is rejected."""

import hashlib
import json
import math
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ragsweep.core.errors import InputError
from ragsweep.core.question_results import EvidenceRanks, JudgedCases, QuestionResults, Repetitions, StepResults
from ragsweep.core.question_texts import to_texts
from ragsweep.core.results import DatasetFacts, Failure, Result, Run, Summaries, Summary, TargetResult
from ragsweep.records.record_format import FORMAT, Encoded, decode, decode_shared, encode
from ragsweep.sweep.running.session import Session
from support.commands import evaluate
from support.results import changed

text = st.text(max_size=6) | st.sampled_from(["ümlaut", "\ud800", "", "nan", "context"])
number = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, -0.0])
count = st.integers(-(2**63) + 1, 2**63 - 1)
leaf = st.none() | st.booleans() | st.integers() | number | text
tree = st.recursive(leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3))
summaries = st.dictionaries(
    text,
    st.builds(
        Summary, text, number, number, number, count, count, count, count, text, st.sampled_from([True, False, None]),
        st.dictionaries(text, count, max_size=2), number, number, st.floats(0, 1),
    ),
    max_size=3,
)  # fmt: skip
facts = st.builds(
    DatasetFacts, text, text, text, count, count, count, count, st.dictionaries(text, count, max_size=2),
    st.lists(text, max_size=2).map(tuple),
)  # fmt: skip
numbers = st.dictionaries(text, st.dictionaries(text, number | count, max_size=2), max_size=2)


def read(encoded: Encoded) -> Result | Failure:
    shared = decode_shared(encoded.shared, encoded.shared_digest) if encoded.shared_digest else {}
    return decode(encoded, shared)


@st.composite
def questions(draw: st.DrawFn) -> QuestionResults:
    """Columns of single values of any kind, and columns of nested values."""
    rows = draw(st.integers(0, 4))
    kinds = [number, count, text, st.booleans(), st.integers(), st.lists(text, max_size=2), leaf]
    named: dict[str, st.SearchStrategy[Any]] = dict.fromkeys(("answer", "answer_failed", "answer_thoughts"), text)
    named |= {"evidence": count, "retrieved": count, "abstained": st.booleans(), "context": st.lists(text, max_size=3)}
    named |= {"case_fields": st.dictionaries(text, leaf, max_size=2)}
    names = draw(st.lists(st.sampled_from([*named, "mrr"]) | text, unique=True, max_size=7))

    def column(cells: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(cells, min_size=rows, max_size=rows))

    reasons = [{}, {"mrr": "no evidence"}, {"mrr": "timed out", "ndcg": ""}]
    return QuestionResults(
        {"question_id": column(text)} | {name: column(named.get(name, draw(st.sampled_from(kinds)))) for name in names},
        column(st.sampled_from(reasons)),
        {name: StepResults(*(column(number | count) for _ in range(4)), column(text), column(text))
         for name in draw(st.lists(text, unique=True, max_size=2))},
        draw(st.none() | evidence_ranks(rows)),
        draw(st.none() | repetitions(rows)),
    )  # fmt: skip


@st.composite
def evidence_ranks(draw: st.DrawFn, rows: int) -> EvidenceRanks:
    question = sorted(draw(st.lists(st.integers(0, max(rows - 1, 0)), max_size=5 if rows else 0)))
    ranks = arrays(np.int64, len(question), elements=st.integers(0, 100))
    shares, scores = arrays(np.float64, len(question), elements=number), arrays(np.float64, rows, elements=number)
    legs = st.dictionaries(text, ranks, max_size=2)
    return EvidenceRanks(
        np.array(question, dtype=np.int64), draw(shares), draw(ranks), draw(legs), draw(legs), draw(st.none() | ranks),
        draw(st.none() | ranks), draw(st.none() | scores),
        draw(st.dictionaries(text, st.dictionaries(text, scores, max_size=2), max_size=2)),
    )  # fmt: skip


@st.composite
def repetitions(draw: st.DrawFn, rows: int) -> Repetitions:
    shape = (rows, draw(st.integers(1, 3)))
    scores = arrays(np.float64, shape, elements=number)
    cases = JudgedCases(np.full(shape, "case", dtype=np.str_), draw(scores))
    return Repetitions(np.zeros(shape, dtype=np.int64), draw(st.dictionaries(text, scores, max_size=2)), {"m": cases})


runs = st.builds(
    Run, signature=text, name=text, overrides=st.lists(text, max_size=2).map(tuple),
    config=st.dictionaries(text, tree, max_size=3), parameters=st.dictionaries(text, text, max_size=2), dataset=facts,
    stages=numbers, indexes=numbers, warnings=st.lists(text, max_size=2).map(tuple), started=number, ended=number,
    addresses=st.dictionaries(text, text, max_size=2), state=st.sampled_from(["COMPLETE", "PARTIAL"]),
)  # fmt: skip
targets = st.builds(TargetResult, text, text, number, number, text, st.booleans(), text)
of_metrics = st.builds(
    Summaries, metrics=summaries, first_stage=summaries, reranking=st.dictionaries(text, number, max_size=3),
    groups=st.dictionaries(text, st.dictionaries(text, summaries, max_size=2), max_size=2),
    targets=st.lists(targets, max_size=2).map(tuple), latency=numbers, usage=numbers,
)  # fmt: skip
results = st.builds(Result, runs, questions(), of_metrics)
failures = st.builds(
    Failure, text, st.lists(text, max_size=2).map(tuple), st.dictionaries(text, text, max_size=2), text, text, number,
    number,
)  # fmt: skip


def comparable(value: Any) -> Any:
    """Make values comparable: NaN equals NaN, 1 is not 1.0 and not True, and the order of keys counts."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind, comparable(value.ravel().tolist())  # an array without rows is stored without a shape
    if is_dataclass(value):
        return type(value).__name__, [(field.name, comparable(getattr(value, field.name))) for field in fields(value)]
    if isinstance(value, dict):
        return [(key, comparable(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [comparable(item) for item in value]
    return type(value).__name__, repr(value)


@settings(max_examples=150)
@given(results | failures)
def test_what_is_encoded_is_decoded_as_it_was(outcome: Result | Failure) -> None:
    kept = encode(outcome)
    assert comparable(read(kept)) == comparable(outcome)


@pytest.fixture(scope="module")
def measured() -> list[Result]:
    session = Session()
    return [evaluate(session, "retriever=bm25", f"top_k={top_k}") for top_k in (3, 5)]


def test_configs_of_one_golden_set_share_the_columns_of_its_questions(measured: list[Result]) -> None:
    assert comparable(read(encode(measured[0]))) == comparable(measured[0])
    first, second = map(encode, measured)
    assert first.shared == second.shared
    assert first.shared_digest == second.shared_digest == hashlib.sha256(first.shared).hexdigest()
    assert {"question_id", "question", "answerable", "evidence", *measured[0].summaries.groups} <= set(
        json.loads(first.shared)
    )
    own = json.loads(first.own)
    assert set(own) == {"columns", "unscored", "steps", "evidence", "repetitions"}
    assert set(own["columns"]) == {"searched", "context", "context_scores"}
    assert own["repetitions"] is None
    questions = measured[0].run.dataset.questions
    assert len(first.scores) == 8 * questions * len(measured[0].summaries.metrics)
    assert len(first.counts) == 8 * questions * 2  # length of the ranking, first rank


def test_fields_of_a_record_keep_their_names(measured: list[Result]) -> None:
    run = "signature name overrides config parameters dataset stages indexes warnings started ended addresses race"
    run += " metric_versions"
    summaries = "summaries groups first_stage reranking targets latency usage"
    found = {*json.loads(encode(measured[0]).text)}
    assert found == {"format", *run.split(), "state", *summaries.split(), "columns"}


def test_record_whose_nested_values_are_texts_is_read_as_one_of_today(measured: list[Result]) -> None:
    for result in measured:
        flat = encode(changed(result, questions=QuestionResults(to_texts(result.questions))))
        own = json.dumps(json.loads(flat.own)["columns"]).encode()
        old = replace(flat, text=flat.text.replace(FORMAT, "ragsweep.record/2"), own=own)
        assert comparable(read(old)) == comparable(result)


def test_questions_that_lack_the_same_scores_share_their_reasons(measured: list[Result]) -> None:
    found = read(encode(measured[0]))
    assert isinstance(found, Result)
    distinct = {str(row) for row in found.questions.unscored}
    assert len({id(row) for row in found.questions.unscored}) == len(distinct) < found.questions.rows


@pytest.mark.parametrize(
    "harm",
    [
        lambda kept: replace(kept, shared=kept.shared.replace(b"true", b"false")),
        lambda kept: replace(kept, scores=kept.scores[:-8]),
        lambda kept: replace(kept, counts=kept.counts + bytes(8)),
        lambda kept: replace(kept, text=kept.text.replace(FORMAT, "ragsweep.record/9")),
        lambda kept: replace(kept, text=kept.text[:100]),
        lambda kept: replace(kept, own=b"{}"),
        lambda kept: replace(kept, own=kept.own.replace(b'"ranked":[', b'"ranked":[1e99,')),
        lambda kept: replace(kept, text="[]"),
    ],
)
def test_damaged_record_is_refused(harm: Any, measured: list[Result]) -> None:
    with pytest.raises(InputError, match=r"a record (cannot be decoded|was written by another version)"):
        read(harm(encode(measured[0])))


def test_status_is_the_state_of_the_result(measured: list[Result]) -> None:
    assert encode(measured[0]).status == "finished"
    assert encode(changed(measured[0], state="PARTIAL")).status == "partial"
    failed = encode(Failure("n", ("a",), {}, "no luck"))
    assert failed == Encoded("failed", None, failed.text)
