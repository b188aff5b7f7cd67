"""Admission tests by hand: copied wording, evidence that is not alone, and answers that need no evidence."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llm_server import LlmServer, ModelRequest
from ragsweep.core.types import Corpus, Passage
from ragsweep_golden.commands import golden
from ragsweep_golden.gates.admission import admit, is_right
from ragsweep_golden.gates.set_measures import SET_GATES
from ragsweep_golden.gates.subject import Subject
from support import write_rows
from support.parts import Whole

TEXTS = [
    "The old press of the orchard holds 40 litres of juice.",
    "Last winter the press of the orchard was sold, with 40 litres of juice in it.",
    "The cellar keeps the cider cold all year.",
    "Nobody enters the barn at night.",
]


def subject() -> Subject:
    corpus = Corpus(["press", "sale", "cellar", "barn"], [""] * 4, TEXTS)
    entries = [
        entry("copied", "How much juice holds the old press of the orchard?", "40 litres of juice", "press"),
        entry("own", "Where does a drink stay fresh in summer?", "The cellar keeps the cider cold", "cellar"),
        {"id": "no", "question": "Who is Zebulon?", "answerable": False},
    ]
    return Subject(entries, corpus, Whole().split(corpus))


def entry(name: str, question: str, answer: str, document: str) -> dict[str, Any]:
    return {"id": name, "question": question, "reference": answer, "evidence": [{"document": document}]}


def test_wording_and_ambiguity_by_hand() -> None:
    copied, ambiguous = (SET_GATES[gate][2] for gate in ("G6-1", "G6-3"))
    found = copied(subject())
    assert (found.value, [fault.id for fault in found.faults]) == (1 / 2, ["copied"])
    found = ambiguous(subject())
    assert (found.value, found.note) == (0, "0 of 2")  # "holds" and "old" are not in the other chunk
    assert [(one.measured, one.note) for one in admit(subject(), None)] == [
        (0, "no model; add llm=openai llm.model=NAME")
    ] * 2
    entries = [
        {**one, "question": one["question"].replace("How much juice holds the old", "Which juice is in the")}
        for one in subject().entries
    ]
    (fault,) = ambiguous(replace(subject(), entries=entries)).faults
    assert (fault.id, fault.why.partition(":")[0]) == ("copied", "is also answered by sale")


def test_a_model_that_needs_no_evidence_is_found_out_and_the_evidence_is_kept_from_it() -> None:
    shown: list[tuple[Passage, ...]] = []

    def ask(questions: Sequence[tuple[str, tuple[Passage, ...]]]) -> list[str | None]:
        shown.extend(passages for _, passages in questions)
        return ["It holds 40 litres of juice." if "press" in text else None for text, _ in questions]

    without_context, without_evidence = admit(subject(), ask)
    assert without_context.found == without_evidence.found == ("copied",)
    assert (without_context.measured, without_context.note) == (1, "1 call failed")
    assert shown[:2] == [(), ()]
    assert [passage.text for passage in shown[2]] == [TEXTS[1]]
    assert TEXTS[2] not in [passage.text for passage in shown[3]]


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("40 litres of juice", True),
        ("It is juice, and the litres are 40", True),
        ("50 litres of juice", False),
        ("40", False),
        ("", False),
    ],
)
def test_an_answer_is_right_where_it_has_the_numbers_and_words_of_the_reference(answer: str, right: bool) -> None:
    assert is_right(answer, {"reference": "40 litres of juice", "language": "en"}) == right


@pytest.mark.parametrize("answers", [{"reference": "of stone"}, {}, {"reference": "the 40 litres press"}])
def test_every_right_answer_of_a_question_counts(answers: dict[str, str]) -> None:
    own = {"id": "a", "question": "What does the press hold?"} | answers | {"references": ["40 litres of juice"]}
    assert is_right("It holds 40 litres of apple juice.", own)
    (test, _) = admit(Subject([own]), lambda asked: ["40 litres of juice"] * len(asked))
    assert test.found == ("a",)
    for gate in ("G1-6", "G6-4"):
        _, _, measure = SET_GATES[gate]
        given = own | {"question": "Does the press hold 40 litres of juice?"}
        assert measure(Subject([given])).value == 1, gate


@pytest.fixture
def server() -> Iterator[LlmServer]:
    def answer(request: ModelRequest) -> str:
        return "40 litres of juice" if "<passage" in request.last else "I don't know"

    with LlmServer(answer=answer) as one:
        yield one


def test_the_command_asks_each_question_twice_and_never_again(
    server: LlmServer, cwd: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (cwd / "pages").mkdir()
    for n, text in enumerate(TEXTS):
        (cwd / "pages" / f"{n}.md").write_text(text)
    line = entry("copied", "How much juice holds the old press of the orchard?", "40 litres of juice", "0.md")
    write_rows(cwd / "golden.jsonl", [line])
    model = ["llm=openai", *server.overrides("llm")]
    for embedder in (["embedder=hashing"], []):
        golden(["gates", "golden.jsonl", "corpus=pages", "--json", *embedder, *model])
        found = {one["test"]: one["value"] for one in json.loads(capsys.readouterr().out)["admission"]}
        assert found == {"without_context": 0, "without_evidence": 1}
    assert len(server.log) == 2
