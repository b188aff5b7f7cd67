"""Questions of logs: where they stand, which are new, how often they were asked, and what is proposed."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.errors import Faults, InputError
from ragsweep.core.types import Chunks, Corpus
from ragsweep.golden.golden_format import read_question
from ragsweep.golden.golden_set import find_faults
from ragsweep.golden.reading import Row
from ragsweep_golden.commands.harvest import Asked, as_entries, choose, find_question, read_log
from ragsweep_golden.gates.subject import Floats
from ragsweep_golden.sets.entries import incoherences
from support.parts import Whole

ALDER = "Trees stand everywhere. The alder measures 10 metres when it is old."
CORPUS = Corpus(["alder", "yew"], ["", ""], [ALDER, "The yew is evergreen and slow."])
CHUNKS = Chunks(CORPUS, Whole().split(CORPUS))


@pytest.mark.parametrize(
    ("given", "question"),
    [
        (" Why? ", "Why?"),
        ({"query": "Why?", "user": "Ann"}, "Why?"),
        ({"question": "", "inputs": {"prompt": "Why?"}}, "Why?"),
        ('{"messages": [{"role": "user", "content": "Hello"}, {"role": "user", "content": "Why?"}]}', "Why?"),
        ([{"type": "human", "content": "Why?"}, {"type": "ai", "content": "So."}], "Why?"),
        ({"answer": "So."}, ""),
        (None, ""),
    ],
)
def test_the_question_of_an_input_is_found(given: Any, question: str) -> None:
    assert find_question(given) == question


def test_logs_are_tables_or_json_lines(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("time;query\n1;How tall?\n2;\n")
    (tmp_path / "log.jsonl").write_text('{"input": "How tall?"}\n{"input": null}\n')
    assert read_log(tmp_path / "log.csv") == read_log(tmp_path / "log.jsonl") == ["How tall?", ""]
    (tmp_path / "log.csv").write_text("time,level\n1,info\n")
    with pytest.raises(
        InputError,
        match="no record has a question; the fields are time, level; rename the field of the question to one of",
    ):
        read_log(tmp_path / "log.csv")


def test_a_record_that_cannot_be_read_is_named_and_counted_and_the_others_are_harvested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = ["[404, 500]", '{"question": "[404, 500]"}', "Traceback (most recent call last):", '{"question": "cut o']
    (tmp_path / "log.jsonl").write_text("\n".join(['{"question": "How tall?"}', *odd, '{"question": "Why?"}']))
    assert sorted(read_log(tmp_path / "log.jsonl")) == ["", "", "", "", "How tall?", "Why?"]
    noted = capsys.readouterr().err
    assert noted.startswith("ragsweep: note: 4 records not read:\n")
    assert "log.jsonl:2: [404, 500] where an object {...} is required" in noted
    assert all(f"log.jsonl:{line}:" in noted for line in (2, 3, 4, 5))
    (tmp_path / "log.jsonl").write_text('Server started\n{"question": "How tall?"}\n')
    assert read_log(tmp_path / "log.jsonl") == ["", "How tall?"]
    assert "1 record not read:" in capsys.readouterr().err
    (tmp_path / "log.jsonl").write_text("How tall?\nWhy?\n")
    with pytest.raises(InputError, match=r"log\.jsonl:1: not JSON lines; write one JSON object on each line"):
        read_log(tmp_path / "log.jsonl")


def test_questions_that_differ_in_a_symbol_are_different() -> None:
    asked = ["What is C?", "what is c", "What is C++?", "What is C#?", "Is it < 5?", "Is it > 5?"]
    found = choose(asked, [{"question": "What is C++"}], None)
    assert [one.text for one in found.new] == ["What is C?", "What is C#?", "Is it < 5?", "Is it > 5?"]
    assert len({entry["id"] for entry in as_entries(found.new, CHUNKS, has_weights=False)}) == len(found.new)


TALL, PALE = ["How tall is it?", "how tall is it", "HOW  TALL is it?", "how tall is it"], ["Is it pale?", "is it PALE"]
LOG = [*TALL, *PALE, "Why?", "!", ""]


def test_equal_words_are_one_question_and_the_set_has_its_own() -> None:
    found = choose(LOG, [{"question": "why"}], None)
    assert found == ([Asked("how tall is it", 4), Asked("Is it pale?", 2)], 3, 1, 0)


def test_an_edited_question_is_not_added_again() -> None:
    (entry,) = as_entries([Asked("zebra?", 1)], CHUNKS, False)
    assert choose(["Zebra"], [entry | {"question": "Which zebra?"}], None) == ([], 1, 1, 0)


VECTORS = {
    "how tall is it": [1.0, 0.0],
    "Is it pale?": [0.96, 0.28],
    "Why?": [0.0, 1.0],
    "Of what height?": [0.28, 0.96],
    " ": [np.nan, np.nan],
}


def embed(texts: Sequence[str]) -> Floats:
    return np.array([VECTORS[text] for text in texts], dtype=np.float32)


def test_similar_questions_are_counted_with_the_more_frequent_one() -> None:
    expected = ([Asked("how tall is it", 6)], 3, 0, 2)  # .96 to it, and .96 to that of the set
    assert choose(LOG, [{"question": "Of what height?"}], embed) == expected
    assert choose(LOG, [{"question": " "}, {"question": "Of what height?"}], embed) == expected  # NaN hides no copy


def test_entries_are_silver_with_the_best_sentence_as_evidence() -> None:
    first, second = as_entries([Asked("How tall is the alder in metres?", 7), Asked("zebra?", 1)], CHUNKS, True)
    assert first["evidence"] == [{"document": "alder", "anchor": "The alder measures 10 metres"}]
    assert first["content"] == {"passage": ALDER, "explanation": "The alder measures 10 metres when it is old."}
    assert first["provenance"] == {"document": "alder", "start": 0, "end": len(ALDER)}
    assert first["audit"]["status"] == second["audit"]["status"] == "silver"
    assert first["notes"] == "needs_review: asked 7 times; evidence proposed by BM25"
    assert second["notes"] == "needs_review: asked 1 time; no document contains any of its words"
    assert (first["weight"], second["weight"]) == (7, 1)
    assert "weight" not in as_entries([Asked("zebra?", 1)], CHUNKS, False)[0]
    faults = Faults()
    entries = json.loads(json.dumps([first, second]))
    find_faults([read_question(Row("", entry, faults)) for entry in entries], CORPUS, faults)
    assert faults.found == []
    assert [name for name, _ in incoherences(first)] == ["C2"]  # nobody has written an answer
