"""Weights of questions are read from every format that has them, and a bad one is refused with its place."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError, Faults, InputError
from ragsweep.core.types import Corpus, Dataset, GoldenSet, Question, weights_of
from ragsweep.golden.clusters import clusters
from ragsweep.golden.golden_format import read_questions
from ragsweep.golden.golden_set import find_faults, weigh_unanswerable
from ragsweep.golden.partition import holdout
from ragsweep.parts.datasets import Beir, Csv, Jsonl, Squad
from support import write_rows


def jsonl(folder: Path, weights: Sequence[Any]) -> Dataset:
    rows = [{"id": f"q{n}", "question": f"what is {n}?", "weight": one} for n, one in enumerate(weights)]
    corpus = write_rows(folder / "corpus.jsonl", [{"id": "d", "text": "an apple"}])
    return Jsonl(corpus, write_rows(folder / "golden.jsonl", rows), "error", None, 0, False).load()


def csv(folder: Path, weights: Sequence[Any]) -> Dataset:
    cells = ["" if one is None else str(one).lower() for one in weights]
    rows = "".join(f"q{n},what is {n}?,{cell}\n" for n, cell in enumerate(cells))
    (folder / "golden.csv").write_text(f"id,question,weight\n{rows}")
    corpus = write_rows(folder / "corpus.jsonl", [{"id": "d", "text": "an apple"}])
    return Csv(corpus, str(folder / "golden.csv"), None, None, None, "error", None, 0).load()


def beir(folder: Path, weights: Sequence[Any]) -> Dataset:
    write_rows(folder / "corpus.jsonl", [{"_id": "d", "text": "an apple"}])
    rows = [{"_id": f"q{n}", "text": f"what is {n}?", "metadata": {"weight": one}} for n, one in enumerate(weights)]
    write_rows(folder / "queries.jsonl", [*rows, {"_id": "other split", "text": "what?"}])
    (folder / "qrels").mkdir(exist_ok=True)
    (folder / "qrels" / "test.tsv").write_text("".join(f"q{n}\td\t1\n" for n in range(len(weights))))
    return Beir(str(folder), "test", None, "error", None, 0).load()


def squad(folder: Path, weights: Sequence[Any]) -> Dataset:
    answer = {"text": "apple", "answer_start": 3}
    asked = [{"id": f"q{n}", "question": f"what is {n}?", "answers": [answer], "weight": one}
             for n, one in enumerate(weights)]  # fmt: skip
    paragraphs = [{"context": "an apple", "qas": asked}]
    (folder / "squad.json").write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    return Squad(str(folder / "squad.json"), "error", None, 0).load()


READERS = (jsonl, csv, beir, squad)


@pytest.mark.parametrize("read", READERS)
def test_weights_are_read(read: Any, tmp_path: Path) -> None:
    assert weights_of(read(tmp_path, [2, 0.5, 1e3]).golden.questions) == [2, 0.5, 1000]
    assert weights_of(read(tmp_path, [None, None]).golden.questions) is None
    assert read(tmp_path, [3, 1]).golden.questions[0].labels == {}


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("weight", "fact"),
    [
        (-2, '"weight" is -2; use a number above 0, or remove the question'),
        (0, '"weight" is 0; use a number above 0, or remove the question'),
        ("often", '"weight" is "often", not a number'),
        (True, r'"weight" is "?true"?, not a number'),
        (1e12, r'"weight" must be from -1e\+09 to 1e\+09, got 1000000000000.0'),
        (
            None,
            'question "q1" has no "weight", unlike 2 of 3 questions; give a weight to all questions or to none',
        ),
    ],
)
def test_a_bad_weight_is_one_fault_with_its_place_and_value(read: Any, weight: Any, fact: str, tmp_path: Path) -> None:
    place = {jsonl: "golden.jsonl:2", csv: "golden.csv:3", beir: "queries.jsonl:2",
             squad: r"squad.json:\$.data\[0\].paragraphs\[0\].qas\[1\]"}[read]  # fmt: skip
    with pytest.raises(InputError, match=f"{place}: {fact}$") as caught:
        read(tmp_path, [1, weight, 3])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("read", "fact"), [(jsonl, "NaN is not a JSON value"), (csv, '"weight" is "nan", not a number')]
)
def test_no_number_is_no_weight(read: Any, fact: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=fact):
        read(tmp_path, [1, float("nan")])


@pytest.mark.parametrize("weight", [0, "often", 1e12])
@pytest.mark.parametrize("others", [[None, None], [2, 3]])
def test_a_bad_weight_is_no_reason_to_miss_another(weight: Any, others: list[Any], tmp_path: Path) -> None:
    faults = Faults()
    rows = [{"id": f"q{n}", "question": "what?", "weight": one} for n, one in enumerate([weight, *others])]
    raw = read_questions(Path(write_rows(tmp_path / "golden.jsonl", rows)), "", faults)
    find_faults(raw.questions, Corpus([], [], []), faults)
    assert len(faults.found) == 1
    assert faults.found[0].startswith(f'{tmp_path / "golden.jsonl"}:1: "weight" ')


def questions(weights: Sequence[float | None]) -> tuple[Question, ...]:
    return tuple(Question(f"q{n}", f"what is the number {n * n}?", weight=one) for n, one in enumerate(weights))


def test_only_ratios_of_weights_make_another_golden_set_and_none_moves_a_question() -> None:
    given = [0.1 + n % 7 for n in range(300)]
    plain, weighted = questions([None] * 300), questions(given)
    assert GoldenSet(weighted).digest == GoldenSet(questions([one * 0.3 for one in given])).digest
    assert GoldenSet(weighted).digest != GoldenSet(questions(given[::-1])).digest
    assert GoldenSet(questions([7.0] * 300)).digest == GoldenSet(plain).digest
    assert clusters(weighted) == clusters(plain)
    assert holdout(weighted) == holdout(plain)


def mixed(answerable: Sequence[float | None], unanswerable: Sequence[float | None]) -> Dataset:
    kinds = [(True, one) for one in answerable] + [(False, one) for one in unanswerable]
    made = (Question(f"q{n}", f"what is {n}?", answerable=kind, weight=one) for n, (kind, one) in enumerate(kinds))
    return Dataset("mixed", Corpus(["d"], [""], ["an apple"]), GoldenSet(tuple(made)))


WEIGHTS = st.lists(st.floats(0.1, 100), min_size=1, max_size=5)


@given(WEIGHTS, WEIGHTS, st.floats(0.001, 0.999))
def test_share_of_weight_and_kept_ratios(answerable: list[float], unanswerable: list[float], share: float) -> None:
    weighted = weigh_unanswerable(mixed(answerable, unanswerable), share)
    weights = [question.weight or 0.0 for question in weighted.golden.questions]
    first, second = weights[: len(answerable)], weights[len(answerable) :]
    assert sum(second) / sum(weights) == pytest.approx(share)
    for before, after in ((answerable, first), (unanswerable, second)):
        assert [one / after[0] for one in after] == pytest.approx([one / before[0] for one in before])
    (note,) = weighted.notes
    assert note.startswith(f"success.unanswerable={share:g}: {len(second)} unanswerable question")


def test_unanswerable_questions_are_left_as_they_are_or_left_out() -> None:
    dataset = mixed([None] * 3, [None])
    assert weigh_unanswerable(dataset, None) is dataset
    without = weigh_unanswerable(dataset, 0).golden
    assert [question.answerable for question in without.questions] == [True] * 3
    assert without.left_out == {"unanswerable questions (success.unanswerable=0)": 1}
    assert weigh_unanswerable(mixed([None] * 3, []), 0).golden.left_out == {}


NO_SHARES = (1, -0.1, "half", True, float("nan"))
RANGE = "must be null, or a number of at least 0 and below 1, got"


@pytest.mark.parametrize(
    ("kinds", "share", "fact"),
    [
        *(((1, 1), wrong, f"{RANGE} {wrong!r}") for wrong in NO_SHARES),
        ((2, 0), 0.2, "none of the 2 questions is unanswerable; use success.unanswerable=null"),
        ((0, 2), 0.2, "none of the 2 questions is answerable; use success.unanswerable=null"),
        ((0, 2), 0, "none of the 2 questions is answerable; use success.unanswerable=null"),
    ],
)
def test_share_that_cannot_be_is_refused(kinds: tuple[int, int], share: Any, fact: str) -> None:
    dataset = mixed([None] * kinds[0], [None] * kinds[1])
    with pytest.raises(ConfigError, match=rf"^success\.unanswerable.*: {re.escape(fact)}$"):
        weigh_unanswerable(dataset, share)
