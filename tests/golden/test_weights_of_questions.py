"""Weights of questions are read from every format that has them, and a bad one is refused with its place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.errors import InputError
from ragsweep.core.types import Dataset, GoldenSet, Question, weights_of
from ragsweep.golden.clusters import clusters
from ragsweep.golden.partition import holdout
from ragsweep.parts.datasets import Beir, Csv, Jsonl, Squad


def write(file: Path, rows: Sequence[dict[str, Any]]) -> str:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def jsonl(folder: Path, weights: Sequence[Any]) -> Dataset:
    rows = [{"id": f"q{n}", "question": f"what is {n}?", "weight": one} for n, one in enumerate(weights)]
    corpus = write(folder / "corpus.jsonl", [{"id": "d", "text": "an apple"}])
    return Jsonl(corpus, write(folder / "golden.jsonl", rows), "error", None, 0, False).load()


def csv(folder: Path, weights: Sequence[Any]) -> Dataset:
    cells = ["" if one is None else str(one).lower() for one in weights]
    (folder / "golden.csv").write_text(
        "id,question,weight\n" + "".join(f"q{n},what is {n}?,{cell}\n" for n, cell in enumerate(cells))
    )
    corpus = write(folder / "corpus.jsonl", [{"id": "d", "text": "an apple"}])
    return Csv(corpus, str(folder / "golden.csv"), None, None, None, "error", None, 0).load()


def beir(folder: Path, weights: Sequence[Any]) -> Dataset:
    write(folder / "corpus.jsonl", [{"_id": "d", "text": "an apple"}])
    rows = [{"_id": f"q{n}", "text": f"what is {n}?", "metadata": {"weight": one}} for n, one in enumerate(weights)]
    write(folder / "queries.jsonl", [*rows, {"_id": "other split", "text": "what?"}])
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
        (-2, '"weight" is -2; give a number above 0, or leave out the question if nobody asks it'),
        (0, '"weight" is 0; give a number above 0, or leave out the question if nobody asks it'),
        ("often", '"weight" is "often", not a number'),
        (True, r'"weight" is "?true"?, not a number'),
        (1e12, r'"weight" is 1000000000000.0, which is beyond 1e\+09'),
        (None, 'question "q1" has no "weight", and 2 of 3 questions have one; give every question a weight, or none'),
    ],
)
def test_a_bad_weight_is_one_fault_with_its_place_and_value(read: Any, weight: Any, fact: str, tmp_path: Path) -> None:
    place = {jsonl: "golden.jsonl:2", csv: "golden.csv:3", beir: "queries.jsonl:2",
             squad: r"squad.json:\$.data\[0\].paragraphs\[0\].qas\[1\]"}[read]  # fmt: skip
    with pytest.raises(InputError, match=f"{place}: {fact}$") as caught:
        read(tmp_path, [1, weight, 3])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("read", "fact"), [(jsonl, "NaN is no JSON value"), (csv, '"weight" is "nan", not a number')])
def test_no_number_is_no_weight(read: Any, fact: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=fact):
        read(tmp_path, [1, float("nan")])


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
